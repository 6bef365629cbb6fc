/**
 * Reads HTTP messages from a connection's bytes, which may be split anywhere, until the first fault. All body bytes from one
 * call are delivered to the sink as one piece, so the data of several chunks is moved together within the caller's buffer.
 */
import { carriageReturn, equals, isClass, lineFeed, semicolon, token } from './characters.ts';
import type { FaultName } from './faults.ts';
import { broken, incomplete, TrailerReader } from './field-reader.ts';
import type { HeadReader } from './head-readers.ts';
import type { BodyFraming, MessageHead } from './message-head.ts';
import { type ReaderEvent, type ReaderState, readerTransitions } from './message-states.ts';

export interface MessageSink<Head> {
  onHead(head: Head): void;
  /** Called with a part of a body. The piece refers to the caller's buffer. */
  onPiece(piece: Buffer): void;
  onEnd(): void;
  /** Called for a fault, after which nothing else is called. `unseen` is the faulty head, if its lines could be parsed. */
  onFault(fault: FaultName, unseen: Head | undefined): void;
}

/** Maximum number of hexadecimal digits in a chunk size, which limits a chunk to 4 GiB. */
const sizeDigitsMax = 8;
/** Maximum size in bytes of all chunk extensions in a message. */
const extensionBytesMax = 16 * 1024;

const bodyEvents: Readonly<Record<BodyFraming, ReaderEvent>> = {
  none: 'without-body',
  counted: 'counted',
  chunked: 'chunked',
  'until-close': 'until-close',
};

export class MessageReader<Head extends MessageHead> {
  readonly #heads: HeadReader<Head>;
  readonly #sink: MessageSink<Head>;
  readonly #headBytesMax: number;
  #trailers: TrailerReader | undefined;
  #state: ReaderState = 'head';
  /** Number of bytes of the body or chunk that are left. While a chunk size is being read, the value so far. */
  #left = 0;
  #digits = 0;
  #extensionBytes = 0;
  /** Previous byte of a chunk extension, and whether the extension already has an equals sign. */
  #previous = 0;
  #hasValue = false;
  /** Start of the part of the caller's buffer that will be delivered to the sink. */
  #from = 0;
  #to = 0;

  constructor(heads: HeadReader<Head>, sink: MessageSink<Head>, headBytesMax: number) {
    this.#heads = heads;
    this.#sink = sink;
    this.#headBytesMax = headBytesMax;
  }

  get state(): ReaderState {
    return this.#state;
  }

  /** Whether the reader is between two messages, because nothing has been read yet or the last message is complete. */
  get isBetween(): boolean {
    return this.#state === 'ended' || (this.#state === 'head' && !this.#heads.hasBegun);
  }

  /** Reads until the message or the bytes end, and returns the number of bytes read. The caller passes the rest again. */
  read(bytes: Buffer): number {
    let at = 0;
    this.#from = 0;
    this.#to = 0;
    if (this.#state === 'ended' && bytes.length > 0) this.#step('next');
    while (at < bytes.length && this.#state !== 'ended' && this.#state !== 'broken')
      at = this.#advance(bytes, at);
    this.#deliver(bytes);
    if (this.#state === 'ended') this.#sink.onEnd();
    return at;
  }

  /** Must be called when the peer will send nothing more. */
  close(): void {
    if (this.isBetween || this.#state === 'broken') return;
    if (this.#state !== 'until-close') {
      this.#break('cut short');
      return;
    }
    this.#step('close');
    this.#sink.onEnd();
  }

  /** Stops reading for good. The sink is not called any more. */
  abandon(): void {
    this.#step('fault');
  }

  #step(event: ReaderEvent): ReaderState {
    this.#state = readerTransitions[this.#state][event] ?? 'broken';
    return this.#state;
  }

  #advance(bytes: Buffer, at: number): number {
    switch (this.#state) {
      case 'head':
        return this.#readHead(bytes, at);
      case 'counted':
      case 'data':
        return this.#takeLeft(bytes, at);
      case 'until-close':
        return this.#take(bytes, at, bytes.length);
      case 'size':
        return this.#readSize(bytes, at);
      case 'extension':
        return this.#readExtension(bytes, at);
      case 'size-end':
        return this.#expectFeed(bytes, at, this.#left === 0 ? 'last-size' : 'chunk-size');
      case 'data-return':
        if (bytes[at] === carriageReturn) this.#step('return');
        else this.#fail(bytes, bytes[at] === lineFeed ? 'bare line feed' : 'chunk end');
        return at + 1;
      case 'data-feed':
        this.#left = 0;
        this.#digits = 0;
        return this.#expectFeed(bytes, at, 'feed');
      case 'trailers':
        return this.#readTrailers(bytes, at);
      case 'ended':
      case 'broken':
        return bytes.length;
    }
  }

  #readHead(bytes: Buffer, at: number): number {
    const next = this.#heads.read(bytes, at);
    if (next === incomplete) return bytes.length;
    if (next === broken) return this.#fail(bytes, this.#heads.fault ?? 'method');
    const head = this.#heads.take();
    if (head.fault !== undefined) return this.#fail(bytes, head.fault, head);
    this.#left = head.framing === 'counted' ? head.bodyBytes : 0;
    this.#digits = 0;
    this.#extensionBytes = 0;
    const isEmpty = head.framing === 'counted' && this.#left === 0;
    this.#step(isEmpty ? 'without-body' : bodyEvents[head.framing]);
    this.#sink.onHead(head);
    return next;
  }

  #takeLeft(bytes: Buffer, at: number): number {
    const to = Math.min(bytes.length, at + this.#left);
    this.#left -= to - at;
    if (this.#left === 0) this.#step('through');
    return this.#take(bytes, at, to);
  }

  #take(bytes: Buffer, from: number, to: number): number {
    if (this.#to === 0) this.#from = from;
    else if (this.#to !== from) bytes.copyWithin(this.#to, from, to);
    this.#to = this.#to === 0 ? to : this.#to + to - from;
    return to;
  }

  #readSize(bytes: Buffer, at: number): number {
    let next = at;
    for (; next < bytes.length; next++) {
      const digit = hexadecimal(bytes[next] as number);
      if (digit === -1) break;
      this.#digits++;
      if (this.#digits > sizeDigitsMax) return this.#fail(bytes, 'chunk size');
      this.#left = this.#left * 16 + digit;
    }
    if (next === bytes.length) return next;
    const code = bytes[next] as number;
    if (this.#digits === 0) return this.#fail(bytes, 'chunk size');
    if (code === carriageReturn) this.#step('return');
    else if (code === semicolon) this.#beginExtension();
    else return this.#fail(bytes, code === lineFeed ? 'bare line feed' : 'chunk size');
    return next + 1;
  }

  #beginExtension(): void {
    this.#previous = semicolon;
    this.#hasValue = false;
    this.#step('semicolon');
  }

  /** Reads chunk extensions. Each is either `;name` or `;name=token`. */
  #readExtension(bytes: Buffer, at: number): number {
    for (let next = at; next < bytes.length; next++) {
      const code = bytes[next] as number;
      if (++this.#extensionBytes > extensionBytesMax) return this.#fail(bytes, 'chunk extension');
      const isAfterToken = isClass(this.#previous, token);
      if (code === carriageReturn && isAfterToken) {
        this.#step('return');
        return next + 1;
      }
      const isSeparator = code === semicolon || (code === equals && !this.#hasValue);
      if (!(isSeparator && isAfterToken) && !isClass(code, token))
        return this.#fail(bytes, 'chunk extension');
      if (isSeparator) this.#hasValue = code === equals;
      this.#previous = code;
    }
    return bytes.length;
  }

  #expectFeed(bytes: Buffer, at: number, event: ReaderEvent): number {
    if (bytes[at] !== lineFeed) return this.#fail(bytes, 'bare carriage return');
    this.#step(event);
    return at + 1;
  }

  #readTrailers(bytes: Buffer, at: number): number {
    this.#trailers ??= new TrailerReader(this.#headBytesMax);
    const next = this.#trailers.read(bytes, at);
    if (next === incomplete) return bytes.length;
    if (next === broken) return this.#fail(bytes, this.#trailers.fault ?? 'trailer');
    this.#step('fields-end');
    return next;
  }

  /** Delivers the body bytes that came before the fault, and then reports the fault. */
  #fail(bytes: Buffer, fault: FaultName, unseen?: Head): number {
    this.#deliver(bytes);
    this.#break(fault, unseen);
    return bytes.length;
  }

  #break(fault: FaultName, unseen?: Head): void {
    if (this.#state === 'broken') return;
    this.#step('fault');
    this.#sink.onFault(fault, unseen);
  }

  #deliver(bytes: Buffer): void {
    const from = this.#from;
    const to = this.#to;
    this.#from = 0;
    this.#to = 0;
    if (to > from && this.#state !== 'broken') this.#sink.onPiece(bytes.subarray(from, to));
  }
}

function hexadecimal(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const letter = code | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
