/**
 * Backups of 100 000 keys and a million usage rows: time and size of the first backup, of the next one, of verify and of
 * restore, as command lines of the built service. `--keys N` and `--rows N` set the numbers.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { openLog } from '../shared/log/open-log.ts';
import { openUsageStore } from '../shared/usage/usage-store.ts';
import { ChainWriter, known, sha256 } from '../test/support/commits.ts';

const { values } = parseArgs({
  options: { keys: { type: 'string', default: '100000' }, rows: { type: 'string', default: '1000000' } },
});
const [keys, rows] = [Number(values.keys), Number(values.rows)];
const dir = mkdtempSync(join(tmpdir(), 'headgate-bench-'));
const binary = new URL('../cli/headgate.js', import.meta.url).pathname;
const writer = new ChainWriter({ log: 'bench' });
const megabytes = (bytes: number): number => Math.round(bytes / 1e5) / 10;

function keyCommit(n: number) {
  const owner = { organisation: 'org-1', expires: 'never', expiresAt: null } as const;
  return writer.add([
    known('key.created', { id: `key-${n}`, name: `key ${n}`, hash: sha256(`${n}`), ...owner }),
  ]);
}

async function addKeys(from: number, count: number): Promise<void> {
  const log = await openLog(`sqlite:${join(dir, 'log')}`, { topic: 'headgate.control' });
  if (from === 0)
    for (const record of [
      writer.open(),
      writer.add([known('organisation.set', { id: 'org-1', name: 'o', tier: null, anchor: '2026-01-01' })]),
    ])
      await log.append(record.value);
  for (let n = from; n < from + count; n += 1000)
    await Promise.all(
      Array.from({ length: Math.min(1000, from + count - n) }, (_, at) =>
        log.append(keyCommit(n + at).value),
      ),
    );
  await log.close();
}

function addUsage(): void {
  const store = openUsageStore(join(dir, 'cp', 'usage.db'), { keepRows: true, acceptUnsigned: true });
  const incarnation = '0191b2c3-0000-4000-8000-000000000001';
  const base = { v: 1, incarnation, at: '2026-11-01T00:00:00.000Z', replica: incarnation, draw: 'pool' };
  for (let n = 0; n < rows; n += 500) {
    const batch = Array.from({ length: 500 }, (_, at) => ({
      ...{
        ...base,
        n: n + at + 1,
        organisation: `org-${at % 100}`,
        period: '2026-11-01',
        model: 'echo-small',
      },
      ...{ promptTokens: 120, completionTokens: 80, key: `key-${at}`, ttftMs: 120, durationMs: 900 },
      requestId: `req_${sha256(`${n + at}`).slice(0, 24)}`,
    }));
    store.apply(0, [{ offset: n / 500, value: Buffer.from(JSON.stringify(batch)), signature: null }]);
  }
  store.close();
}

function run(...args: string[]): number {
  const startMs = performance.now();
  const env = { ...process.env, HEADGATE_LOG: `sqlite:${join(dir, 'log')}` };
  const { status, stderr } = spawnSync(process.execPath, [binary, ...args], { env, encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  return Math.round((performance.now() - startMs) / 100) / 10;
}

function sizes(): Record<string, number> {
  const found: Record<string, number> = {};
  for (const name of readdirSync(join(dir, 'copy')))
    found[name.replace(/-\d+/, '')] = megabytes(statSync(join(dir, 'copy', name)).size);
  return found;
}

try {
  await addKeys(0, keys);
  addUsage();
  const backup = ['backup', join(dir, 'copy'), '--data', join(dir, 'cp')];
  const first = run(...backup);
  const firstSizes = sizes();
  await addKeys(keys, 1000);
  const next = run(...backup);
  const verify = run('backup', 'verify', join(dir, 'copy'));
  const restore = run(
    ...['backup', 'restore', join(dir, 'copy'), '--log', `sqlite:${join(dir, 'new')}`],
    ...['--data', join(dir, 'new-cp'), '--allow-unsigned', '--yes'],
  );
  const figures = {
    ...{ keys, rows, firstSeconds: first, nextSeconds: next, verifySeconds: verify, restoreSeconds: restore },
    logMegabytes: firstSizes['log.jsonl.gz'],
    usageMegabytes: firstSizes['usage.db'],
    logFolderMegabytes: megabytes(statSync(join(dir, 'log', 'headgate.control.db')).size),
  };
  console.table(figures);
  console.log(JSON.stringify(figures));
} finally {
  rmSync(dir, { recursive: true, force: true });
}
