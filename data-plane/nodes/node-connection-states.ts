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
  /** It has a request already, and is not connected. */
  | 'opening'
  /** A part of the request was written. */
  | 'sending'
  /** All of it was written. */
  | 'waiting'
  /** The head of the answer came before the request was whole. */
  | 'early'
  /** The head of the answer was read, and the request is whole. */
  | 'answering'
  /** It has no request. */
  | 'resting'
  | 'closed';

export type NodeConnectionEvent =
  | 'opened'
  /** The last byte of the request was written. */
  | 'sent'
  /** The head of the answer; not one of an answer before it. */
  | 'head'
  /** The last byte of the answer. */
  | 'end'
  /** The same, and no request may follow. */
  | 'end-last'
  /** A request. */
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
