/**
 * Reads the lines of a head or of trailers. The bytes may be split anywhere without changing the result, because each byte is
 * judged only by the bytes before it. An incomplete line is kept, and read again together with the next bytes.
 */
import {
  carriageReturn,
  colon,
  isBlank,
  lineFeed,
  spanLength,
  tab,
  token,
  value as valueBytes,
} from './characters.ts';
import type { FaultName } from './faults.ts';

/** Result of reading a line that is not complete yet. */
export const incomplete = -1;
/** Result of reading an invalid line. `fault` then says why. */
export const broken = -2;

const headEnd = Buffer.from('\r\n\r\n');

/** Fields in which a tab next to the value is a fault. Some readers skip such a tab; others reject the message. */
const tabFaults: ReadonlyMap<string, FaultName> = new Map([
  ['content-length', 'length'],
  ['transfer-encoding', 'coding'],
]);

export abstract class FieldReader {
  fault: FaultName | undefined;
  /** Header fields as alternating names and values, as the peer sent them. */
  protected fields: string[] = [];
  readonly #bytesMax: number;
  #text = '';
  /** Index in the text at which the next line to read begins. */
  #at = 0;
  #isStarted = false;
  #isWhole = false;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Whether anything other than empty lines has been read. */
  get hasBegun(): boolean {
    return /[^\r\n]/.test(this.#text);
  }

  /** Reads the first line. Returns the index of the line after it. */
  protected abstract startLine(text: string, at: number): number;

  /** Reads lines. Returns the index after the last line, `incomplete` if more bytes are needed, or `broken`. */
  read(piece: Buffer, from: number): number {
    let at = from;
    while (at < piece.length) {
      const held = this.#text.length;
      // Do not convert the bytes that follow the head to text.
      const end = piece.indexOf(headEnd, at);
      const to = Math.min(at + this.#bytesMax - held, end === -1 ? piece.length : end + headEnd.length);
      const part = piece.toString('latin1', at, to);
      const text = held === 0 ? part : this.#text + part;
      const next = this.#lines(text);
      if (next >= 0) return at + next - held;
      if (next === broken) return broken;
      if (text.length >= this.#bytesMax) return this.breakOff('large head');
      this.#text = text;
      at = to;
    }
    return incomplete;
  }

  protected breakOff(fault: FaultName): number {
    this.fault = fault;
    return broken;
  }

  protected reset(): void {
    this.fields = [];
    this.#text = '';
    this.#at = 0;
    this.#isStarted = false;
    this.#isWhole = false;
  }

  /** Reads the end of a line, which begins with a carriage return at `at`. */
  protected lineEnd(text: string, at: number): number {
    if (at + 1 === text.length) return incomplete;
    return text.charCodeAt(at + 1) === lineFeed ? at + 2 : this.breakOff('bare carriage return');
  }

  #lines(text: string): number {
    for (;;) {
      const next = this.#isStarted ? this.#fieldLine(text, this.#at) : this.startLine(text, this.#at);
      if (next < 0) return next;
      this.#isStarted = true;
      if (this.#isWhole) return next;
      this.#at = next;
    }
  }

  #fieldLine(text: string, at: number): number {
    const colonAt = spanLength(text, at, token);
    if (colonAt === text.length) return incomplete;
    const code = text.charCodeAt(colonAt);
    if (code !== colon || colonAt === at) return this.#noField(text, at, colonAt);
    let from = colonAt + 1;
    while (isBlank(text.charCodeAt(from))) from++;
    const end = spanLength(text, from, valueBytes);
    if (end === text.length) return incomplete;
    const next = this.valueEnd(text, end);
    if (next < 0) return next;
    let to = end;
    while (to > from && isBlank(text.charCodeAt(to - 1))) to--;
    const name = text.slice(at, colonAt);
    const hasSpace = from > colonAt + 2 || to < end || text.charCodeAt(colonAt + 1) === tab;
    if (hasSpace && text.slice(colonAt, end).includes('\t')) {
      const fault = tabFaults.get(name.toLowerCase());
      if (fault !== undefined) return this.breakOff(fault);
    }
    this.fields.push(name, text.slice(from, to));
    return next;
  }

  /** Reads a line without a colon after its name. Only an empty line is valid, which ends the head or the trailers. */
  #noField(text: string, at: number, nameEnd: number): number {
    const code = text.charCodeAt(nameEnd);
    if (code === lineFeed) return this.breakOff('bare line feed');
    if (nameEnd > at) return this.breakOff(isBlank(code) ? 'space before a colon' : 'field name');
    if (isBlank(code)) return this.breakOff('folded line');
    if (code !== carriageReturn) return this.breakOff('field name');
    const next = this.lineEnd(text, at);
    if (next >= 0) this.#isWhole = true;
    return next;
  }

  /** Reads the byte at `at`, which follows a field's value. Only the end of the line is valid. */
  protected valueEnd(text: string, at: number): number {
    const code = text.charCodeAt(at);
    if (code === carriageReturn) return this.lineEnd(text, at);
    if (code === lineFeed) return this.breakOff('bare line feed');
    return this.breakOff('control byte');
  }
}

/** Reads trailers and drops them. A trailer that determines the length or destination of a message is a fault. */
export class TrailerReader extends FieldReader {
  protected override startLine(_text: string, at: number): number {
    return at;
  }

  override read(piece: Buffer, from: number): number {
    const next = super.read(piece, from);
    if (next < 0) return next;
    for (let i = 0; i < this.fields.length; i += 2)
      if (barredTrailers.has((this.fields[i] as string).toLowerCase())) return this.breakOff('trailer');
    this.reset();
    return next;
  }
}

const barredTrailers = new Set(['content-length', 'transfer-encoding', 'host', 'connection', 'trailer']);

const protocol = 'HTTP/';

/** Checks that a version such as `HTTP/1.1` is at `at`, and returns the index after it. */
export function matchVersion(text: string, at: number): number {
  for (let i = 0; i < protocol.length; i++) {
    if (at + i === text.length) return incomplete;
    if (text[at + i] !== protocol[i]) return broken;
  }
  const digits = at + protocol.length;
  for (let i = digits; i < digits + 3; i++) {
    if (i === text.length) return incomplete;
    const code = text.charCodeAt(i);
    const isRight = i === digits + 1 ? code === 0x2e : code >= 0x30 && code <= 0x39;
    if (!isRight) return broken;
  }
  return digits + 3;
}
