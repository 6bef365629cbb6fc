// Tests that a process without free file descriptors reports this, and does not blame its nodes. Uses prlimit to lower the
// limits of real processes, at their start or while they run. Without prlimit the tests are skipped with a notice.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { model, ProcessFleet } from '../support/process-fleet.ts';
import { binary } from '../support/processes.ts';
import { until } from '../support/until.ts';

const hasPrlimit = spawnSync('prlimit', ['--version']).status === 0;
const fleet = new ProcessFleet();
/** Opens a single connection before the limit is lowered, and reuses it for all requests. */
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
let gateway: Awaited<ReturnType<typeof start>>;
let adminUrl: string;
let key: string;

async function start() {
  const {
    plane,
    gateway: started,
    key: ofOrganisation,
  } = await fleet.stand({
    gateway: { env: { HEADGATE_LOG_LEVEL: 'info' } },
  });
  adminUrl = plane.ready.admin;
  key = ofOrganisation;
  await until(async () => (await call(`${started.ready.api}/models`)).text.includes(model));
  return started;
}

beforeAll(async () => {
  if (hasPrlimit) gateway = await start();
  else process.stderr.write('prlimit is missing: what happens without file descriptors is not tested\n');
});
afterAll(async () => {
  agent.destroy();
  await fleet.close();
});

async function call(url: string, body?: object): Promise<{ status: number; text: string }> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request(url, { agent, headers, method: body === undefined ? 'GET' : 'POST' }, resolve)
      .on('error', reject)
      .end(body === undefined ? undefined : JSON.stringify(body));
  });
  let text = '';
  for await (const piece of response) text += String(piece);
  return { status: response.statusCode ?? 0, text };
}

const limitFiles = (pid: number, soft: number | string): void => {
  execFileSync('prlimit', ['--pid', String(pid), `--nofile=${soft}:`]);
};

test.skipIf(!hasPrlimit)(
  'a gateway without a file descriptor for its node blames itself, and serves again once it has one',
  async () => {
    const pid = gateway.child.pid as number;
    const ask = () =>
      call(`${gateway.ready.api}/chat/completions`, {
        model,
        messages: [{ role: 'user', content: 'hello' }],
      });
    await call(`${gateway.ready.api}/models`);
    await call(`${gateway.ready.metrics}/readyz`);
    const before = /^Max open files\s+(\d+)/m.exec(
      execFileSync('cat', [`/proc/${pid}/limits`]).toString(),
    )?.[1];
    // The first three descriptors are always in use, so no free one is left.
    limitFiles(pid, 3);
    try {
      // Sends more failing requests than it takes to eject a node.
      for (let count = 0; count < 10; count++)
        expect(await ask()).toMatchObject({
          status: 503,
          text: expect.stringContaining('InferenceUnavailableError'),
        });
      const { status, text } = await call(`${gateway.ready.metrics}/readyz?verbose`);
      expect([status, text]).toEqual([
        503,
        expect.stringContaining('[-]files this process has no file descriptor left'),
      ]);
      await until(async () =>
        gateway.stderr().includes('"cause":"this gateway has no file descriptor left: EMFILE"'),
      );
      expect(gateway.stderr()).toContain('"event":"process.out_of_files"');
      // If one metric cannot be collected, the other metrics are still reported.
      const metrics = await call(`${gateway.ready.metrics}/metrics`);
      expect([metrics.status, metrics.text]).toEqual([
        200,
        expect.stringMatching(/^headgate_file_shortages_total [1-9]/m),
      ]);
      expect(metrics.text).toContain('# headgate_file_bytes cannot be collected now');
      await until(async () => {
        await ask();
        const { stdout } = await fleet.cli(['doctor', '--only', 'gateways'], { HEADGATE_ADMIN: adminUrl });
        return stdout.includes('HG4014') && stdout.includes('gateway-1');
      }, 60_000);
    } finally {
      limitFiles(pid, before ?? 'unlimited');
    }
    // The request is served at once, because the node was never ejected.
    expect((await ask()).status).toBe(200);
    const { text } = await call(`${gateway.ready.metrics}/metrics`);
    expect(text).toMatch(/^headgate_file_shortages_total [1-9]/m);
  },
);

test('a process that may open few files accepts fewer connections and says how many', async () => {
  const few = 400;
  const shell = ['-c', `ulimit -n ${few} && exec "$@"`, 'sh', process.execPath, binary];
  const child = spawn('sh', [...shell, 'sim-node', '--port', '0', '--models', model], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(child, 'exit');
  let lines = '';
  child.stderr.on('data', (piece) => {
    lines += String(piece);
  });
  await until(async () => lines.includes('connections.capped'));
  child.kill('SIGKILL');
  await ended;
  expect(lines).toContain(`"asked":10000,"accepted":${few - 128},"openFilesMax":${few}`);
});
