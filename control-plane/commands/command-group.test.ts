/**
 * Tests that concurrent commands are appended together, but decided separately. The random runs use several replicas on a log
 * that loses, duplicates and delays records: a completed command must be in the chain exactly once, at its position, and a
 * refused command never.
 */
import { generateKeyPairSync, sign } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import type { KnownEvent } from '../../schemas/events/events.ts';
import type { Signer } from '../../shared/log/core/signing.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { Replicator } from '../../shared/snapshot/replicator.ts';
import { runs } from '../../test/support/budget.ts';
import { ChainWriter, known } from '../../test/support/commits.ts';
import { type AppendFault, MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { seededRandom } from '../../test/support/random.ts';
import { CommandError } from '../core/command-error.ts';
import type { BoundCommand, CommandResult } from './bound-command.ts';
import { CommandGroups } from './command-group.ts';

const closes: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closes.splice(0)) await close();
});

function newTopic(signer?: Signer): MemoryTopic {
  const topic = new MemoryTopic();
  const { value, signature } = new ChainWriter({ log: 'test-log', ...(signer && { signer }) }).open();
  topic.add(value, signature);
  return topic;
}

interface ReplicaOptions {
  readonly fault?: () => AppendFault;
  readonly signer?: Signer;
}

async function replicaOn(topic: MemoryTopic, { fault = () => 'none', signer }: ReplicaOptions = {}) {
  const snapshot = memorySnapshot();
  const log = new MemoryLog(topic, { fault });
  let ends = 0;
  const counted = Object.assign(Object.create(log) as MemoryLog, {
    append: log.append.bind(log),
    tail: log.tail.bind(log),
    end: () => {
      ends++;
      return log.end();
    },
  });
  // The long interval keeps the replicator from probing the end of the log without being asked.
  const replicator = new Replicator({ snapshot, log: counted, probeIntervalMs: 3_600_000 });
  replicator.start();
  closes.push(() => replicator.stop());
  await replicator.caughtUp(10_000);
  const groups = new CommandGroups({ snapshot, replicator, log: counted, signer });
  const organisations = (): unknown[] =>
    snapshot.db.prepare('SELECT id FROM organisation ORDER BY id').pluck().all();
  return { snapshot, replicator, groups, organisations, endsAsked: () => ends };
}
type Replica = Awaited<ReturnType<typeof replicaOn>>;

/** Creates an organisation; a second one with the same id is refused. */
function create(replica: Replica, organisation: string, more: Partial<BoundCommand> = {}): BoundCommand {
  const plan = () => {
    const sql = 'SELECT 1 FROM organisation WHERE id = ?';
    if (replica.snapshot.db.prepare(sql).get(organisation) !== undefined)
      throw new CommandError('Conflict', `${organisation} exists already`);
    const data = { id: organisation, name: 'O', tier: null, anchor: '2026-01-01' };
    return { events: [known('organisation.set', data)], answer: () => ({ organisation }) };
  };
  const id = `create-${organisation}`;
  return { id, hash: id, by: 'operator', plan, repeated: () => ({ organisation }), ...more };
}

const outcomeOf = (run: Promise<CommandResult>): Promise<CommandResult | CommandError> =>
  run.catch((error: unknown) => {
    if (error instanceof CommandError) return error;
    throw error;
  });

test('commands waiting together are folded to the head once, and each gets its own commit', async () => {
  const topic = newTopic();
  const replica = await replicaOn(topic);
  const before = replica.endsAsked();
  const names = Array.from({ length: 40 }, (_, n) => `org-${n}`);
  const results = await Promise.all(names.map((name) => replica.groups.run(create(replica, name))));
  expect(results.map(({ status, position }) => [status, position])).toEqual(
    names.map((_, n) => ['done', n + 2]),
  );
  expect([topic.end, replica.snapshot.seq]).toEqual([41, 41]);
  expect(replica.endsAsked() - before).toBeLessThan(20);
  expect(results.map(({ answer }) => answer)).toEqual(names.map((organisation) => ({ organisation })));
});

test('each command sees the effects of those before it: refusals, positions, repeats and dry runs', async () => {
  const replica = await replicaOn(newTopic());
  const { groups } = replica;
  const outcomes = await Promise.all([
    outcomeOf(groups.run(create(replica, 'a'))),
    outcomeOf(groups.run(create(replica, 'a', { id: 'another', hash: 'another' }))),
    outcomeOf(groups.run(create(replica, 'b', { ifAt: 2 }))),
    outcomeOf(groups.run(create(replica, 'c', { ifAt: 2 }))),
    outcomeOf(groups.run(create(replica, 'a'))),
    outcomeOf(groups.run(create(replica, 'd', { dryRun: true }))),
    outcomeOf(groups.run(create(replica, 'd'))),
  ]);
  expect(outcomes).toMatchObject([
    { status: 'done', position: 2 },
    { type: 'Conflict', message: 'a exists already' },
    { status: 'done', position: 3 },
    { type: 'PositionMoved', message: 'the state is at position 3, not 2' },
    { status: 'repeated', position: 2 },
    { status: 'dry-run', position: 3, answer: { organisation: 'd' } },
    { status: 'done', position: 4 },
  ]);
  expect(replica.organisations()).toEqual(['a', 'b', 'd']);
});

test('commands decided on a commit that the log does not have are decided again', async () => {
  const topic = newTopic();
  // Loses the first record of the first group, so that it never reaches the log.
  const faults: AppendFault[] = ['refused'];
  const replica = await replicaOn(topic, { fault: () => faults.shift() ?? 'none' });
  const outcomes = await Promise.allSettled([
    replica.groups.run(create(replica, 'a')),
    replica.groups.run(create(replica, 'a', { id: 'another', hash: 'another' })),
    replica.groups.run(create(replica, 'b')),
  ]);
  expect(outcomes).toMatchObject([
    { status: 'rejected', reason: { message: 'the log refused this append' } },
    { status: 'fulfilled', value: { status: 'done' } },
    { status: 'fulfilled', value: { status: 'done' } },
  ]);
  expect(replica.organisations()).toEqual(['a', 'b']);
});

test('a state previewed for other commands is not kept', async () => {
  const replica = await replicaOn(newTopic());
  const twin = await replicaOn(newTopic());
  const names = Array.from({ length: 20 }, (_, n) => `org-${n}`);
  await Promise.all(names.map((name) => replica.groups.run(create(replica, name))));
  for (const name of names) await twin.groups.run(create(twin, name));
  expect(replica.snapshot.digests()).toEqual(twin.snapshot.digests());
});

function newSigner(): Signer {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const der = publicKey.export({ type: 'spki', format: 'der' });
  return { publicKey: der.toString('base64'), sign: (raw) => sign(null, raw, privateKey) };
}

test('nothing is appended after a change of the signers before the change is in force', async () => {
  const [signer, other] = [newSigner(), newSigner()];
  const replica = await replicaOn(newTopic(signer), { signer });
  const events: KnownEvent[] = [known('log.signers_set', { signers: [other.publicKey] })];
  const leave = { ...create(replica, 'signers'), plan: () => ({ events, answer: () => ({}) }) };
  const outcomes = await Promise.all([
    outcomeOf(replica.groups.run(create(replica, 'a'))),
    outcomeOf(replica.groups.run(leave)),
    outcomeOf(replica.groups.run(create(replica, 'b'))),
  ]);
  expect(outcomes).toMatchObject([
    { status: 'done' },
    { status: 'done' },
    { type: 'LogUnavailable', message: expect.stringContaining('its key is not among the signers') },
  ]);
  expect(replica.organisations()).toEqual(['a']);
});

const seed = Number(process.env['HEADGATE_SEED'] ?? Date.now() % 1_000_000);
const faultKinds: readonly AppendFault[] = ['lost', 'duplicated', 'delayed', 'ack-lost', 'refused'];

/** Runs several replicas, each with many commands at once. Some commands run on more than one replica. */
async function randomRun(random: () => number): Promise<Record<string, number>> {
  const below = (max: number): number => Math.floor(random() * max);
  const topic = newTopic();
  let share = random() * 0.6;
  const fault = (): AppendFault =>
    random() < share ? (faultKinds[below(faultKinds.length)] ?? 'none') : 'none';
  const replicas = [await replicaOn(topic, { fault }), await replicaOn(topic, { fault })];
  const issued: { id: string; organisation: string; outcome: CommandResult | CommandError | undefined }[] =
    [];
  const running = Array.from({ length: 30 }, async () => {
    for (let waits = below(4); waits > 0; waits--) await turn();
    const replica = replicas[below(replicas.length)] as Replica;
    const organisation = `org-${below(20)}`;
    const id = `create-${organisation}-${below(2)}`;
    const run = replica.groups.run(create(replica, organisation, { id, hash: id }));
    const outcome = await run.catch((error: unknown) => (error instanceof CommandError ? error : undefined));
    issued.push({ id, organisation, outcome });
  });
  const all = Promise.all(running);
  // Delayed records arrive eventually and faults stop after a while, so that every command finishes.
  const release = setInterval(() => topic.delayed > 0 && topic.release(below(topic.delayed)), 5);
  setTimeout(() => (share = 0), 200);
  await all;
  clearInterval(release);
  while (topic.delayed > 0) topic.release();
  await Promise.all(replicas.map(({ replicator }) => replicator.caughtUp(10_000)));
  const [one, two] = replicas as [Replica, Replica];
  expect(one.snapshot.digests()).toEqual(two.snapshot.digests());
  const counts: Record<string, number> = {};
  for (const { organisation, outcome } of issued) {
    const kind = outcome instanceof CommandError ? outcome.type : (outcome?.status ?? 'not written');
    counts[kind] = (counts[kind] ?? 0) + 1;
    if (outcome === undefined || outcome instanceof CommandError) {
      if (outcome?.type === 'Conflict') expect(one.organisations()).toContain(organisation);
      continue;
    }
    const at = one.snapshot.journal.commandAt(outcome.position);
    expect(at?.id).toMatch(new RegExp(`^create-${organisation}-`));
  }
  const done = issued.flatMap(({ id, outcome }) =>
    outcome !== undefined && 'status' in outcome && outcome.status === 'done' ? [{ id, outcome }] : [],
  );
  // Compares positions, because both replicas count as the writer if they make the same record of a command within a
  // millisecond.
  expect(new Set(done.map(({ outcome }) => outcome.position)).size).toBe(
    new Set(done.map(({ id }) => id)).size,
  );
  return counts;
}

test(`in random runs from seed ${seed} on, every given response holds`, async () => {
  const counts: Record<string, number> = {};
  for (let n = 0; n < runs({ fast: 8, full: 20 }); n++) {
    const found = await randomRun(seededRandom(seed + n));
    for (const [kind, count] of Object.entries(found)) counts[kind] = (counts[kind] ?? 0) + count;
    for (const close of closes.splice(0)) await close();
  }
  expect(Object.keys(counts)).toEqual(
    expect.arrayContaining(['done', 'repeated', 'Conflict', 'not written']),
  );
});
