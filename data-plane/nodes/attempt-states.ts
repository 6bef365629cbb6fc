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
  /** No byte of the request was sent, so another node may get it. */
  | 'connecting'
  /** The request was sent, but no byte of an answer has arrived. */
  | 'waiting'
  /** A reused connection was lost; the request waits for a new connection to the same node. */
  | 'reconnecting'
  /** The request was sent a second time, but no byte of an answer has arrived. */
  | 'waiting-again'
  /** The node answers with an error or a wrong content type. Its body is being collected. */
  | 'error-body'
  /** An answer that is not streamed is being collected. */
  | 'collecting'
  /** The collected answer is complete and is being converted for the client. */
  | 'rebuilding'
  /** The stream has no good event yet, so the status of the client's answer can still be chosen. */
  | 'opening'
  /** The client is receiving events. */
  | 'streaming'
  /** The client reads more slowly than the node sends; the node is paused. */
  | 'blocked'
  /** The complete answer is on its way to the client. */
  | 'delivering';

export type EndState =
  | 'completed'
  /** The client left, before or after the first byte. */
  | 'client-gone'
  /** No byte of the request was sent. */
  | 'unreached'
  /** Failed before the first byte. The client still waits for an answer. */
  | 'failed'
  /** Failed after the first byte, so the client's connection is destroyed. */
  | 'aborted-after-start'
  /** An error in this program. */
  | 'faulted';

export type AttemptEvent =
  /** A connection was obtained, and the request is being sent. */
  | 'sent'
  /** A reused connection was lost without a byte of the answer. */
  | 'unanswered'
  | 'answer-head'
  | 'stream-head'
  | 'error-head'
  /** A piece of a body, or one event of a stream. */
  | 'data'
  /** The body of an answer that is not streamed has ended. Every other end of a body is a failure. */
  | 'end'
  /** The node ended its answer early, was too slow or sent an invalid answer; or no memory was available for the answer. */
  | 'failure'
  /** The first bytes of a stream for the client: its first good event or a keep-alive. */
  | 'first-event'
  /** The client's answer is complete. */
  | 'whole'
  /** The client left. */
  | 'gone'
  | 'blocked'
  | 'drained'
  /** The kernel has accepted the last byte for the client. */
  | 'delivered'
  /** An error in this program. */
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

/** The next state for each state and event. An event that cannot occur in a state is ignored. */
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

/** Every state that an event can lead to, from any state. */
export type Next<Event extends AttemptEvent> = (typeof transitions)[AttemptState][Event];
