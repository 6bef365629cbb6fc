/** Which commands the guard on effect refuses, for what was recorded, and when what it found still holds. */
import { expect, test } from 'vitest';
import { eventTypeNames } from '../../schemas/event-definitions.ts';
import type { KnownEvent } from '../../schemas/events.ts';
import { known } from '../../test/support/commits.ts';
import { smallFleet, TestState } from '../../test/support/state.ts';
import { effectOfEvent, mayRefuse, meantBy } from '../commands/event-effects.ts';
import { commands } from '../commands/registry.ts';
import type { AdminContext } from './context.ts';
import { EffectGuard } from './effect-guard.ts';

type Recorded = { asked: number; refused: number; lost: string[] };

/** A guard whose history answers with this, and how often gateways and history were asked. */
function guardOf(
  recorded: Recorded | undefined,
  { harmless = false, requests = 1000, texts = ['{}'], silent = [] as string[] } = {},
) {
  const state = new TestState().given(smallFleet);
  let note: (commits: readonly object[]) => void = () => undefined;
  const asked = { gateways: 0, history: [] as { events: readonly KnownEvent[] }[] };
  const snapshot = { db: state.db, seq: 1 };
  const context = {
    snapshot,
    board: { gateways: () => [] },
    traffic: { rows: () => [{ row: { requests } }] },
    onCommits: (listener: typeof note) => {
      note = listener;
    },
    requestTurns: {
      run: () => {
        asked.gateways++;
        return Promise.resolve({ texts, sinceMs: 0, silent });
      },
    },
    past: {
      ask: (_name: string, [, question, sample]: readonly [number, { events: KnownEvent[] }, unknown]) => {
        asked.history.push(question);
        if (recorded === undefined) return Promise.reject(new Error('the history is being opened'));
        const found = { position: snapshot.seq, static: { refused: harmless ? 0 : 1 }, limits: [] };
        return Promise.resolve(
          sample === undefined ? found : { ...found, recorded: { ...recorded, groups: [] } },
        );
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
  ['too few were recorded', { asked: 99, refused: 99, lost: ['acme'] }, false],
  ['one in a hundred is refused', { asked: 1000, refused: 10, lost: [] }, false],
  ['more than one in a hundred is refused', { asked: 1000, refused: 11, lost: [] }, true],
  ['one organisation loses all that it asked for', { asked: 1000, refused: 1, lost: ['acme'] }, true],
])('%s', async (_text, recorded, isRefused) => {
  const { check } = guardOf(recorded);
  const found = await check(...uninstall).catch((error: unknown) => error);
  if (isRefused)
    expect(found).toMatchObject({ type: 'GuardRefused', next: expect.stringContaining('--force') });
  else expect(found).toMatchObject({ position: 1 });
});

test('a command that can refuse nobody asks nobody; one that refuses no combination asks no gateway', async () => {
  const one = guardOf({ asked: 1000, refused: 900, lost: [] });
  await one.check('organisation.update', { id: 'acme' }, { suspended: true });
  await one.check('organisation.delete', { id: 'acme' });
  await one.check('pool.uninstall', { model: 'no-such-model' });
  expect(one.asked).toEqual({ gateways: 0, history: [] });
  const two = guardOf({ asked: 1000, refused: 900, lost: [] }, { harmless: true });
  await two.check(...uninstall);
  expect([two.asked.gateways, two.asked.history.length]).toEqual([0, 1]);
});

test('what a command is meant to refuse is not judged with the rest of it', async () => {
  const { check, asked } = guardOf({ asked: 1000, refused: 1, lost: [] });
  await check('organisation.update', { id: 'acme' }, { suspended: true, tier: null });
  expect(asked.history).toEqual(
    Array(2).fill(expect.objectContaining({ meant: { organisations: ['acme'], keys: [] } })),
  );
});

test('gateways are asked once for commands in a row; where the history does not answer, nothing is refused', async () => {
  const { check, asked } = guardOf({ asked: 1000, refused: 1, lost: [] });
  await check(...uninstall);
  await check(...uninstall);
  expect(asked.gateways).toBe(1);
  await expect(guardOf(undefined).check(...uninstall)).resolves.toMatchObject({ position: 1 });
});

test('what it could not judge by is said: gateways that are silent, all of them, or the history', async () => {
  const found = { asked: 1000, refused: 1, lost: [] };
  const unknownOf = async (...of: Parameters<typeof guardOf>) =>
    (await guardOf(...of).check(...uninstall))?.unknown;
  const start = 'whom of the last hour it refuses is not known';
  expect(await unknownOf(found)).toBe(undefined);
  expect(await unknownOf(found, { silent: ['gw-2'] })).toBe(`${start} of gw-2, which did not answer`);
  expect(await unknownOf(found, { texts: [] })).toBe(`${start}: no gateway has said what it recorded`);
  expect(await unknownOf(undefined)).toBe(`${start}: the history does not answer`);
  expect(await unknownOf(found, { harmless: true, silent: ['gw-2'] })).toBe(undefined);
});

test('in a quiet hour it is not needed', () => {
  expect(guardOf(undefined, { requests: 99 }).guard.isNeeded).toBe(false);
  expect(guardOf(undefined, { requests: 100 }).guard.isNeeded).toBe(true);
});

test('what was found holds for the same events, until a commit that can turn an answer', async () => {
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

test('revocations, suspensions and removals of an organisation are meant; their requests do not count', () => {
  const meant = eventTypeNames.filter((type) => effectOfEvent(type) === 'meant');
  expect(meant).toEqual(['organisation.suspended', 'organisation.removed', 'key.revoked']);
  const events = [known('key.revoked', { id: 'key-1' }), known('organisation.removed', { id: 'acme' })];
  expect(mayRefuse(events)).toBe(false);
  expect(meantBy(events)).toEqual({ organisations: ['acme'], keys: ['key-1'] });
});
