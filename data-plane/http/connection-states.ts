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
 *              └───────────────────────────────┘ refused, and in every state before it
 *
 * `closed` leads from every state to closed, which stays. What a state does not name changes nothing.
 */

export type ConnectionState =
  /** No byte of a request was read. */
  | 'waiting'
  /** A request is not whole; it may be handled already. */
  | 'reading'
  /** It is whole. What comes behind it is kept unread, up to a bound. */
  | 'answering'
  /** It was answered; what is left of it is dropped. */
  | 'discarding'
  /** The last byte was written; the client is to read it before the connection ends. What it sends is dropped. */
  | 'closing'
  | 'closed';

export type ConnectionEvent =
  /** The first byte of a request. */
  | 'begun'
  /** The last byte of a request. */
  | 'whole'
  /** The system has the last byte of its answer. */
  | 'answered'
  /** The same, and the connection ends with it. */
  | 'answered-last'
  /** What was read is no request, or it did not come in time; a refusal was written. */
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
