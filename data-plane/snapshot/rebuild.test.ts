/** Tests that a rebuilt snapshot never replaces the one in use if it contains less than what was in force before. */
import { mkdtempSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import type { ReplicaStatus } from '../../schemas/admin/admin.ts';
import { type ControlLog, LogUnavailable } from '../../shared/log/core/control-log.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { askAdmin } from '../../test/support/ask-admin.ts';
import { operatorToken, quiet, startFleet, type TestFleet } from '../../test/support/fleet.ts';
import { folderOfFile } from '../../test/support/folders.ts';
import { portOf } from '../../test/support/listen.ts';
import { type RebuildOptions, rebuildBeside } from './rebuild.ts';

let fleet: TestFleet;
let log: ControlLog;
let olderCopy: Server;
let older: number;
let served: number;
const root = folderOfFile('rebuild');

const status = (): Promise<ReplicaStatus> => fleet.admin.call('GET', '/status');

beforeAll(async () => {
  fleet = await startFleet({ gateways: 0 });
  log = await openLog(fleet.logUrl, { topic: 'headgate.control' });
  const { id } = await fleet.key((await fleet.admin.organisations())[0]!.id);
  const answer = await askAdmin(fleet.controlPlane.admin, '/snapshot');
  const sha256 = answer.headers.get('x-headgate-sha256') ?? '';
  const bytes = Buffer.from(await answer.arrayBuffer());
  older = Number((await status()).position);
  await fleet.admin.call('POST', `/keys/${id}/revoke`, {});
  served = Number((await status()).position);
  olderCopy = createServer((_, response) => {
    response.writeHead(200, { 'x-headgate-sha256': sha256, 'content-length': bytes.length }).end(bytes);
  });
  await portOf(olderCopy);
});
afterAll(async () => {
  olderCopy?.close();
  await log?.close();
  await fleet?.close();
});

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(root, 'case-'));
});

function away(): ControlLog {
  const fault = (): Promise<never> => Promise.reject(new LogUnavailable('the log is away'));
  return {
    append: fault,
    end: fault,
    // biome-ignore lint/correctness/useYield: it fails before there is anything to yield.
    tail: async function* () {
      await fault();
    },
    close: () => Promise.resolve(),
  };
}

async function rebuilt(more: Partial<RebuildOptions>): Promise<number> {
  const { snapshot } = await rebuildBeside({
    path: join(dir, 'state.db'),
    ...{ log, logId: (await status()).log ?? '', servedSeq: served },
    controlPlanes: [`http://127.0.0.1:${(olderCopy.address() as AddressInfo).port}`],
    token: operatorToken,
    trusted: undefined,
    mayProve: () => true,
    logger: quiet,
    ...more,
  });
  onTestFinished(() => snapshot.close());
  return snapshot.seq;
}

test('without the log, a control plane’s older snapshot does not replace the state that was in force', async () => {
  await expect(rebuilt({ log: away() })).rejects.toThrow(
    `position ${older}, but this gateway has served position ${served}`,
  );
});

test('with the log, a control plane’s older snapshot is folded up to the state that was in force', async () => {
  expect(await rebuilt({})).toBeGreaterThanOrEqual(served);
});

test('without the log, a control plane’s snapshot is accepted if it is not older', async () => {
  expect(await rebuilt({ log: away(), servedSeq: older })).toBe(older);
});

test('a log that ends before the position that was in force does not replace the state', async () => {
  const beyond = (await status()).position + 5;
  await expect(rebuilt({ servedSeq: beyond, controlPlanes: [] })).rejects.toThrow(`position ${beyond}`);
});
