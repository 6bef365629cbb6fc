/**
 * Paying callers while visitors attack the playground of two gateways: 10 000 attempts at a new cookie from 1 000 loopback
 * addresses, and with each cookie a turn that is stopped, at the bound of a body, or plain. The attack is a process of its own
 * at the lowest priority, so that its cost is not taken for the gateways'; the same attack on two servers that do nothing comes first, as
 * the reference, and at last one from more connections at once than the gateways let wait. Linux, where all of 127.0.0.0/8 can be sent from.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { constants, setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startProcess } from '../test/support/processes.ts';
import { cpuMicroseconds, rssMegabytes } from './support/cpu.ts';
import { Connection, percentile, requestBytes } from './support/load.ts';
import { startScript } from './support/served.ts';

interface Dev {
  readonly admin: string;
  readonly operatorToken: string;
  readonly gateways: readonly { readonly api: string; readonly play: string }[];
  readonly organisations: readonly { readonly key: string }[];
  readonly pids: Readonly<Record<string, number>>;
}

const paidPerSecond = 200;
const sampleEveryMs = 5000;
const faultsShown = 10;
const floodAtOnce = 1500;
const seconds = Number(process.env['BENCH_SECONDS'] ?? 30);

const dir = mkdtempSync(join(tmpdir(), 'headgate-visitors-'));
const dev = await startProcess<Dev>({
  ...{ dir, name: 'dev', timeoutMs: 60_000 },
  args: ['dev', '--data', join(dir, 'data'), '--port', '0', '--admin-port', '0', '--metrics-port', '0'],
  env: { HEADGATE_CONTEXT: join(dir, 'context.json'), HEADGATE_GATEWAY_TOKEN: undefined },
});
const { gateways, organisations, pids } = dev.ready;
const gatewayPids = Object.entries(pids)
  .filter(([name]) => name.startsWith('gateway'))
  .map(([, pid]) => pid);

const body = JSON.stringify({
  model: 'echo-large',
  messages: [{ role: 'user', content: 'say 3 words' }],
});
const targets = gateways.map(({ api }) => {
  const { port, host, pathname } = new URL(`${api}/chat/completions`);
  const headers = { authorization: `Bearer ${organisations[0]?.key}` };
  return {
    port: Number(port),
    bytes: requestBytes({ port: Number(port), path: pathname, host, headers, body }),
  };
});
const idle = targets.map((): Connection[] => []);
let closedIdle = 0;

/** A connection that the gateway closed while it was idle is no failure. */
function connectionTo(index: number, port: number): Connection {
  let connection = idle[index]?.pop();
  while (connection?.isClosed) {
    closedIdle++;
    connection = idle[index]?.pop();
  }
  return connection ?? new Connection(port);
}

async function paidRequest(n: number) {
  const index = n % targets.length;
  const target = targets[index] as (typeof targets)[number];
  const connection = connectionTo(index, target.port);
  const beganMs = performance.now();
  const status = await connection.send(target.bytes);
  const ms = performance.now() - beganMs;
  if (status === 0) connection.close();
  else idle[index]?.push(connection);
  const fault = status === 0 ? connection.fault : `status ${status}`;
  return { status, ms, fault: `${fault}, after ${Math.round(ms)} ms` };
}

const memory: string[] = [];
const sampler = setInterval(
  () => memory.push(gatewayPids.map((pid) => Math.round(rssMegabytes(pid))).join('+')),
  sampleEveryMs,
);

/** So many paid requests a second, for so long, or while the work lasts. */
async function paid(name: string, during: number | Promise<unknown>) {
  const started: ReturnType<typeof paidRequest>[] = [];
  const cpuBefore = gatewayPids.map(cpuMicroseconds);
  const beganMs = performance.now();
  let isWorking = true;
  void (typeof during === 'number' ? pause(during * 1000) : during).then(() => {
    isWorking = false;
  });
  while (isWorking) {
    // A late turn of this process holds no request back.
    const due = ((performance.now() - beganMs) / 1000) * paidPerSecond;
    while (started.length < due) started.push(paidRequest(started.length));
    await pause(1);
  }
  const elapsedMs = performance.now() - beganMs;
  const cores = gatewayPids.map(
    (pid, index) => (cpuMicroseconds(pid) - (cpuBefore[index] ?? 0)) / 1000 / elapsedMs,
  );
  const answers = await Promise.all(started);
  const faults = answers.filter(({ status }) => status !== 200).map(({ fault }) => fault);
  const times = Float64Array.from(answers.map(({ ms }) => ms)).sort();
  const ms = (p: number): number => Math.round(percentile(times, p) * 10) / 10;
  const row = {
    ...{ seconds: Math.round(elapsedMs / 100) / 10, requests: answers.length, failed: faults.length },
    ...{ p50: ms(50), p90: ms(90), p99: ms(99), p999: ms(99.9), most: ms(100) },
    cores: cores.map((share) => Math.round(share * 100) / 100),
    ...(faults.length > 0 && { faults: faults.slice(0, faultsShown) }),
  };
  console.log(name.padEnd(14), JSON.stringify(row));
  return row;
}

const scriptOf = (name: string): string => new URL(`./support/${name}.js`, import.meta.url).pathname;

async function attack(
  plays: readonly string[],
  net = 1,
  atOnce = 50,
): Promise<Readonly<Record<string, number>>> {
  const file = scriptOf('attack-visitors');
  const child = spawn(process.execPath, [file, String(net), String(atOnce), ...plays], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
  let text = '';
  for await (const chunk of child.stdout) text += chunk;
  return JSON.parse(text);
}

async function visitorTokens(): Promise<{ readonly used: number; readonly limit: number | null }> {
  const authorization = `Bearer ${dev.ready.operatorToken}`;
  const use = await fetch(`${dev.ready.admin}/admin/v1/limits/visitors`, { headers: { authorization } });
  return ((await use.json()) as { tokens: { used: number; limit: number | null } }).tokens;
}

const plays = gateways.map(({ play }) => play);
await paid('warm-up', seconds / 3);
const calm = await paid('calm', seconds);
// The same attack on processes that do nothing: what it costs paying callers is the machine's part.
const bare = await Promise.all(gateways.map(() => startScript('bare-playground')));
const bareAttack = attack(bare.map(({ port }) => `http://127.0.0.1:${port}`));
const reference = await paid('reference', bareAttack);
for (const { stop } of bare) stop();
await paid('calm again', seconds);
const attacking = attack(plays);
const attacked = await paid('under attack', attacking);
const after = await paid('afterwards', seconds);
// From other networks, and more connections at once than the gateways let wait.
const flooding = attack(plays, 2, floodAtOnce);
const flooded = await paid('flooded', flooding);
const outcomes = { attacked: await attacking, reference: await bareAttack, flooded: await flooding };
const tokens = await visitorTokens();
clearInterval(sampler);
for (const connection of idle.flat()) connection.close();
await dev.end();
rmSync(dir, { recursive: true, force: true });
console.log(
  JSON.stringify({ calm, reference, attacked, after, flooded, outcomes, closedIdle, tokens, memory }),
);
