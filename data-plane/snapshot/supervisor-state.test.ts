import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  type FaultEvent,
  faultState,
  recoveryOf,
  type SupervisorEvent,
  type SupervisorState,
  transition,
} from './supervisor-state.ts';

const faultEvents: readonly FaultEvent[] = ['write-failed', 'log-refused', 'fold-halted', 'damaged'];
const events: readonly SupervisorEvent[] = [...faultEvents, 'resumed', 'rebuilt', 'close'];
const isFault = (event: SupervisorEvent): event is FaultEvent => faultEvents.some((fault) => fault === event);

test('in every sequence of events, only a rebuild ends quarantine, each fault is seen, and nothing follows a close', () => {
  const walk = fc.array(fc.constantFrom(...events), { maxLength: 40 });
  fc.assert(
    fc.property(walk, (steps) => {
      let state: SupervisorState = 'live';
      for (const event of steps) {
        const before: SupervisorState = state;
        const next = transition(before, event);
        state = next ?? before;
        if (before === 'stopped') expect(next).toBeNull();
        else if (event === 'close') expect(state).toBe('stopped');
        else if (before === 'quarantined') expect(state).toBe(event === 'rebuilt' ? 'live' : 'quarantined');
        else if (isFault(event)) expect(state).toBe(faultState(event));
        else expect(state).toBe('live');
      }
    }),
  );
});

test('each recoverable state has a recovery, and only a damaged snapshot is rebuilt', () => {
  const states = Object.keys(recoveryOf);
  expect(states).toHaveLength(6);
  for (const event of faultEvents) {
    const state = faultState(event);
    expect(recoveryOf[state] === 'none', state).toBe(event === 'fold-halted');
    expect(recoveryOf[state] === 'rebuild', state).toBe(event === 'damaged');
  }
});
