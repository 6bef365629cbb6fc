/**
 * Tests the guard that judges a command's effect: which commands it refuses, on which requests it bases its judgement, and
 * how long a judgement holds.
 */
import { expect, test } from 'vitest';
import { eventTypeNames } from '../../schemas/events/event-definitions.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { known } from '../../test/support/commits.ts';
import { smallFleet, TestState } from '../../test/support/state.ts';
import { effectOfEvent, intendedRefusals, mayRefuse } from '../commands/event-effects.ts';
import { commands } from '../commands/registry.ts';
import type { AdminContext } from './context.ts';
import { EffectGuard } from './effect-guard.ts';

type ExpectedEffect = { asked: number; refused: number; lost: string[] };

interface Fleet {
  /** Number of requests in the records of the only gateway, or undefined if the gateway does not answer. */
  readonly decisions?: number | undefined;
  /** Number of requests in the gateway's traffic reports. */
  readonly reported?: number;
  readonly countsTraffic?: boolean;
  readonly isReadable?: boolean;
}

/** Builds a guard whose history gives this answer, and counts how often it asks gateways and the history. */
function guardOf(recorded: ExpectedEffect | undefined, fleet: Fleet = {}) {
  const { decisions, reported = 0, countsTraffic = true, isReadable = true } = { decisions: 1000, ...fleet };
  const state = new TestState().given(smallFleet);
  let note: (commits: readonly object[]) => void = () => undefined;
  const asked = { gateways: 0, history: [] as { events: readonly KnownEvent[]; reported?: unknown }[] };
  const snapshot = { db: state.db, seq: 1 };
  const silent = decisions === undefined ? ['gw-1'] : [];
  const row = { organisation: 'acme', model: 'echo-small', requests: reported };
  const context = {
    snapshot,
    board: { gateways: () => [{}], readToEnd: () => Promise.resolve(isReadable) },
    traffic: {
      rows: () =>
        reported > 0
          ? [{ row, records: 'folder-1', isRest: false, atMs: 0, report: { fromMs: 0, toMs: 1 } }]
          : [],
      reports: () => (reported > 0 ? [{ records: 'folder-1' }] : []),
      isUnread: () => false,
      now: Date.now,
    },
    gauges: { logNow: Date.now },
    onCommits: (listener: typeof note) => {
      note = listener;
    },
    gatewayTurns: {
      run: () => {
        asked.gateways++;
        const source = { name: 'gw-1', records: 'folder-1', countsTraffic };
        return Promise.resolve({
          ...{ texts: ['{}'], decisions: decisions ?? 0, sinceMs: 0, silent },
          asked: [source],
        });
      },
    },
    past: {
      ask: (_name: string, [, question]: readonly [number, (typeof asked.history)[number], unknown]) => {
        asked.history.push(question);
        if (recorded === undefined) return Promise.reject(new Error('the history is being opened'));
        return Promise.resolve({
          position: snapshot.seq,
          limits: [],
          recorded: { ...recorded, groups: [] },
        });
      },
    },
  } as unknown as AdminContext;
  const guard = new EffectGuard(context);
  const check = (name: string, params: object = {}, body?: object) => {
    const definition = commands.find((each) => each.name === name);
    if (definition === undefined) throw new Error(name);
    return guard.check({ definition, raw: { params, body }, actor: {}, used: undefined });
  };
  const commit = (...events: KnownEvent[]): void => {
    snapshot.seq++;
    note([{ seq: snapshot.seq, events }]);
  };
  return { guard, check, commit, asked };
}

const uninstall = ['pool.uninstall', { model: 'echo-small' }] as const;

test.each([
  ['too few requests were recorded', { asked: 99, refused: 99, lost: ['acme'] }, false],
  ['one in a hundred is refused', { asked: 1000, refused: 10, lost: [] }, false],
  ['more than one in a hundred is refused', { asked: 1000, refused: 11, lost: [] }, true],
  ['one organisation loses everything that it requested', { asked: 1000, refused: 1, lost: ['acme'] }, true],
])('uninstalling a model if %s', async (_text, recorded, isRefused) => {
  const { check } = guardOf(recorded);
  const found = await check(...uninstall).catch((error: unknown) => error);
  if (isRefused)
    expect(found).toMatchObject({ type: 'GuardRefused', next: expect.stringContaining('--force') });
  else expect(found).toMatchObject({ position: 1 });
});

test('a command that is meant to refuse, or that has its own guard, asks no gateway', async () => {
  const { check, asked } = guardOf({ asked: 1000, refused: 900, lost: [] });
  await check('organisation.update', { id: 'acme' }, { suspended: true });
  await check('organisation.delete', { id: 'acme' });
  await check('pool.uninstall', { model: 'no-such-model' });
  await check('node.drain', { id: 'pool-1' });
  expect(asked).toEqual({ gateways: 0, history: [] });
});

test('intended refusals of a command are not judged with the rest of its effect', async () => {
  const { check, asked } = guardOf({ asked: 1000, refused: 1, lost: [] });
  await check('organisation.update', { id: 'acme' }, { suspended: true, tier: null });
  expect(asked.history).toEqual([expect.objectContaining({ meant: { organisations: ['acme'], keys: [] } })]);
});

test('gateways are asked once for consecutive commands, but each time while they know too little', async () => {
  const asksOf = async (fleet: Fleet) => {
    const { check, asked } = guardOf({ asked: 1000, refused: 1, lost: [] }, fleet);
    await check(...uninstall);
    await check(...uninstall);
    return asked.gateways;
  };
  expect(await asksOf({})).toBe(1);
  expect(await asksOf({ decisions: 99 })).toBe(2);
  expect(await asksOf({ decisions: undefined, reported: 500 })).toBe(2);
});

test('a gateway that does not respond is judged by its reports', async () => {
  const { check, asked } = guardOf(
    { asked: 500, refused: 500, lost: ['acme'] },
    { decisions: undefined, reported: 500 },
  );
  await expect(check(...uninstall)).rejects.toMatchObject({ type: 'GuardRefused' });
  const row = { organisation: 'acme', stack: undefined, model: 'echo-small', requests: 500, perMinute: 8 };
  expect(asked.history).toMatchObject([{ reported: [row] }]);
  const answering = guardOf({ asked: 500, refused: 0, lost: [] }, { decisions: 500, reported: 500 });
  await answering.check(...uninstall);
  expect(answering.asked.history).toMatchObject([{ reported: [] }]);
});

test.each([
  [
    'a gateway neither responds nor reports',
    { decisions: undefined, countsTraffic: false },
    /gw-1 did not send its recorded requests, and reported nothing/,
  ],
  ['reports cannot be read', { isReadable: false }, /the reports of the gateways cannot be read/],
  ['the history does not respond', {}, /the history does not answer/],
])('no command passes if %s', async (_what, fleet: Fleet, message) => {
  const refused = await guardOf(undefined, fleet)
    .check(...uninstall)
    .catch((error: unknown) => error);
  expect(refused).toMatchObject({ type: 'GuardRefused', next: expect.stringContaining('--force') });
  expect((refused as Error).message).toMatch(message);
});

test('if nobody was served, a command passes with a warning', async () => {
  for (const fleet of [{ decisions: 0 }, { decisions: undefined }]) {
    const { check, asked } = guardOf(undefined, fleet);
    expect(await check(...uninstall)).toMatchObject({
      warning: expect.stringContaining('no gateway served a request'),
    });
    expect(asked.history).toEqual([]);
  }
});

test('a judgement holds for the same events until a commit that can change a response', async () => {
  const { check, guard, commit } = guardOf({ asked: 1000, refused: 1, lost: [] });
  const checked = await check(...uninstall);
  const events = [known('pool.model_uninstalled', { model: 'echo-small' })];
  expect(guard.holds(checked, events)).toBe(true);
  expect(guard.holds(checked, [known('pool.model_uninstalled', { model: 'echo-large' })])).toBe(false);
  expect(guard.holds(undefined, events)).toBe(false);
  expect(guard.holds(undefined, [known('node.undrained', { id: 'n' })])).toBe(true);
  commit(known('session.ended', { sessions: '*', person: 'ana' } as never));
  expect(guard.holds(checked, events)).toBe(true);
  commit(known('node.drained', { id: 'n' }));
  expect(guard.holds(checked, events)).toBe(false);
});

test('revoking, suspending and removing are intended refusals, and a drain has its own guard', () => {
  const meant = eventTypeNames.filter((type) => effectOfEvent(type) === 'meant');
  expect(meant).toEqual(['organisation.suspended', 'organisation.removed', 'key.revoked', 'node.drained']);
  const events = [known('key.revoked', { id: 'key-1' }), known('organisation.removed', { id: 'acme' })];
  expect(mayRefuse(events)).toBe(false);
  expect(intendedRefusals(events)).toEqual({ organisations: ['acme'], keys: ['key-1'] });
});

test('the rest of a divided command is not judged again unless someone else’s commit matters', () => {
  const { guard, commit } = guardOf(undefined);
  const removal = known('node.removed', { id: 'n1' });
  commit(removal);
  guard.wrotePart('a hash', 2);
  expect(guard.isJudged('a hash')).toBe(true);
  expect(guard.isJudged('another')).toBe(false);
  expect(guard.isJudged(undefined)).toBe(false);
  commit(known('member.set', { organisation: 'acme', person: 'ana', role: 'owner' }));
  expect(guard.isJudged('a hash')).toBe(true);
  commit(removal);
  expect(guard.isJudged('a hash')).toBe(false);
});
