/**
 * States of a gateway's snapshot and the effect of each event on them. The table is pure: the supervisor carries out the
 * recovery.
 *
 *                       write-failed        ┌──────────────┐
 *          ┌───────────────────────────────►│  unwritable  │ retries the write
 *          │            resumed             └──────┬───────┘
 *    ┌─────┴─────┐◄─────────────────────────────────┘
 *    │           │      log-refused         ┌──────────────┐
 *    │   live    │─────────────────────────►│ refusing-log │ reopens the log until it is back
 *    │           │◄─────────────────────────┴──────────────┘
 *    │           │   resumed or rebuilt
 *    │           │      fold-halted         ┌──────────────┐
 *    │           │─────────────────────────►│    halted    │ waits for a newer build
 *    │           │                          └──────────────┘
 *    │           │      damaged             ┌──────────────┐
 *    │           │─────────────────────────►│ quarantined  │ accepts no key; rebuilds from the log
 *    └───────────┘◄─────────────────────────┴──────────────┘
 *                       rebuilt only
 *
 * Not drawn: a later fault replaces the present one, except in `quarantined`. Only a rebuilt snapshot ends that state, because
 * its rows stay wrong whatever happens to the log. `close` leads from every state to `stopped`, which is final.
 */
export type FaultState = 'unwritable' | 'refusing-log' | 'halted' | 'quarantined';
export type SupervisorState = 'live' | FaultState | 'stopped';
export type FaultEvent = 'write-failed' | 'log-refused' | 'fold-halted' | 'damaged';
export type SupervisorEvent = FaultEvent | 'resumed' | 'rebuilt' | 'close';

/** Next state, by state and event. Null means that the event is ignored in that state. */
type Transitions = Readonly<
  Record<SupervisorState, Readonly<Record<SupervisorEvent, SupervisorState | null>>>
>;

const faults = {
  'write-failed': 'unwritable',
  'log-refused': 'refusing-log',
  'fold-halted': 'halted',
  damaged: 'quarantined',
} as const satisfies Record<FaultEvent, FaultState>;

const ignored = { 'write-failed': null, 'log-refused': null, 'fold-halted': null, damaged: null } as const;

const transitions: Transitions = {
  live: { ...faults, resumed: null, rebuilt: null, close: 'stopped' },
  unwritable: { ...faults, resumed: 'live', rebuilt: 'live', close: 'stopped' },
  'refusing-log': { ...faults, resumed: 'live', rebuilt: 'live', close: 'stopped' },
  halted: { ...faults, resumed: 'live', rebuilt: 'live', close: 'stopped' },
  quarantined: { ...ignored, resumed: null, rebuilt: 'live', close: 'stopped' },
  stopped: { ...ignored, resumed: null, rebuilt: null, close: null },
};

/** Next state, or null if the event is ignored in this state. */
export function transition(state: SupervisorState, event: SupervisorEvent): SupervisorState | null {
  return transitions[state][event];
}

/** State to which a fault leads. */
export function faultState(event: FaultEvent): FaultState {
  return faults[event];
}

/** How to recover from each state: `none` if that is not needed, or if nothing that this process can do would help. */
export const recoveryOf: Readonly<Record<SupervisorState, 'none' | 'resume' | 'reopen-log' | 'rebuild'>> = {
  live: 'none',
  unwritable: 'resume',
  'refusing-log': 'reopen-log',
  halted: 'none',
  quarantined: 'rebuild',
  stopped: 'none',
};
