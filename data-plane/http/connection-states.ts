/**
 * The state machine of a client's connection: one request after another, each answered before the next is read.
 *
 *             begun              whole
 *   waiting ─────────▶ reading ─────────▶ answering
 *    ▲   ▲               │  │              │   │
 *    │   └─── answered ──┼──┼──────────────┘   │ answered-last
 *    │                   │  └─────────────▶ closing ─────▶ closed
 *    │ whole             │ answered            ▲     closed
 *    └─── discarding ◀───┘                     │
 *              └───────────────────────────────┘ refused, from every earlier state too
 *
 * `closed` leads from every state to closed, which is final. An event without an arrow changes nothing.
 */

export type ConnectionState =
  /** No byte of a request has been read. */
  | 'waiting'
  /** A request is incomplete, but may already be handled. */
  | 'reading'
  /** The request is complete. Bytes after it are kept unread, up to a bound. */
  | 'answering'
  /** The request was answered before its end. Its remaining bytes are dropped. */
  | 'discarding'
  /** The last byte was written. The client may read it before the connection closes; what it sends is dropped. */
  | 'closing'
  | 'closed';

export type ConnectionEvent =
  /** The first byte of a request. */
  | 'begun'
  /** The last byte of a request. */
  | 'whole'
  /** The kernel has accepted the last byte of the answer. */
  | 'answered'
  /** The kernel has accepted the last byte of the answer, and the connection closes after it. */
  | 'answered-last'
  /** The bytes were not a valid request, or the request was not complete in time. A refusal was written. */
  | 'refused'
  | 'closed';

type ConnectionRow = Readonly<Partial<Record<ConnectionEvent, ConnectionState>>>;

export const connectionTransitions: Readonly<Record<ConnectionState, ConnectionRow>> = {
  waiting: { begun: 'reading', refused: 'closing', closed: 'closed' },
  reading: {
    whole: 'answering',
    answered: 'discarding',
    'answered-last': 'closing',
    refused: 'closing',
    closed: 'closed',
  },
  answering: { answered: 'waiting', 'answered-last': 'closing', refused: 'closing', closed: 'closed' },
  discarding: { whole: 'waiting', refused: 'closing', closed: 'closed' },
  closing: { closed: 'closed' },
  closed: {},
};
