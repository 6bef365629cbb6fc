import { createHash } from 'node:crypto';
import { readdirSync, rmSync, statfsSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ControlLog, LogUnavailable } from '../../shared/log/core/control-log.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { systemClock } from '../../shared/runtime/retry.ts';
import { type Database, openDatabase } from '../../shared/runtime/sqlite.ts';
import { openExisting } from '../../shared/snapshot/open-snapshot.ts';
import { askAdmin } from '../../test/support/ask-admin.ts';
import { operatorToken, quiet, startFleet, type TestFleet } from '../../test/support/fleet.ts';
import { folderOfFile } from '../../test/support/folders.ts';
import { forgePosition } from '../../test/support/forged-position.ts';
import { portOf, urlOf } from '../../test/support/listen.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { checkSnapshotSources, fetchSnapshot } from './fetch-snapshot.ts';

let fleet: TestFleet;
let log: ControlLog;
const dir = folderOfFile('fetch');
beforeAll(async () => {
  fleet = await startFleet({ gateways: 0 });
  log = await openLog(fleet.logUrl, { topic: 'headgate.control' });
});
afterAll(async () => {
  await log.close();
  await fleet.close();
});
/** Records the pauses instead of waiting. */
const pausesMs: number[] = [];
const clock = {
  ...systemClock,
  random: () => 0.5,
  sleep: async (ms: number) => {
    pausesMs.push(ms);
  },
};
const options = (name: string) => ({
  path: join(dir, name),
  controlPlanes: [fleet.controlPlane.admin],
  token: operatorToken,
  log,
  logId: undefined,
  logger: quiet,
  clock,
});

test('a gateway without a snapshot starts from a control plane’s, row for row', async () => {
  expect(await fetchSnapshot(options('whole.db'))).toBe(true);
  const { digest, position } = await fleet.admin.call('GET', '/status');
  const snapshot = openExisting(join(dir, 'whole.db'), { readOnly: true });
  expect({ digest: snapshot.digest(), position: snapshot.seq }).toEqual({ digest, position });
  snapshot.close();
});

test.each([
  ['a wrong token', { token: 'not the token' }],
  ['no token', { token: undefined }],
  ['another log', { logId: 'log-of-another-fleet' }],
  ['no control plane', { controlPlanes: ['http://127.0.0.1:1'] }],
])('no snapshot is left in place after %s', async (name, change) => {
  expect(await fetchSnapshot({ ...options(`${name}.db`), ...change })).toBe(false);
  expect(() => openExisting(join(dir, `${name}.db`), { readOnly: true })).toThrow('there is no snapshot');
});

test('a busy control plane is asked again after the time it names', async () => {
  const whole = await askAdmin(fleet.controlPlane.admin, '/snapshot');
  const bytes = Buffer.from(await whole.arrayBuffer());
  const sha256 = whole.headers.get('x-headgate-sha256') ?? '';
  let asked = 0;
  const server = createServer((_request, response) => {
    // Refuse three times: a busy control plane is retried more often than one that fails.
    if (++asked <= 3) response.writeHead(503, { 'retry-after': `${asked}` }).end('{}');
    else response.writeHead(200, { 'x-headgate-sha256': sha256, 'content-length': bytes.length }).end(bytes);
  });
  const controlPlanes = [await urlOf(server)];
  pausesMs.length = 0;
  expect(await fetchSnapshot({ ...options('after-busy.db'), controlPlanes })).toBe(true);
  expect({ asked, pausesMs }).toEqual({ asked: 4, pausesMs: [1000, 2000, 3000] });
  server.close();
});

test.each([
  ['rows do not add up', (db: Database) => db.exec("UPDATE organisation SET tier = 'Platinum'")],
  ['position was changed', (db: Database) => db.exec('UPDATE position SET next_offset = 2')],
  ['position is another commit’s', (db: Database) => forgePosition(db, 'UPDATE position SET seq = seq - 1')],
])('a snapshot whose %s is refused even if it was transferred intact', async (what, change) => {
  await fetchSnapshot(options(`${what}.db`));
  const db = openDatabase(join(dir, `${what}.db`), { durability: 'full' });
  change(db);
  const bytes = db.serialize();
  db.close();
  const server = createServer((_request, response) =>
    response
      .writeHead(200, {
        'x-headgate-sha256': createHash('sha256').update(bytes).digest('hex'),
        'content-length': bytes.length,
      })
      .end(bytes),
  );
  const controlPlanes = [await urlOf(server)];
  expect(await fetchSnapshot({ ...options('changed.db'), controlPlanes })).toBe(false);
  server.close();
});

test('an interrupted download resumes where it ended, and restarts if the copy has changed', async () => {
  const whole = await askAdmin(fleet.controlPlane.admin, '/snapshot');
  const bytes = Buffer.from(await whole.arrayBuffer());
  const head = { 'x-headgate-sha256': whole.headers.get('x-headgate-sha256') ?? '' };
  const half = bytes.length / 2;
  for (const isSame of [true, false]) {
    const asked: (string | undefined)[] = [];
    const server = createServer(({ headers }, response) => {
      asked.push(headers.range);
      if (asked.length === 1) {
        response.writeHead(200, { ...head, etag: '"one"', 'content-length': bytes.length });
        response.write(bytes.subarray(0, half), () => setTimeout(() => response.destroy(), 50));
      } else if (isSame && headers['if-range'] === '"one"')
        response
          .writeHead(206, { ...head, etag: '"one"', 'content-length': bytes.length - half })
          .end(bytes.subarray(half));
      else response.writeHead(200, { ...head, etag: '"two"', 'content-length': bytes.length }).end(bytes);
    });
    const controlPlanes = [await urlOf(server)];
    expect(await fetchSnapshot({ ...options(`broken-${isSame}.db`), controlPlanes })).toBe(true);
    expect(asked).toEqual([undefined, `bytes=${half}-`]);
    server.close();
  }
  expect(readdirSync(dir).filter((name) => name.endsWith('.part'))).toEqual([]);
});

type Answer = (response: ServerResponse) => void;

async function hostile(answer: Answer): Promise<{ readonly url: string; asked(): number; close(): void }> {
  let asked = 0;
  const server = createServer((_request, response) => {
    asked++;
    answer(response);
  });
  const port = await portOf(server);
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return {
    url: `http://127.0.0.1:${port}`,
    asked: () => asked,
    close,
  };
}

const endlessly = (piece: Buffer, everyMs: number, head: Record<string, string>): Answer => {
  return (response) => {
    response.writeHead(200, head);
    const timer = setInterval(() => response.write(piece), everyMs);
    response.once('close', () => clearInterval(timer));
  };
};

test.each<[string, Answer]>([
  ['sends a snapshot drop by drop', endlessly(Buffer.alloc(1), 5, { 'content-length': '100000000' })],
  ['sends one without size and without end', endlessly(Buffer.alloc(65_536), 1, {})],
  [
    'announces one larger than the disk',
    endlessly(Buffer.alloc(1), 5, { 'content-length': '9000000000000000' }),
  ],
  [
    'announces one larger than half of the free disk',
    (response) => {
      const { bavail, bsize } = statfsSync(dir);
      endlessly(Buffer.alloc(1), 5, { 'content-length': `${Math.floor(bavail * bsize * 0.6)}` })(response);
    },
  ],
])('a control plane that %s is abandoned for the next one, and leaves no file', async (_what, answer) => {
  const source = await hostile(answer);
  const asked = { ...options('after-hostile.db'), paceFromMs: 20 };
  expect(await fetchSnapshot({ ...asked, controlPlanes: [source.url] })).toBe(false);
  expect(source.asked()).toBe(1);
  expect(readdirSync(dir).filter((name) => name.includes('after-hostile'))).toEqual([]);
  expect(
    await fetchSnapshot({
      ...options('after-hostile.db'),
      controlPlanes: [source.url, fleet.controlPlane.admin],
      paceFromMs: 20,
    }),
  ).toBe(true);
  rmSync(join(dir, 'after-hostile.db'));
  source.close();
});

/** Returns a copy of the fleet's log that ends at offset `end`. */
async function copyOf(end: number): Promise<MemoryLog> {
  const topic = new MemoryTopic();
  for await (const { records, nextOffset } of log.tail({ from: 0 })) {
    for (const { offset, value, signature } of records) if (offset < end) topic.add(value, signature);
    if (nextOffset >= end) break;
  }
  return new MemoryLog(topic);
}

test('a snapshot is refused if the log does not contain its last commit', async () => {
  const end = await log.end();
  const other = await copyOf(end - 1);
  await other.append(Buffer.from('another record at that place'));
  expect(await fetchSnapshot({ ...options('position.db'), log: other })).toBe(false);
  expect(await fetchSnapshot({ ...options('position.db'), log: await copyOf(end - 1) })).toBe(false);
  expect(await fetchSnapshot({ ...options('position.db'), log: await copyOf(end) })).toBe(true);
});

test('without the log, a snapshot is accepted and compared when the log is back', async () => {
  const away = await copyOf(await log.end());
  away.end = () => Promise.reject(new LogUnavailable('the log is away'));
  expect(await fetchSnapshot({ ...options('away.db'), log: away })).toBe(true);
});

test.each([
  ...['http://10.0.0.1:8081', 'http://control-plane:8081', 'http://localhost.example.com:8081'],
  ...['http://127.0.0.1.example.com:8081', 'http://127.0.0.1@10.0.0.1:8081', 'http://[::2]:8081'],
  ...['ftp://127.0.0.1:8081', 'control-plane:8081', ''],
])('a snapshot may not come from %s, because anyone on the way could change it', (base) => {
  expect(() => checkSnapshotSources(['https://control-plane:8081', base])).toThrow(/--control-plane/);
});

test('a snapshot may come over https or from this machine', () => {
  const fine = [
    'https://10.0.0.1:8081',
    'http://127.0.0.1:8081',
    'http://localhost:8081',
    'http://[::1]:8081',
  ];
  expect(() => checkSnapshotSources([...fine, 'http://10.0.0.1:8081'])).toThrow(
    '--control-plane http://10.0.0.1:8081 is neither https',
  );
});
