/**
 * The state machine of one agent's session, from the opened socket to its end. Pure: the table names the next state and
 * the effects; agent-sessions.ts carries them out. The node of an agent that is lost is verified once, and down is reported for one
 * that breaks the protocol or whose token is revoked; neither for one that was sent away, that announced its stop, or whose
 * silence this replica may have missed.
 *
 *                  first heartbeat              claim settled
 *    connected ───────────────────► attached ◄───────────────── claiming
 *                                    │    │ not owned: claim       ▲  │
 *                                    │    └────────────────────────┘  │ owned
 *                              owned ▼        changed: report         ▼
 *                                  owned ─────────────────────► reporting
 *                                    ▲       report settled           │
 *                                    └────────────────────────────────┘
 *    attached, claiming, owned, reporting ── stop announced ──► leaving ── down is in the log ──► released
 *    any ── token revoked · sent away · lost · misbehaved · owned or reporting: claimed by another replica ──► ended
 */

export type SessionState =
  /** The socket is open and its token valid; no heartbeat has arrived. */
  | 'connected'
  /** Heartbeats arrive; this replica has not owned the node since. */
  | 'attached'
  /** As before, and a claim is being written. */
  | 'claiming'
  /** The log names this replica as the owner of the node. */
  | 'owned'
  /** As before, and a report or a new claim is being written. */
  | 'reporting'
  /** The agent announced its stop, and that is being written; heartbeats count no more. */
  | 'leaving'
  /** The log has it, and the agent may end. */
  | 'released'
  | 'ended';

export type SessionEvent =
  | 'first-heartbeat'
  /** A heartbeat; this replica owns the node, and the log has its health. */
  | 'heartbeat-unchanged'
  /** A heartbeat; this replica owns the node, and the log has another health. */
  | 'heartbeat-changed'
  /** A heartbeat; nobody owns the node. */
  | 'heartbeat-unowned'
  /** A heartbeat; another replica owns the node. */
  | 'heartbeat-foreign'
  /** The claim or report that was being written is in the log. */
  | 'report-acked'
  /** It is not: the log could not be written, or the node's rate is used up. The next heartbeat tries again. */
  | 'report-failed'
  | 'stop-announced'
  /** That the agent stops is in the log. */
  | 'stop-recorded'
  | 'token-revoked'
  /** This side closed the socket. */
  | 'dismissed'
  /** The socket broke, or heartbeats stopped: of the node that says nothing. */
  | 'lost'
  /** The agent broke the protocol. */
  | 'misbehaved'
  /** As one of these, but this replica did not run continuously, so it may be the one that missed heartbeats. */
  | 'lost-while-starved';

export type SessionEffect =
  /** Make the session the one of its node. */
  | 'attach'
  | 'claim'
  | 'report'
  /** Report that the agent was stopped. */
  | 'record-stop'
  /** Send the agent the message that it may end. */
  | 'send-released'
  /** Close the socket: another replica has the node now. */
  | 'close-superseded'
  /** Close the socket: the token is no longer valid. */
  | 'close-revoked'
  /** The node has no session any more. */
  | 'detach'
  /** Report down unless the node answers. */
  | 'verify'
  | 'report-down';

export interface Transition {
  readonly to: SessionState;
  readonly effects: readonly SessionEffect[];
}

type Row = Readonly<Record<SessionEvent, Transition>>;

const to = (state: SessionState, ...effects: SessionEffect[]): Transition => ({ to: state, effects });

/** What changes nothing unless the row of the state says otherwise. */
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

/** What ends a session with a node in the same way in all of its states. */
const ends = {
  'token-revoked': to('ended', 'close-revoked', 'detach', 'report-down'),
  dismissed: to('ended', 'detach'),
  'lost-while-starved': to('ended', 'detach'),
} as const;
/** The same where the agent is expected to continue. */
const breaks = {
  lost: to('ended', 'detach', 'verify'),
  misbehaved: to('ended', 'detach', 'report-down'),
} as const;
const superseded = to('ended', 'close-superseded', 'detach');
const leave = to('leaving', 'record-stop');

/** A state of an agent that stops: only the record of its stop, and its end, matter. */
const stopping = (state: SessionState): Row => ({
  ...staying(state),
  ...ends,
  lost: to('ended', 'detach'),
  misbehaved: to('ended', 'detach'),
});

const transitions: Readonly<Record<SessionState, Row>> = {
  /** Without a node it ends without a trace, and everything else is impossible. */
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
