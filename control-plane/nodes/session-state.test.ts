// Tests that an agent's session has at most one report in flight, ends once, has its node checked if and only if its agent
// was lost, and reports the node down if the agent misbehaved. This must hold whatever an agent, the log and this replica do,
// in any order, so the tests walk randomly over the table of transitions.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { nextState, type SessionEffect, type SessionEvent, type SessionState } from './session-state.ts';

const heartbeats = [
  'heartbeat-unchanged',
  'heartbeat-changed',
  'heartbeat-unowned',
  'heartbeat-foreign',
] as const;
const ends = ['token-revoked', 'dismissed', 'lost', 'misbehaved', 'lost-while-starved'] as const;
const settled = ['report-acked', 'report-failed'] as const;
const events: readonly SessionEvent[] = [
  'first-heartbeat',
  ...heartbeats,
  ...settled,
  'stop-announced',
  'stop-recorded',
  ...ends,
];

interface Step {
  readonly event: SessionEvent;
  readonly from: SessionState;
  readonly to: SessionState;
  readonly effects: readonly SessionEffect[];
}

/** Walks the table of transitions. Skips events that cannot occur in the current state. */
function walk(choices: readonly SessionEvent[]): Step[] {
  const steps: Step[] = [];
  let state: SessionState = 'connected';
  let inFlight = 0;
  let stopInFlight = false;
  for (const event of choices) {
    const isSettled = event === 'report-acked' || event === 'report-failed';
    if (isSettled && inFlight === 0) continue;
    if (event === 'stop-recorded' && !stopInFlight) continue;
    if (event === 'first-heartbeat' ? state !== 'connected' : state === 'connected' && !isEnd(event))
      continue;
    const { to, effects } = nextState(state, event);
    steps.push({ event, from: state, to, effects });
    if (isSettled) inFlight--;
    inFlight += effects.filter((effect) => effect === 'claim' || effect === 'report').length;
    if (event === 'stop-recorded') stopInFlight = false;
    if (effects.includes('record-stop')) stopInFlight = true;
    expect(inFlight).toBeLessThanOrEqual(1);
    state = to;
  }
  return steps;
}

const isEnd = (event: SessionEvent): boolean => (ends as readonly SessionEvent[]).includes(event);
const count = (steps: readonly Step[], effect: SessionEffect): number =>
  steps.flatMap(({ effects }) => effects).filter((each) => each === effect).length;

const steps = fc.array(fc.constantFrom(...events), { maxLength: 60 }).map((choices) => walk(choices));
/** Random walks with few events that end a session, so that the walks become long. */
const longWalks = fc
  .array(
    fc.oneof(
      { weight: 30, arbitrary: fc.constantFrom(...events.filter((event) => !isEnd(event))) },
      { weight: 1, arbitrary: fc.constantFrom(...ends) },
    ),
    { maxLength: 120 },
  )
  .map((choices) => walk(['first-heartbeat', ...choices]));
const walks = fc.oneof(steps, longWalks);

test('at most one report is in flight, even across ends and stops', () => {
  fc.assert(
    fc.property(walks, (path) => path.length >= 0),
    { numRuns: 3000 },
  );
});

test('a session attaches once and detaches once, and has no effects after its end', () => {
  fc.assert(
    fc.property(walks, (path) => {
      const end = path.findIndex(({ to }) => to === 'ended');
      const after = end < 0 ? [] : path.slice(end + 1);
      expect(after.every(({ to, effects }) => to === 'ended' && effects.length === 0)).toBe(true);
      expect(count(path, 'attach')).toBeLessThanOrEqual(1);
      expect(count(path, 'detach')).toBe(end < 0 ? 0 : count(path, 'attach'));
    }),
    { numRuns: 3000 },
  );
});

test('only a lost agent’s node is verified, and only misbehaviour or revocation reports it down', () => {
  fc.assert(
    fc.property(walks, (path) => {
      for (const { event, from, effects } of path) {
        const isRunning = ['attached', 'claiming', 'owned', 'reporting'].includes(from);
        const isRevoked = event === 'token-revoked' && !['connected', 'ended'].includes(from);
        expect(effects.includes('verify')).toBe(event === 'lost' && isRunning);
        expect(effects.includes('report-down')).toBe((event === 'misbehaved' && isRunning) || isRevoked);
      }
    }),
    { numRuns: 3000 },
  );
});

test('an agent is released once, after the log contains its stop, and its later heartbeats are ignored', () => {
  fc.assert(
    fc.property(walks, (path) => {
      const stop = path.findIndex(({ effects }) => effects.includes('record-stop'));
      const released = path.findIndex(({ effects }) => effects.includes('send-released'));
      expect(count(path, 'record-stop')).toBeLessThanOrEqual(1);
      expect(count(path, 'send-released')).toBeLessThanOrEqual(1);
      if (released >= 0) expect([stop >= 0, stop < released]).toEqual([true, true]);
      const later = stop < 0 ? [] : path.slice(stop + 1).flatMap(({ effects }) => effects);
      expect(later.filter((effect) => effect === 'claim' || effect === 'report')).toEqual([]);
    }),
    { numRuns: 3000 },
  );
});

test('a node that this replica owned is given up to a replica that claims it, not claimed back', () => {
  fc.assert(
    fc.property(walks, (path) => {
      const owned = path.findIndex(({ to }) => to === 'owned');
      if (owned < 0) return;
      for (const { event, effects } of path.slice(owned + 1)) {
        if (event === 'heartbeat-foreign') expect(effects).not.toContain('claim');
      }
      const foreign = path
        .slice(owned + 1)
        .find(({ event, from }) => event === 'heartbeat-foreign' && from === 'owned');
      if (foreign) expect(foreign.effects).toContain('close-superseded');
    }),
    { numRuns: 3000 },
  );
});

test('every state can be reached, and a session can end from every state', () => {
  const reached = new Set<SessionState>(['connected']);
  for (const state of reached) for (const event of events) reached.add(nextState(state, event).to);
  expect(reached.size).toBe(8);
  for (const state of reached) for (const event of ends) expect(nextState(state, event).to).toBe('ended');
});
