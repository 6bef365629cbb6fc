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
  /** No byte of the next request has been read. */
  | 'waiting'
  /** A part of a request has been read, and the request may already be handled. */
  | 'reading'
  /** The request has been read completely. Bytes that follow it are kept unread, up to a limit. */
  | 'answering'
  /** The request was answered before it was read completely, so the rest of it is dropped. */
  | 'discarding'
  /** The last byte has been written. The client gets time to read it, and anything that it still sends is dropped. */
  | 'closing'
  | 'closed';

export type ConnectionEvent =
  /** The first byte of a request has been read. */
  | 'begun'
  /** The last byte of a request has been read. */
  | 'whole'
  /** The kernel has accepted the last byte of the response. */
  | 'answered'
  /** The kernel has accepted the last byte of the response, and the connection must close. */
  | 'answered-last'
  /** The bytes were not a valid request, or the request took too long. A refusal has been written. */
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
