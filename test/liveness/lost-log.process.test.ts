/**
 * Tests that a control plane keeps answering after its log was moved away, cut off or replaced, or can no longer be folded.
 * Its health must name the reason, every long-lived client must be ended with a reason, and SIGTERM must end the process.
 */
import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { composeCommit } from '../../shared/log/core/chain.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import type { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { answerOfAdmin } from '../support/ask-admin.ts';
import { recordsOf } from '../support/commits.ts';
import { headOf } from '../support/log-head.ts';
import { operatorToken, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { CliProcess, endsInOrder, health, isFaulted, rawTail } from './clients.ts';

const topic = 'headgate.control';

let fleet: ProcessFleet;
let dir: string;
let replica: Plane;
let admin: DevAdmin;
const commands: CliProcess[] = [];

beforeEach(async () => {
  fleet = new ProcessFleet();
  ({ dir } = fleet);
  replica = await fleet.startPlane('cp');
  admin = fleet.admin(replica);
  for (const id of ['acme', 'bolt', 'core']) await admin.call('POST', '/organisations', { id, name: id });
});
afterEach(async () => {
  for (const { child } of commands.splice(0)) child.kill('SIGKILL');
  await fleet.close();
});

function cli(...args: string[]): CliProcess {
  const one = new CliProcess(args, { HEADGATE_ADMIN: replica.ready.admin, HEADGATE_TOKEN: operatorToken });
  commands.push(one);
  return one;
}

/** Moves only the files of the control log. */
function moveLogFiles(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const file of readdirSync(from))
    if (file.startsWith(`${topic}.db`)) renameSync(join(from, file), join(to, file));
}

function moveAway(): void {
  moveLogFiles(join(dir, 'log'), join(dir, 'lost'));
}

function truncate(): void {
  const db = openDatabase(join(dir, 'log', `${topic}.db`), { durability: 'full' });
  db.exec('DELETE FROM record WHERE "offset" >= 2');
  db.close();
}

async function replace(): Promise<void> {
  const other = await openLog(`sqlite:${dir}/other`, { topic });
  for (const { value } of recordsOf([[], [], [], [], []], { log: 'other-log' })) await other.append(value);
  await other.close();
  moveAway();
  moveLogFiles(join(dir, 'other'), join(dir, 'log'));
}

async function halt(): Promise<void> {
  const log = await openLog(`sqlite:${dir}/log`, { topic });
  const at = new Date().toISOString();
  const events = [{ type: 'galaxy.created', v: 1, critical: true, data: {} }];
  await log.append(composeCommit({ head: await headOf(log), id: 'future', at, by: 'test', events }));
  await log.close();
}

const harms = [
  ['moved away', moveAway, /removed/],
  ['cut off', truncate, /ends (at offset|before commit)/],
  ['replaced by another', replace, /replaced|removed|log other-log/],
  ['ahead of this build', halt, /galaxy\.created is not known to this build/],
] as const;

test.each(harms)(
  'with a log that is %s, health and commands answer, tails and gateway give the reason, and SIGTERM works',
  async (_, harm, reason) => {
    const gateway = await fleet.startGateway('gw', { flags: ['--drain-timeout', '1'] });
    const key = await admin.call('POST', '/keys', { organisation: 'acme', name: 'k', expires: 'never' });
    const tails = await Promise.all([1, 2].map(() => rawTail(replica.ready, operatorToken)));
    const tail = cli('events', 'tail', '--from', '1');
    await vi.waitFor(() => expect(tail.stdout).toContain('"core"'), { timeout: 20_000 });
    await harm();
    await vi.waitFor(
      async () => expect((await health(gateway.ready.metrics, '/readyz?verbose')).text).toMatch(reason),
      { timeout: 20_000 },
    );
    expect((await health(gateway.ready.metrics, '/livez')).status).toBe(200);
    await isFaulted(replica.ready, reason);
    for (const { ended, frames } of tails) {
      const { code, reason: given } = await ended;
      expect([code, given]).toEqual([1011, expect.stringMatching(reason)]);
      expect(frames.map((text) => JSON.parse(text).data.id)).toContain('core');
    }
    await vi.waitFor(() => expect(tail.stderr).toMatch(reason), { timeout: 20_000 });
    expect(tail.stderr).not.toContain(operatorToken);
    expect(await tail.interrupt()).toBe(130);
    await expectAnswers(String(key['id']), Number(key['position']), reason);
    await Promise.all([endsInOrder(gateway), endsInOrder(replica)]);
  },
);

/** Checks that commands, waiting reads and downloads all get a response. */
async function expectAnswers(keyId: string, position: number, reason: RegExp): Promise<void> {
  const env = { HEADGATE_ADMIN: replica.ready.admin };
  const revoke = await fleet.cli(['key', 'revoke', keyId, '--yes', '--wait', '5s'], env);
  expect(revoke.code).toBe(7);
  expect(revoke.stderr).toMatch(/error\[LogUnavailable\]/);
  expect(revoke.stderr).toMatch(/ {2}next {2}\S/);
  const { status, body } = await answerOfAdmin(replica.ready.admin, `/status?min=${position + 5}`);
  const { error } = body as { error: { type: string; message: string; next: string } };
  expect([status, error.type]).toEqual([503, 'LogUnavailable']);
  expect(error.message).toMatch(reason);
  expect(error.next).not.toBe('');
}
