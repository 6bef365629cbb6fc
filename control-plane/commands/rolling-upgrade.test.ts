/** Tests that commands with critical events are refused until every gateway knows these events. */
import { expect, test } from 'vitest';
import { eventDefinitions } from '../../schemas/events/event-definitions.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { foldVersion } from '../../shared/snapshot/fold.ts';
import { checkReaders, type LogReader } from './rolling-upgrade.ts';

/** A critical event that is known since version 1 of the fold. The fleet's oldest build has version 0. */
const critical: KnownEvent = { type: 'key.revoked', data: { id: 'key-1' } };
const other: KnownEvent = { type: 'no_op', data: {} };
const check = (events: readonly KnownEvent[], readers?: readonly LogReader[]) => () =>
  checkReaders(events, () => readers, 0);
const oldOne = { name: 'gw-old', foldVersion: 0 };
const newOne = { name: 'gw-new', foldVersion: 1 };

test('a critical event waits until every gateway has reported a fold version that knows it', () => {
  expect(check([other, critical], [newOne, oldOne])).toThrow(/would halt at it: gw-old/);
  expect(check([other, critical], [newOne])).not.toThrow();
  expect(check([critical], [])).not.toThrow();
});

test('an event that older versions may skip waits for no gateway', () => {
  expect(check([other], [oldOne])).not.toThrow();
});

test('nothing is written while the gateways are unknown', () => {
  expect(check([critical])).toThrow(/not known yet/);
});

test('no event requires a fold version that this build does not have', () => {
  for (const { foldVersion: needed } of Object.values(eventDefinitions))
    expect(needed).toBeLessThanOrEqual(foldVersion);
});
