/**
 * The state machine of a connection to a node: one request after another, each answered before the next is sent.
 *
 *            opened             sent             head              end
 *   opening ────────▶ sending ───────▶ waiting ───────▶ answering ─────▶ resting
 *                      ▲   │                               ▲                │
 *                      │   └── head ──▶ early ─── sent ────┘                │
 *                      │                  │ end                             │
 *                      └───────────────── │ ──────── taken ─────────────────┘
 *                                         ▼
 *                                      closed
 *
 * From every state `end-last` and `lost` lead to closed, which stays. What a state does not name is a fault of the node, and
 * leads there too: bytes that nobody asked for, or an end without a head.
 */

export type NodeConnectionState =
  /** Not connected yet, but already has a request. */
  | 'opening'
  /** The request has been written in part. */
  | 'sending'
  /** The request has been written completely. */
  | 'waiting'
  /** The head of the answer arrived before the request was written completely. */
  | 'early'
  /** The head of the answer has been read, and the request has been written completely. */
  | 'answering'
  /** Idle: no request. */
  | 'resting'
  | 'closed';

export type NodeConnectionEvent =
  | 'opened'
  /** The last byte of the request was written. */
  | 'sent'
  /** The head of the final answer, not of an interim one. */
  | 'head'
  /** The last byte of the answer was read. */
  | 'end'
  /** The last byte of the answer was read, and no other request may follow. */
  | 'end-last'
  /** The connection was given a request. */
  | 'taken'
  /** The connection is lost, its answer cannot be read, or its call gave up. */
  | 'lost';

type Row = Readonly<Partial<Record<NodeConnectionEvent, NodeConnectionState>>>;

export const nodeConnectionTransitions: Readonly<Record<NodeConnectionState, Row>> = {
  opening: { opened: 'sending' },
  sending: { sent: 'waiting', head: 'early' },
  waiting: { head: 'answering' },
  early: { sent: 'answering', end: 'closed' },
  answering: { end: 'resting' },
  resting: { taken: 'sending' },
  closed: {},
};
