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
  /** Lines up to the empty line. */
  | 'head'
  /** A body of known length. */
  | 'counted'
  /** A body that ends when its connection closes. */
  | 'until-close'
  /** The digits of a chunk's size. */
  | 'size'
  /** The rest of the chunk-size line, after the digits. */
  | 'extension'
  /** The line feed that ends the chunk-size line. */
  | 'size-end'
  /** The bytes of a chunk. */
  | 'data'
  /** The carriage return after a chunk. */
  | 'data-return'
  /** The line feed after a chunk. */
  | 'data-feed'
  /** Lines after the last chunk, up to the empty line. */
  | 'trailers'
  /** The message is complete. */
  | 'ended'
  /** Reading has stopped for good. */
  | 'broken';

export type ReaderEvent =
  /** The head is complete. The event's name says how the body ends. */
  | 'without-body'
  | 'counted'
  | 'chunked'
  | 'until-close'
  /** An extension follows the size of a chunk. */
  | 'semicolon'
  | 'return'
  | 'feed'
  /** The chunk-size line is complete. */
  | 'chunk-size'
  /** The chunk-size line is complete, and the size is 0. */
  | 'last-size'
  /** The last byte of a counted body, or of a chunk, was read. */
  | 'through'
  | 'fields-end'
  /** The first byte of another message was read. */
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
