// Tests that if an operator makes a mistake when starting a process, the error names the next step and nothing is left half
// done.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { openLog } from '../../shared/log/open-log.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { runCommand } from '../support/commands.ts';
import { startProcess } from '../support/processes.ts';

const root = mkdtempSync(join(tmpdir(), 'headgate-bad-start-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const token = 'bad-start-operator-token';
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(root, 'case-'));
});

const plane = (): string[] => [
  'control-plane',
  '--log',
  `sqlite:${dir}/log`,
  '--data',
  `${dir}/cp`,
  '--name',
  'cp',
  '--port',
  '0',
  '--metrics-port',
  '0',
];
const gateway = (): string[] => [
  'gateway',
  '--log',
  `sqlite:${dir}/log`,
  '--data',
  `${dir}/gw`,
  '--name',
  'gw',
  '--port',
  '0',
  '--metrics-port',
  '0',
];
const gatewayToken = 'a-gateway-token-of-this-test';
const env = { HEADGATE_OPERATOR_TOKEN: token, HEADGATE_GATEWAY_TOKEN: gatewayToken };

/** Returns the standard error of a command that refuses to run. */
async function refusal(args: readonly string[], exitCode = 1): Promise<string> {
  const { code, stderr } = await runCommand(args, { env: { HEADGATE_LOG_LEVEL: 'fatal', ...env } });
  expect(code).toBe(exitCode);
  return stderr;
}

async function started(
  args: readonly string[],
): Promise<Awaited<ReturnType<typeof startProcess<{ admin: string }>>>> {
  return startProcess<{ admin: string }>({ dir, name: 'process', args, env });
}

test('a data folder in use is refused, and free again once its process is killed', async () => {
  const first = await started(plane());
  const stderr = await refusal(plane());
  expect(stderr).toMatch(/in use by another process.*--data/s);
  await first.end('SIGKILL');
  await (await started(plane())).end();
});

test('an unwritable data folder is named', async () => {
  writeFileSync(join(dir, 'file'), '');
  const args = plane().map((arg) => (arg === `${dir}/cp` ? join(dir, 'file', 'cp') : arg));
  const stderr = await refusal(args);
  expect(stderr).toMatch(/data folder .*--data/s);
});

test('a log that lost folded commits is refused by control plane and gateway, and nothing is served', async () => {
  const first = await started(plane());
  await new DevAdmin(first.ready.admin, token).call('POST', '/organisations', { id: 'acme', name: 'Acme' });
  const serving = await startProcess<{ api: string }>({
    dir,
    name: 'gateway',
    args: [...gateway(), '--drain-delay', '0'],
    env,
  });
  await serving.end();
  await first.end();
  const db = openDatabase(join(dir, 'log', 'headgate.control.db'), { durability: 'full' });
  db.exec('DELETE FROM record WHERE "offset" = (SELECT max("offset") FROM record)');
  db.close();
  const stderr = await refusal(plane());
  expect(stderr).toMatch(/log (ends before commit|no longer holds commit)/);
  expect(stderr).toContain('docs/backup.md');
});

test('a log of junk and foreign records still gets its first commit, and the rest is skipped', async () => {
  const log = await openLog(`sqlite:${dir}/log`, { topic: 'headgate.control' });
  await log.append(Buffer.from('not a commit'));
  await log.append(
    Buffer.from(
      JSON.stringify({
        v: 1,
        log: 'foreign',
        seq: 7,
        prev: '0'.repeat(64),
        id: 'x',
        at: '',
        by: 'x',
        events: [],
      }),
    ),
  );
  await log.close();
  const first = await started(plane());
  const status = await new DevAdmin(first.ready.admin, token).call('GET', '/status');
  expect(status).toMatchObject({ position: 1, skipped: 2 });
  await first.end();
});

test('a damaged state.db is quarantined and rebuilt from the log', async () => {
  const first = await started(plane());
  await new DevAdmin(first.ready.admin, token).call('POST', '/organisations', { id: 'acme', name: 'Acme' });
  await first.end();
  writeFileSync(join(dir, 'cp', 'state.db'), 'these are not pages');
  const again = await started(plane());
  const admin = new DevAdmin(again.ready.admin, token);
  expect(await admin.call('GET', '/organisations/acme')).toMatchObject({ id: 'acme' });
  expect(again.stderr()).toContain('quarantined');
  await again.end();
});

test('a fleet file with several faults is refused as a whole, each fault with line and column', async () => {
  const file = join(dir, 'fleet.yaml');
  writeFileSync(
    file,
    'version: 1\nmodels: [{ id: "a b", family: f }]\ntiers:\n  - { id: Gold, models: [ghost] }\norganisations:\n  - { id: ACME, name: x }\n',
  );
  const stderr = await refusal(['validate', '-f', file], 2);
  for (const line of [2, 4, 6]) expect(stderr).toMatch(new RegExp(`fleet\\.yaml:${line}:\\d+ `));
});

test('an unknown kind of log is refused with the supported ones', async () => {
  const stderr = await refusal(
    plane().map((arg) => (arg.startsWith('sqlite:') ? 'redis://x' : arg)),
    2,
  );
  expect(stderr).toContain('sqlite:FOLDER');
});
