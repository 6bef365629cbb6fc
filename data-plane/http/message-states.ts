/**
 * The state machine of reading one message after another. The table is the only place that decides what an event means;
 * message-reader.ts finds the events in the bytes.
 *
 *   ┌──────────────────────────────── next ──────────────────────────────────┐
 *   ▼      without-body                                                      │
 * head ──────────────────────────────────────────────────────────────────▶ ended
 *   │ │ │  counted                    through                             ▲ ▲ ▲
 *   │ │ └──────────▶ counted ─────────────────────────────────────────────┘ │ │
 *   │ │  until-close               close                                    │ │
 *   │ └────────────▶ until-close ───────────────────────────────────────────┘ │
 *   │ chunked                                 last-size                       │ fields-end
 *   └──────────────▶ size ◀─┐ ────▶ size-end ───────────▶ trailers ───────────┘
 *        semicolon    │     │          ▲  │ chunk-size
 *                     ▼     │   return │  ▼
 *               extension ──┼──────────┘ data ──▶ data-return ──▶ data-feed ──▶ size
 *                                           through          return         feed
 *
 * From every state, `fault` and every event without an arrow lead to `broken`, which is final. A connection that ends before
 * the first byte of a head, or after a complete message, is no fault.
 */

export type ReaderState =
  /** The lines of the head are being read, up to the empty line. */
  | 'head'
  /** A body of known length is being read. */
  | 'counted'
  /** A body that ends with its connection is being read. */
  | 'until-close'
  /** The digits of a chunk size are being read. */
  | 'size'
  /** A chunk extension is being read, after the digits of the size. */
  | 'extension'
  /** The line feed that ends the line with the chunk size must follow. */
  | 'size-end'
  /** The data of a chunk is being read. */
  | 'data'
  /** The carriage return after the data of a chunk must follow. */
  | 'data-return'
  /** The line feed after the data of a chunk must follow. */
  | 'data-feed'
  /** The lines after the last chunk are being read, up to the empty line. */
  | 'trailers'
  /** The message is complete. */
  | 'ended'
  /** Reading has stopped for good. */
  | 'broken';

export type ReaderEvent =
  /** The head is complete. The name of this event, and those of the next three, say how the body ends. */
  | 'without-body'
  | 'counted'
  | 'chunked'
  | 'until-close'
  /** An extension follows the size of the chunk. */
  | 'semicolon'
  | 'return'
  | 'feed'
  /** The line with the chunk size is complete. */
  | 'chunk-size'
  /** The line with the chunk size is complete, and the size is 0. */
  | 'last-size'
  /** The last byte of a chunk or of a body with known length has been read. */
  | 'through'
  | 'fields-end'
  /** The first byte of the next message has been read. */
  | 'next'
  /** The peer will send nothing more. */
  | 'close'
  | 'fault';

export const readerTransitions: Readonly<
  Record<ReaderState, Readonly<Partial<Record<ReaderEvent, ReaderState>>>>
> = {
  head: { 'without-body': 'ended', counted: 'counted', chunked: 'size', 'until-close': 'until-close' },
  counted: { through: 'ended' },
  'until-close': { close: 'ended' },
  size: { semicolon: 'extension', return: 'size-end' },
  extension: { return: 'size-end' },
  'size-end': { 'chunk-size': 'data', 'last-size': 'trailers' },
  data: { through: 'data-return' },
  'data-return': { return: 'data-feed' },
  'data-feed': { feed: 'size' },
  trailers: { 'fields-end': 'ended' },
  ended: { next: 'head', close: 'ended' },
  broken: {},
};
