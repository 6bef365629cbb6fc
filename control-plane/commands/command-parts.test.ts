import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { commitBytesMax } from '../../schemas/events/commit.ts';
import { type KnownEvent, toStored } from '../../schemas/events/events.ts';
import type { Fleet } from '../../schemas/events/fleet.ts';
import { composeCommit } from '../../shared/log/core/chain.ts';
import { atOnce } from '../../shared/runtime/slices.ts';
import { openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';
import { Replicator } from '../../shared/snapshot/replicator.ts';
import { ChainWriter, known } from '../../test/support/commits.ts';
import { folderOfTest } from '../../test/support/folders.ts';
import { largeFleet } from '../../test/support/large-fleet.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { operator } from './authorise.ts';
import type { CommandRequest } from './bound-command.ts';
import { firstPart, sizedPlan } from './command-parts.ts';
import { CommandWriter } from './command-writer.ts';
import type { CommandDefinition } from './definition.ts';
import { exportFleet } from './fleet.ts';
import { commandsByName } from './registry.ts';

type DropFirst<List> = List extends [unknown, ...infer Rest] ? Rest : never;
let folder: string;
beforeEach(() => {
  folder = folderOfTest('parts');
});

function replica(name = 'state') {
  const topic = new MemoryTopic();
  topic.add(new ChainWriter({ log: name }).open().value);
  const log = new MemoryLog(topic);
  const { snapshot } = openOrRebuild(join(folder, `${name}.db`));
  const replicator = new Replicator({ snapshot, log });
  replicator.start();
  onTestFinished(async () => {
    await replicator.stop();
    snapshot.close();
  });
  const writer = new CommandWriter({ snapshot, replicator, log });
  const run = async (
    definition: CommandDefinition,
    fleet: Fleet,
    more: Partial<CommandRequest> & { prune?: boolean } = {},
  ) => {
    const { prune, ...request } = more;
    const result = await writer.run(
      definition,
      { body: { fleet, ...(prune && { prune }) } },
      { id: randomUUID(), actor: operator, inParts: true, ...request },
    );
    return { ...result, changes: (result.answer as { changes: unknown[] }).changes };
  };
  const apply = (...of: DropFirst<Parameters<typeof run>>) => run(commandsByName['fleet.apply'], ...of);
  const write = (event: KnownEvent): void => {
    const at = new Date().toISOString();
    const draft = { id: randomUUID(), at, by: 'another', events: [toStored(event)] };
    topic.add(composeCommit({ ...draft, head: snapshot.head }));
  };
  return { snapshot, write, run, apply, export: () => exportFleet(snapshot.db) };
}

const fleet = largeFleet(3000);
const sorted = ({ organisations = [], ...rest }: Fleet): object => ({
  ...rest,
  models: [...(rest.models ?? [])].sort((a, b) => (a.id < b.id ? -1 : 1)),
  organisations: [...organisations].sort((a, b) => (a.id < b.id ? -1 : 1)),
});

test('a file too large for one commit takes several, and its export recreates the same state', async () => {
  const first = replica();
  const one = await first.apply(fleet);
  expect(one).toMatchObject({ status: 'done', position: 2 });
  const two = await first.apply(fleet);
  expect(two).toMatchObject({ status: 'done', position: 3 });
  expect(two.remaining).toBeUndefined();
  expect(one.remaining).toBe(two.changes.length);
  expect(await first.apply(fleet)).toMatchObject({ status: 'unchanged', position: 3, changes: [] });
  expect(sorted(first.export())).toMatchObject(sorted(fleet));

  const second = replica('another');
  await second.apply(first.export());
  expect(await second.apply(first.export())).toMatchObject({ status: 'done', position: 3 });
  expect(second.export()).toEqual(first.export());
});

test('with --atomic or in a dry run nothing is written, and the number of commits is reported', async () => {
  const { apply, snapshot } = replica();
  await expect(apply(fleet, { inParts: false })).rejects.toMatchObject({
    type: 'CommandTooLarge',
    message: expect.stringMatching(
      /has \d{7} bytes; at most 921600 are allowed; in parts it takes 2 commits/,
    ),
  });
  const dry = await apply(fleet, { dryRun: true });
  expect(dry).toMatchObject({ status: 'dry-run', answer: { commits: 2 } });
  expect(dry.changes).toHaveLength(dry.events?.length ?? -1);
  expect(snapshot.seq).toBe(1);
});

test('guards and If-Match judge the whole file before its first part', async () => {
  const { apply, snapshot } = replica();
  await expect(apply(fleet, { ifAt: 7 })).rejects.toMatchObject({ type: 'PositionMoved' });
  expect(await apply(fleet, { ifAt: 1 })).toMatchObject({ status: 'done', position: 2 });
  await apply(fleet);
  // The first part of this fleet file only adds organisations, so it would not remove anything yet.
  const organisations = Array.from({ length: 6000 }, (_, n) => ({ id: `new-${n}`, name: 'x'.repeat(150) }));
  const other = { version: 1 as const, organisations };
  await expect(apply(other, { prune: true })).rejects.toMatchObject({ type: 'GuardRefused' });
  expect(snapshot.seq).toBe(3);
  const forced = await apply(other, { prune: true, force: true });
  expect(forced).toMatchObject({ status: 'done', position: 4 });
  expect(forced.remaining).toBeGreaterThan(0);
});

test('the rest of a file is planned on a state that includes commits made between the parts', async () => {
  const { apply, write } = replica();
  await apply(fleet);
  const last = fleet.organisations?.at(-1)?.id ?? '';
  const between = known('organisation.set', { id: last, name: 'Theirs', tier: null, anchor: '2026-02-02' });
  write(between);
  const rest = await apply(fleet);
  expect(rest.changes).toContainEqual(
    expect.objectContaining({ kind: 'organisation', id: last, action: 'change' }),
  );
  expect(await apply(fleet)).toMatchObject({ status: 'unchanged' });
});

/** An apply command whose decider blocks the event loop for longer than a slice before each of its first pieces. */
function slow(decidesMax: number, piece: (decided: number) => boolean) {
  const apply = commandsByName['fleet.apply'];
  let decided = 0;
  return {
    definition: {
      ...apply,
      *decide(...of: Parameters<typeof apply.decide>) {
        decided++;
        for (let more = true; more; ) {
          const untilMs = performance.now() + 25;
          while (performance.now() < untilMs);
          more = decided <= decidesMax && piece(decided);
          yield;
        }
        const plan = apply.decide(...of);
        return 'next' in plan ? yield* plan : plan;
      },
    } satisfies CommandDefinition,
    decided: () => decided,
  };
}

test('other work gets its turn while a plan is made, and the plan is then written as made', async () => {
  const { run, snapshot } = replica();
  let turns = 0;
  const countTurns = (): boolean => {
    setImmediate(() => turns++);
    return turns < 3;
  };
  const { definition, decided } = slow(1, countTurns);
  const one = await run(definition, largeFleet(10));
  expect(one).toMatchObject({ status: 'done', position: 2 });
  expect(decided()).toBe(1);
  expect(turns).toBeGreaterThanOrEqual(3);
  expect(snapshot.seq).toBe(2);
});

test('a plan on an outdated state is made again, and without pauses if the state keeps moving', async () => {
  const { run, snapshot, write } = replica();
  const small = largeFleet(10);
  const id = small.organisations?.[0]?.id ?? '';
  const seqs = new Map<number, number>();
  /** Returns false once another writer's commit has arrived in the middle of the decision. */
  const isUnmoved = (decides: number): boolean => {
    if (!seqs.has(decides)) {
      seqs.set(decides, snapshot.seq);
      write(known('organisation.set', { id, name: `Theirs ${decides}`, tier: null, anchor: '2026-02-02' }));
    }
    return snapshot.seq === seqs.get(decides);
  };
  const once = slow(1, isUnmoved);
  const found = await run(once.definition, small);
  expect(once.decided()).toBe(2);
  expect(found.changes).toContainEqual(expect.objectContaining({ action: 'change', id }));
  seqs.clear();
  const always = slow(2, isUnmoved);
  const again = await run(always.definition, small);
  expect(always.decided()).toBe(3);
  expect(again.changes).toEqual([expect.objectContaining({ action: 'change', id })]);
  expect(await run(slow(0, () => false).definition, small)).toMatchObject({ status: 'unchanged' });
});

test('a plan’s refusal comes from the state at the head, and a repeat is answered before planning', async () => {
  const { run, snapshot } = replica();
  const { definition } = slow(0, () => false);
  const request = { id: randomUUID() };
  const small = largeFleet(10);
  await run(definition, small, request);
  const unknown = { version: 1 as const, organisations: [{ id: 'new', name: 'New', tier: 'none' }] };
  await expect(run(definition, unknown)).rejects.toMatchObject({ message: /there is no tier none/ });
  await expect(run(definition, unknown, request)).rejects.toMatchObject({ type: 'Conflict' });
  expect(await run(definition, small, request)).toMatchObject({ status: 'repeated', position: 2 });
  expect(snapshot.seq).toBe(2);
});

const room = 1000;

/**
 * Plans events of the given sizes in bytes, for commits with limited room. `mayBegin` tells which events may begin a part.
 */
function plan(sizes: readonly number[], mayBegin: (at: number) => boolean = () => true) {
  const event = (name: string): KnownEvent =>
    known('organisation.set', { id: 'o', name, tier: null, anchor: '2026-01-01' });
  const least = JSON.stringify(toStored(event('x'))).length - 1;
  const events = sizes.map((size) => event('x'.repeat(size - least)));
  const divisible = { mayBegin, extra: (end: number) => ({ end }) };
  const sized = atOnce(sizedPlan({ events, divisible }));
  return (emptyBytes = commitBytesMax - room) => firstPart(sized, emptyBytes, true);
}

test('a part takes what fits and ends where the next may begin, and a file that fits is one part', () => {
  // In a commit there is a comma between two events, which also takes a byte.
  const sizes = [200, 200, 200, 200];
  expect(plan([...sizes, 196])()).toMatchObject({ remaining: 0, commits: 1 });
  expect(plan([...sizes, 197])()).toMatchObject({ extra: { end: 4 }, remaining: 1, commits: 2 });
  const nine = plan([...sizes, ...sizes, 200], (at) => at !== 4);
  expect(nine()).toMatchObject({ extra: { end: 3 }, remaining: 6, commits: 3 });
  // If no event may begin a part, size alone decides where a part ends.
  expect(plan([...sizes, 200], () => false)()).toMatchObject({ remaining: 1 });
  expect(() => plan([200, 200])(commitBytesMax - 150)).toThrow(/one of its changes alone is larger/);
});
