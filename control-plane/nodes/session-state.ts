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
  /** The socket is open and its token is valid, but no heartbeat has arrived yet. */
  | 'connected'
  /** Heartbeats arrive, but this replica does not own the node yet. */
  | 'attached'
  /** The session is attached, and a claim is being written. */
  | 'claiming'
  /** The log names this replica as the node's owner. */
  | 'owned'
  /** This replica owns the node, and a report or a new claim is being written. */
  | 'reporting'
  /** The agent has announced its stop, which is being written. Its heartbeats no longer count. */
  | 'leaving'
  /** The log contains the stop, so the agent may exit. */
  | 'released'
  | 'ended';

export type SessionEvent =
  | 'first-heartbeat'
  /** A heartbeat arrived for a node that this replica owns, and the log contains the same health. */
  | 'heartbeat-unchanged'
  /** A heartbeat arrived for a node that this replica owns, and the log contains a different health. */
  | 'heartbeat-changed'
  /** A heartbeat arrived for a node that no replica owns. */
  | 'heartbeat-unowned'
  /** A heartbeat arrived for a node that another replica owns. */
  | 'heartbeat-foreign'
  /** The claim or report that was being written is now in the log. */
  | 'report-acked'
  /** The claim or report was not written: the log is unavailable or the rate is used up. The next heartbeat tries again. */
  | 'report-failed'
  | 'stop-announced'
  /** The log now contains the agent's stop. */
  | 'stop-recorded'
  | 'token-revoked'
  /** This side closed the socket. */
  | 'dismissed'
  /** The connection failed or heartbeats stopped, which says nothing about the node. */
  | 'lost'
  /** The agent broke the protocol. */
  | 'misbehaved'
  /** The agent was lost or misbehaved, but this replica was starved and may itself have missed heartbeats. */
  | 'lost-while-starved';

export type SessionEffect =
  /** Makes this session the node's only session. */
  | 'attach'
  | 'claim'
  | 'report'
  /** Reports the node down, because its agent was stopped. */
  | 'record-stop'
  /** Tells the agent that it may exit. */
  | 'send-released'
  /** Closes the socket, because another replica now owns the node. */
  | 'close-superseded'
  /** Closes the socket, because the agent's token is no longer valid. */
  | 'close-revoked'
  /** Removes the session from the node. */
  | 'detach'
  /** Probes the node, and reports it down unless it answers. */
  | 'verify'
  | 'report-down';

export interface Transition {
  readonly to: SessionState;
  readonly effects: readonly SessionEffect[];
}

type Row = Readonly<Record<SessionEvent, Transition>>;

const to = (state: SessionState, ...effects: SessionEffect[]): Transition => ({ to: state, effects });

/** Returns a row in which every event leaves the state unchanged. Each state overrides the events that have an effect. */
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

/** Events that end a session in the same way in every state in which it has a node. */
const ends = {
  'token-revoked': to('ended', 'close-revoked', 'detach', 'report-down'),
  dismissed: to('ended', 'detach'),
  'lost-while-starved': to('ended', 'detach'),
} as const;
/** Events that end a session whose agent was not expected to stop. */
const breaks = {
  lost: to('ended', 'detach', 'verify'),
  misbehaved: to('ended', 'detach', 'report-down'),
} as const;
const superseded = to('ended', 'close-superseded', 'detach');
const leave = to('leaving', 'record-stop');

/**
 * Returns the row of a state in which the agent is stopping. Only the record of its stop and the end of the session matter.
 */
const stopping = (state: SessionState): Row => ({
  ...staying(state),
  ...ends,
  lost: to('ended', 'detach'),
  misbehaved: to('ended', 'detach'),
});

const transitions: Readonly<Record<SessionState, Row>> = {
  /** A session that has not sent a heartbeat ends without effects on its node. All other events are impossible. */
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
