/**
 * Tests when a staged change continues, waits or is withdrawn, depending on gateways' counts inside and outside its waves.
 */
import { expect, test } from 'vitest';
import { reportOf } from '../../test/support/status-reports.ts';
import type { OpenChange } from '../state/changes.ts';
import { type ChangeFigures, computeFigures } from './change-figures.ts';
import { isSilentSince, nextStep, type WatchedChange } from './change-watch.ts';

const open = {
  ...{ id: '17', wave: 1, wave_at: 100_000, hold_seconds: 60, advance_unseen: 0, passed_over: 0 },
  watch: '{"refusals":1,"errors":1,"least":50}',
} as unknown as OpenChange;
const well: ChangeFigures = {
  inside: { gateways: 1, requests: 100, refusals: 1, errors: 0, nodeFailures: 0 },
  outside: { gateways: 3, requests: 300, refusals: 3, errors: 0, nodeFailures: 0 },
  before: { requests: 1000, refusals: 10 },
};
const heldMs = 160_000;

function stepOf(inside: Partial<ChangeFigures['inside']>, more: Partial<WatchedChange> = {}) {
  const figures = { ...well, inside: { ...well.inside, ...inside } };
  return nextStep({ open, figures, faults: new Map(), nowMs: heldMs, ...more });
}

test('a change continues once its wave has lasted long enough, and not before', () => {
  expect(stepOf({})).toEqual({ kind: 'advance' });
  expect(stepOf({}, { nowMs: heldMs - 1 })).toEqual({ kind: 'wait' });
});

test('a change waits while its wave has too few requests, unless staged to advance unseen', () => {
  expect(stepOf({ requests: 49, refusals: 0 })).toEqual({ kind: 'wait' });
  const unseen = { ...open, advance_unseen: 1 };
  expect(stepOf({ requests: 0, refusals: 0 }, { open: unseen })).toEqual({ kind: 'advance' });
});

test('a change is withdrawn at once if its wave refuses more than other gateways and than before', () => {
  const reason = '3.0% refused in the wave, 1.0% usual';
  expect(stepOf({ refusals: 3 }, { nowMs: 100_001 })).toEqual({ kind: 'withdraw', reason });
  // The wave may refuse up to one percentage point more of its requests than usual.
  expect(stepOf({ refusals: 2 })).toEqual({ kind: 'advance' });
});

test('refusals that also occur outside the wave, or occurred before it, do not withdraw a change', () => {
  const figures = { ...well, inside: { ...well.inside, refusals: 30 } };
  const outside = { ...well.outside, refusals: 90 };
  expect(stepOf({}, { figures: { ...figures, outside } })).toEqual({ kind: 'advance' });
  const before = { requests: 100, refusals: 30 };
  expect(stepOf({}, { figures: { ...figures, before } })).toEqual({ kind: 'advance' });
});

test('a few requests do not withdraw a change for refusals, but an internal error always does', () => {
  expect(stepOf({ requests: 49, refusals: 49 })).toEqual({ kind: 'wait' });
  expect(stepOf({ requests: 1, errors: 1 })).toMatchObject({ kind: 'withdraw' });
});

test('node failures and the gateway’s own time do not withdraw a change, since no definition causes them', () => {
  expect(stepOf({ nodeFailures: 90, ownP95Ms: 900 })).toEqual({ kind: 'advance' });
});

test('a silent, diverged or halted gateway in the wave withdraws the change', () => {
  const faults = new Map([['gw-1', 'silent'] as const]);
  const reason = 'gateway gw-1 of the wave is silent';
  expect(stepOf({}, { faults })).toEqual({ kind: 'withdraw', reason });
});

test('a gateway is silent if it last reported around the wave’s start and had time to report again', () => {
  const nowMs = Date.now();
  const waveMs = nowMs - 60_000;
  const isSilent = (silentMs: number, { listeningMs = 90_000, isRemembered = false } = {}) =>
    isSilentSince(
      {
        report: reportOf({ at: new Date(nowMs - silentMs).toISOString() }),
        seenMs: performance.now() - (isRemembered ? listeningMs : silentMs),
        isRemembered,
      },
      { listeningMs, waveMs, nowMs },
    );
  expect([9_000, 11_000, 59_000, 65_000, 71_000].map((ms) => isSilent(ms))).toEqual([
    ...[false, true, true],
    // The first gateway may have been silenced by the wave at once, but the second was silent before.
    ...[true, false],
  ]);
  // After its start or an outage of the topic, the replica must listen for a while before it counts a gateway as silent.
  const started = [5_000, 11_000].map((listeningMs) => isSilent(20_000, { listeningMs, isRemembered: true }));
  expect(started).toEqual([false, true]);
  expect(isSilent(600_000, { listeningMs: 11_000, isRemembered: true })).toBe(false);
  expect(isSilent(20_000, { listeningMs: 5_000 })).toBe(false);
});

test('a change that today’s rows make impossible does not continue', () => {
  expect(stepOf({}, { open: { ...open, passed_over: 1 } })).toEqual({ kind: 'wait' });
});

test('reports that began before the wave give the usual figures of its gateways', () => {
  const row = (requests: number, refused: number) => ({
    organisation: 'cedar',
    requests,
    endedEarly: 1,
    ownTime: [0, requests - 1, 1],
    refused: {
      PermissionDenied: { status: 403, requests: refused, lastAtMs: 0, lastRequest: '' },
      InferenceUnavailableError: { status: 503, requests: 2, lastAtMs: 0, lastRequest: '' },
      InternalError: { status: 500, requests: 1, lastAtMs: 0, lastRequest: '' },
    },
  });
  const rows = [
    { gateway: 'gw-1', atMs: 90_000, ms: 10_000, row: row(10, 1) },
    { gateway: 'gw-1', atMs: 105_000, ms: 10_000, row: row(20, 2) },
    { gateway: 'gw-1', atMs: 115_000, ms: 10_000, row: row(30, 3) },
    { gateway: 'gw-2', atMs: 115_000, ms: 10_000, row: row(40, 4) },
    // Requests of callers whose key is not known do not count.
    { gateway: 'gw-1', atMs: 115_000, ms: 10_000, row: { ...row(900, 800), organisation: undefined } },
  ].map(({ ms, ...each }) => ({ ...each, report: { fromMs: 0, toMs: ms } }));
  const seen = (name: string) => ({ report: reportOf({ name }) });
  const fleet = {
    board: { gateways: () => [seen('gw-1'), seen('gw-2')], isSilent: () => false },
    traffic: { rows: () => rows, now: Date.now },
  } as unknown as Parameters<typeof computeFigures>[0];
  const released = { id: '17', wave: 1, waves: [{ gateways: ['gw-1'] }], sinceMs: 100_000 };
  expect(computeFigures(fleet, released, 120_000)).toEqual({
    inside: { gateways: 1, requests: 30, refusals: 5, errors: 2, nodeFailures: 3, ownP95Ms: 0.99 },
    outside: { gateways: 1, requests: 40, refusals: 6, errors: 1, nodeFailures: 3, ownP95Ms: 0.99 },
    before: expect.objectContaining({ requests: 10, refusals: 3 }) as object,
  });
});
