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
 * What an event does not lead to is a fault: from every state it, and every event that the state does not name, leads to
 * `broken`, which stays. A connection that ends before the first byte of a head, or behind a message, ends nothing.
 */

export type ReaderState =
  /** Lines up to the empty one. */
  | 'head'
  /** A body of a known number of bytes. */
  | 'counted'
  /** A body that ends with its connection. */
  | 'until-close'
  /** The digits of a chunk's size. */
  | 'size'
  /** What follows them up to the end of the line. */
  | 'extension'
  /** The line feed of that line. */
  | 'size-end'
  /** The bytes of a chunk. */
  | 'data'
  /** The carriage return after them. */
  | 'data-return'
  /** The line feed after them. */
  | 'data-feed'
  /** Lines after the last chunk up to the empty one. */
  | 'trailers'
  /** The message is whole. */
  | 'ended'
  /** Nothing is read any more. */
  | 'broken';

export type ReaderEvent =
  /** The head is whole, and says how its body ends. */
  | 'without-body'
  | 'counted'
  | 'chunked'
  | 'until-close'
  /** An extension follows the size of a chunk. */
  | 'semicolon'
  | 'return'
  | 'feed'
  /** The line with the size of a chunk is whole. */
  | 'chunk-size'
  /** The same, and the size is 0. */
  | 'last-size'
  /** The last of a known number of bytes was read. */
  | 'through'
  | 'fields-end'
  /** The first byte of a further message. */
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
