/**
 * State machine of one agent's session, from the opened socket to its end. It is pure: the table names the next state and the
 * effects, and agent-sessions.ts carries them out. If an agent is lost, its node is checked once. If it breaks the protocol
 * or its token is revoked, its node is reported down. Neither happens if this side sent the agent away, if the agent
 * announced its stop, or if this replica may have missed its heartbeats.
 *
 *                   first heartbeat              claim settled
 *     connected ───────────────────► attached ◄───────────────── claiming
 *                                     │    │ not owned: claim       ▲  │
 *                                     │    └────────────────────────┘  │ owned
 *                               owned ▼        changed: report         ▼
 *                                   owned ─────────────────────► reporting
 *                                     ▲       report settled           │
 *                                     └────────────────────────────────┘
 *     attached, claiming, owned, reporting ── stop announced ──► leaving ── down is in the log ──► released
 *     any ── token revoked · sent away · lost · misbehaved · owned or reporting: claimed by another replica ──► ended
 */

export type SessionState =
  /** The socket is open and its token valid. No heartbeat has arrived. */
  | 'connected'
  /** Heartbeats arrive, but this replica does not own the node yet. */
  | 'attached'
  /** Attached, and a claim is being written. */
  | 'claiming'
  /** The log names this replica as the node's owner. */
  | 'owned'
  /** Owned, and a report or a new claim is being written. */
  | 'reporting'
  /** The agent has announced its stop, which is being written. Heartbeats no longer count. */
  | 'leaving'
  /** The log contains the stop, so the agent may end. */
  | 'released'
  | 'ended';

export type SessionEvent =
  | 'first-heartbeat'
  /** A heartbeat. This replica owns the node, and the log has the same health. */
  | 'heartbeat-unchanged'
  /** A heartbeat. This replica owns the node, and the log has another health. */
  | 'heartbeat-changed'
  /** A heartbeat. No replica owns the node. */
  | 'heartbeat-unowned'
  /** A heartbeat. Another replica owns the node. */
  | 'heartbeat-foreign'
  /** The claim or report that was being written is now in the log. */
  | 'report-acked'
  /** The claim or report was not written: the log was unavailable or the rate used up. The next heartbeat tries again. */
  | 'report-failed'
  | 'stop-announced'
  /** The log contains the agent's stop. */
  | 'stop-recorded'
  | 'token-revoked'
  /** This side closed the socket. */
  | 'dismissed'
  /** The connection failed or heartbeats stopped. That says nothing about the node. */
  | 'lost'
  /** The agent broke the protocol. */
  | 'misbehaved'
  /** The agent was lost or misbehaved, but this replica did not run continuously and may itself have missed heartbeats. */
  | 'lost-while-starved';

export type SessionEffect =
  /** Make this session the node's session. */
  | 'attach'
  | 'claim'
  | 'report'
  /** Report that the agent was stopped. */
  | 'record-stop'
  /** Tell the agent that it may end. */
  | 'send-released'
  /** Close the socket, because another replica now owns the node. */
  | 'close-superseded'
  /** Close the socket, because the token is no longer valid. */
  | 'close-revoked'
  /** The node no longer has a session. */
  | 'detach'
  /** Report the node down unless it answers. */
  | 'verify'
  | 'report-down';

export interface Transition {
  readonly to: SessionState;
  readonly effects: readonly SessionEffect[];
}

type Row = Readonly<Record<SessionEvent, Transition>>;

const to = (state: SessionState, ...effects: SessionEffect[]): Transition => ({ to: state, effects });

/** Row of a state in which no event has an effect. The states override the events that do. */
function staying(state: SessionState): Row {
  const stay = to(state);
  return {
    'first-heartbeat': stay,
    'heartbeat-unchanged': stay,
    'heartbeat-changed': stay,
    'heartbeat-unowned': stay,
    'heartbeat-foreign': stay,
    'report-acked': stay,
    'report-failed': stay,
    'stop-announced': stay,
    'stop-recorded': stay,
    'token-revoked': stay,
    dismissed: stay,
    lost: stay,
    misbehaved: stay,
    'lost-while-starved': stay,
  };
}

/** Events that end a session with a node in the same way in every state. */
const ends = {
  'token-revoked': to('ended', 'close-revoked', 'detach', 'report-down'),
  dismissed: to('ended', 'detach'),
  'lost-while-starved': to('ended', 'detach'),
} as const;
/** Ends of a session whose agent was not expected to stop. */
const breaks = {
  lost: to('ended', 'detach', 'verify'),
  misbehaved: to('ended', 'detach', 'report-down'),
} as const;
const superseded = to('ended', 'close-superseded', 'detach');
const leave = to('leaving', 'record-stop');

/** Row of a state in which the agent is stopping. Only the record of its stop and its end matter. */
const stopping = (state: SessionState): Row => ({
  ...staying(state),
  ...ends,
  lost: to('ended', 'detach'),
  misbehaved: to('ended', 'detach'),
});

const transitions: Readonly<Record<SessionState, Row>> = {
  /** A session without a heartbeat ends without effects. All other events are impossible. */
  connected: {
    ...staying('connected'),
    'first-heartbeat': to('attached', 'attach'),
    'token-revoked': to('ended', 'close-revoked'),
    dismissed: to('ended'),
    lost: to('ended'),
    misbehaved: to('ended'),
    'lost-while-starved': to('ended'),
  },
  attached: {
    ...staying('attached'),
    'heartbeat-unchanged': to('owned'),
    'heartbeat-changed': to('reporting', 'report'),
    'heartbeat-unowned': to('claiming', 'claim'),
    'heartbeat-foreign': to('claiming', 'claim'),
    'stop-announced': leave,
    ...ends,
    ...breaks,
  },
  claiming: {
    ...staying('claiming'),
    'heartbeat-unchanged': to('reporting'),
    'heartbeat-changed': to('reporting'),
    'report-acked': to('attached'),
    'report-failed': to('attached'),
    'stop-announced': leave,
    ...ends,
    ...breaks,
  },
  owned: {
    ...staying('owned'),
    'heartbeat-changed': to('reporting', 'report'),
    'heartbeat-unowned': to('reporting', 'claim'),
    'heartbeat-foreign': superseded,
    'stop-announced': leave,
    ...ends,
    ...breaks,
  },
  reporting: {
    ...staying('reporting'),
    'heartbeat-foreign': superseded,
    'report-acked': to('owned'),
    'report-failed': to('owned'),
    'stop-announced': leave,
    ...ends,
    ...breaks,
  },
  leaving: { ...stopping('leaving'), 'stop-recorded': to('released', 'send-released') },
  released: stopping('released'),
  ended: staying('ended'),
};

export function nextState(state: SessionState, event: SessionEvent): Transition {
  return transitions[state][event];
}
