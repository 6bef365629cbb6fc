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
  /** Not connected yet. A request is waiting to be sent. */
  | 'opening'
  /** The request has been written only in part. */
  | 'sending'
  /** The request has been written completely, and the response has not begun. */
  | 'waiting'
  /** The head of the response arrived before the request was written completely. */
  | 'early'
  /** The request has been written completely, and the head of the response has been read. */
  | 'answering'
  /** The connection is idle, which means that it carries no request. */
  | 'resting'
  | 'closed';

export type NodeConnectionEvent =
  | 'opened'
  /** The last byte of the request has been written. */
  | 'sent'
  /** The head of the response has been read. Interim responses (1xx) do not count. */
  | 'head'
  /** The last byte of the response has been read. */
  | 'end'
  /** The last byte of the response has been read, and the connection must close. */
  | 'end-last'
  /** An idle connection was given a request. */
  | 'taken'
  /** The connection was lost, its response cannot be read, or its call was aborted. */
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
