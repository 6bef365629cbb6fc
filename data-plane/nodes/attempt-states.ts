/**
 * The state machine of one attempt to have one node answer one request: client × node × body. The table is the only place
 * that decides what an event means; attempt.ts does what follows from it.
 *
 *            sent           answer-head             end               whole
 * connecting ────▶ waiting ──────┬─────▶ collecting ───▶ rebuilding ─────────────────┐
 *     │             │   │        │                                                   ▼
 *     │             │   │        └─────▶ opening ───────────▶ streaming ───────▶ delivering
 *     │             │   │     stream-head   │   first-event    │  ▲ │      whole    ▲  │
 *     │             │   │                   │          blocked │  │ drained        │  │
 *     │             │   │ error-head        │                  ▼  │ │              │  │
 *     │             │   └─────▶ error-body  │                blocked ──────────────┘  │
 *     │             │               │       │                  │    │                 │
 *     │ failure     │ failure       │       │ failure          │    │ failure         │ delivered
 *     ▼             ▼               ▼       ▼                  ▼    ▼                 ▼
 * unreached       failed          failed  failed          aborted-after-start     completed
 *
 * If a reused connection is lost without a byte of the answer, `unanswered` leads from waiting to reconnecting, and `sent` from
 * there to waiting-again. No arrow leads back, so a request is sent at most twice. Both states fail as waiting does; collecting
 * and rebuilding fail as opening does. `gone` leads from every live state to client-gone, and `fault` to faulted.
 * The six end states ignore every event. So there is one result, memory is released once, and nothing is written after the end.
 * Only `completed` is billed.
 */

export type LiveState =
  /** No byte of the request has been sent, so another node may still get it. */
  | 'connecting'
  /** The request has been sent, but no byte of the response has arrived. */
  | 'waiting'
  /** A reused connection was lost, so the request waits for a new connection to the same node. */
  | 'reconnecting'
  /** The request has been sent a second time, but no byte of the response has arrived. */
  | 'waiting-again'
  /** The node has answered with an error or a wrong content type, and the body of this response is being collected. */
  | 'error-body'
  /** A whole response (not a stream) is being collected. */
  | 'collecting'
  /** The whole response has been collected and is being converted for the client. */
  | 'rebuilding'
  /** A stream has begun, but without a good event so far, so the status of the client's response can still change. */
  | 'opening'
  /** The client is receiving the events of a stream. */
  | 'streaming'
  /** The client reads more slowly than the node sends, so reading from the node is paused. */
  | 'blocked'
  /** The node's response is complete, but the client has not received all of it. */
  | 'delivering';

export type EndState =
  | 'completed'
  /** The client disconnected before it had received a complete response. */
  | 'client-gone'
  /** The attempt ended before any byte of the request was sent. */
  | 'unreached'
  /** The attempt failed before the client's response began, so the client still waits for a response. */
  | 'failed'
  /** The attempt failed after the client's response had begun, so the client's connection is destroyed. */
  | 'aborted-after-start'
  /** The attempt ended because of an error in this program. */
  | 'faulted';

export type AttemptEvent =
  /** A connection is ready and the request is being sent. */
  | 'sent'
  /** A reused connection was lost before any byte of the node's response arrived. */
  | 'unanswered'
  | 'answer-head'
  | 'stream-head'
  | 'error-head'
  /** A part of a body, or one event of a stream, has arrived. */
  | 'data'
  /** The body of the node's response has ended. If it was not a whole response, this is a failure. */
  | 'end'
  /** The node stopped early, was too slow or sent an invalid response, or the gateway lacked memory for the response. */
  | 'failure'
  /** The first bytes of a stream are ready for the client: a good event or a keep-alive. */
  | 'first-event'
  /** The response to the client has been created completely. */
  | 'whole'
  /** The client has disconnected. */
  | 'gone'
  | 'blocked'
  | 'drained'
  /** The kernel has accepted the last byte of the response to the client. */
  | 'delivered'
  /** An error has occurred in this program. */
  | 'fault';

type Row = Readonly<Record<AttemptEvent, LiveState | EndState | 'ignored'>>;

const over = {
  sent: 'ignored',
  unanswered: 'ignored',
  'answer-head': 'ignored',
  'stream-head': 'ignored',
  'error-head': 'ignored',
  data: 'ignored',
  end: 'ignored',
  failure: 'ignored',
  'first-event': 'ignored',
  whole: 'ignored',
  gone: 'ignored',
  blocked: 'ignored',
  drained: 'ignored',
  delivered: 'ignored',
  fault: 'ignored',
} as const satisfies Row;

const live = { ...over, gone: 'client-gone', fault: 'faulted' } as const satisfies Row;

const waiting = {
  ...live,
  'answer-head': 'collecting',
  'stream-head': 'opening',
  'error-head': 'error-body',
  failure: 'failed',
} as const satisfies Row;

/** Next state, by state and event. An event that is not listed for a state is ignored in this state. */
export const transitions = {
  connecting: { ...live, sent: 'waiting', failure: 'unreached' },
  waiting: { ...waiting, unanswered: 'reconnecting' },
  reconnecting: { ...live, sent: 'waiting-again', failure: 'failed' },
  'waiting-again': waiting,
  'error-body': { ...live, data: 'error-body', failure: 'failed' },
  collecting: { ...live, data: 'collecting', end: 'rebuilding', failure: 'failed' },
  rebuilding: { ...live, whole: 'delivering', failure: 'failed' },
  opening: { ...live, data: 'opening', 'first-event': 'streaming', failure: 'failed' },
  streaming: {
    ...live,
    data: 'streaming',
    blocked: 'blocked',
    whole: 'delivering',
    failure: 'aborted-after-start',
  },
  blocked: {
    ...live,
    data: 'blocked',
    blocked: 'blocked',
    drained: 'streaming',
    whole: 'delivering',
    failure: 'aborted-after-start',
  },
  delivering: { ...live, delivered: 'completed' },
  completed: over,
  'client-gone': over,
  unreached: over,
  failed: over,
  'aborted-after-start': over,
  faulted: over,
} as const satisfies Readonly<Record<LiveState | EndState, Row>>;

export type AttemptState = keyof typeof transitions;

/** All states to which the event can lead, whatever the current state is. */
export type Next<Event extends AttemptEvent> = (typeof transitions)[AttemptState][Event];
