/**
 * Paying callers while visitors attack the playground of two gateways: 10 000 attempts at a new cookie from 1 000 loopback
 * addresses, and with each cookie a turn that is stopped, at the bound of a body, or plain. The attack is a process of its own
 * at the lowest priority, so that its cost is not taken for the gateways'; the same attack on two servers that do nothing comes first, as
 * the reference. Linux, where all of 127.0.0.0/8 can be sent from.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { constants, setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startProcess } from '../test/support/processes.ts';
import { cpuMicroseconds, rssMegabytes } from './support/cpu.ts';
import { Connection, percentile, requestBytes } from './support/load.ts';

interface Dev {
  readonly admin: string;
  readonly operatorToken: string;
  readonly gateways: readonly { readonly api: string; readonly play: string }[];
  readonly organisations: readonly { readonly key: string }[];
  readonly pids: Readonly<Record<string, number>>;
}

const paidEveryMs = 25;
const sampleEveryMs = 5000;
const seconds = Number(process.env['BENCH_SECONDS'] ?? 30);

const dir = mkdtempSync(join(tmpdir(), 'headgate-visitors-'));
const dev = await startProcess<Dev>({
  ...{ dir, name: 'dev', timeoutMs: 60_000 },
  args: ['dev', '--data', join(dir, 'data'), '--port', '0', '--admin-port', '0', '--metrics-port', '0'],
  env: { HEADGATE_CONTEXT: join(dir, 'context.json'), HEADGATE_GATEWAY_TOKEN: '' },
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

async function paidRequest(n: number): Promise<{ readonly status: number; readonly microseconds: number }> {
  const index = n % targets.length;
  const target = targets[index] as (typeof targets)[number];
  const connection = idle[index]?.pop() ?? new Connection(target.port);
  const beganMs = performance.now();
  const status = await connection.send(target.bytes);
  if (status === 0) connection.close();
  else idle[index]?.push(connection);
  return { status, microseconds: (performance.now() - beganMs) * 1000 };
}

const memory: string[] = [];
const sampler = setInterval(
  () => memory.push(gatewayPids.map((pid) => Math.round(rssMegabytes(pid))).join('+')),
  sampleEveryMs,
);

/** Forty paid requests a second, until the work has ended and for so long at least. */
async function paid(name: string, forSeconds: number, work: Promise<unknown> = Promise.resolve()) {
  const started: ReturnType<typeof paidRequest>[] = [];
  const cpuBefore = gatewayPids.map(cpuMicroseconds);
  const beganMs = performance.now();
  let isWorking = true;
  void work.then(() => {
    isWorking = false;
  });
  while (isWorking || performance.now() < beganMs + forSeconds * 1000) {
    started.push(paidRequest(started.length));
    await pause(paidEveryMs);
  }
  const answers = await Promise.all(started);
  const elapsedMs = performance.now() - beganMs;
  const good = answers.filter(({ status }) => status === 200);
  const times = Float64Array.from(good.map(({ microseconds }) => microseconds)).sort();
  const ms = (p: number): number => Math.round(percentile(times, p) / 100) / 10;
  const cores = gatewayPids.map(
    (pid, index) => (cpuMicroseconds(pid) - (cpuBefore[index] ?? 0)) / 1000 / elapsedMs,
  );
  const row = {
    ...{ requests: answers.length, refused: answers.length - good.length },
    ...{ p50: ms(50), p99: ms(99), most: ms(100) },
    cores: cores.map((share) => Math.round(share * 100) / 100),
  };
  console.log(name.padEnd(14), JSON.stringify(row));
  return row;
}

const scriptOf = (name: string): string => new URL(`./support/${name}.js`, import.meta.url).pathname;

async function attack(plays: readonly string[], net = 1): Promise<Readonly<Record<string, number>>> {
  const file = scriptOf('attack-visitors');
  const child = spawn(process.execPath, [file, String(net), ...plays], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
  let text = '';
  for await (const chunk of child.stdout) text += chunk;
  return JSON.parse(text);
}

async function barePlayground(): Promise<{ readonly url: string; readonly stop: () => void }> {
  const child = spawn(process.execPath, [scriptOf('bare-playground')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const port = await new Promise<string>((resolve) =>
    child.stdout.once('data', (chunk: Buffer) => resolve(String(chunk))),
  );
  return { url: `http://127.0.0.1:${port}`, stop: () => child.kill('SIGKILL') };
}

async function visitorTokens(): Promise<{ readonly used: number; readonly limit: number | null }> {
  const authorization = `Bearer ${dev.ready.operatorToken}`;
  const use = await fetch(`${dev.ready.admin}/admin/v1/limits/visitors`, { headers: { authorization } });
  return ((await use.json()) as { tokens: { used: number; limit: number | null } }).tokens;
}

await paid('warm-up', seconds / 3);
const calm = await paid('calm', seconds);
// The same attack on processes that do nothing: what it costs paying callers is the machine's part.
const bare = await Promise.all(gateways.map(barePlayground));
const referenceAttack = attack(bare.map(({ url }) => url));
const reference = await paid('reference', seconds, referenceAttack);
await referenceAttack;
for (const { stop } of bare) stop();
await paid('calm again', seconds);
const attacking = attack(gateways.map(({ play }) => play));
const attacked = await paid('under attack', seconds, attacking);
const after = await paid('afterwards', seconds);
const outcomes = await attacking;
// From other networks, once the code that the first one ran is compiled.
const repeated = await paid(
  'attacked again',
  seconds,
  attack(
    gateways.map(({ play }) => play),
    2,
  ),
);
const tokens = await visitorTokens();
clearInterval(sampler);
for (const connection of idle.flat()) connection.close();
await dev.end();
rmSync(dir, { recursive: true, force: true });
console.log(JSON.stringify({ calm, reference, attacked, repeated, after, outcomes, tokens, memory }));
