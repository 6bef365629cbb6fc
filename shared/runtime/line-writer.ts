/**
 * Writes lines to a file descriptor without waiting for it: gathered for a short while, then written in one go, one write
 * at a time. For lines that are many and may be lost: a crash of the process by a signal loses what was gathered last, and
 * where the reader does not keep up, lines are dropped and counted instead of growing the memory. Any other end of the
 * process writes what is left.
 */
import { write, writeSync } from 'node:fs';

export interface LineWriterOptions {
  readonly fd: number;
  /** How long a line waits for others, ms. */
  readonly gatherMs?: number;
  /** Bytes that may wait; further lines are dropped. */
  readonly bytesMax?: number;
  /** Told how many lines were dropped, once there is room again. */
  readonly onDropped?: (lines: number) => void;
}

const gatherMsDefault = 50;
const bytesMaxDefault = 1024 * 1024;

export class LineWriter {
  readonly #fd: number;
  readonly #gatherMs: number;
  readonly #onDropped: (lines: number) => void;
  #dropped = 0;
  /** Lines are encoded where they wait: a string of many lines would outlive its requests, and be copied with them. */
  #waiting: Buffer;
  #waitingBytes = 0;
  /** Takes the place of `waiting` while that is being written. */
  #other: Buffer;
  /** Being written now. */
  #leaving: Buffer | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: LineWriterOptions) {
    const { bytesMax = bytesMaxDefault } = options;
    this.#fd = options.fd;
    this.#gatherMs = options.gatherMs ?? gatherMsDefault;
    this.#onDropped = options.onDropped ?? (() => undefined);
    this.#waiting = Buffer.allocUnsafeSlow(bytesMax);
    this.#other = Buffer.allocUnsafeSlow(bytesMax);
    process.once('exit', () => this.#writeRest());
  }

  /** Takes whole lines, each with its end. Never throws. */
  write(lines: string): void {
    const room = this.#waiting.length - this.#waitingBytes;
    // A unit of UTF-16 takes three bytes of UTF-8 at most.
    if (lines.length * 3 > room && Buffer.byteLength(lines) > room) {
      this.#dropped++;
      return;
    }
    this.#waitingBytes += this.#waiting.write(lines, this.#waitingBytes);
    if (this.#leaving === undefined) this.#timer ??= setTimeout(() => this.#begin(), this.#gatherMs).unref();
  }

  #begin(): void {
    this.#timer = undefined;
    this.#leaving = this.#takeWaiting();
    const dropped = this.#dropped;
    this.#dropped = 0;
    if (dropped > 0) this.#onDropped(dropped);
    this.#writeOn();
  }

  #takeWaiting(): Buffer {
    const taken = this.#waiting.subarray(0, this.#waitingBytes);
    [this.#waiting, this.#other] = [this.#other, this.#waiting];
    this.#waitingBytes = 0;
    return taken;
  }

  #writeOn(): void {
    const leaving = this.#leaving;
    if (leaving === undefined) return;
    write(this.#fd, leaving, (error, bytes) => {
      if (error?.code === 'EAGAIN') {
        setTimeout(() => this.#writeOn(), this.#gatherMs).unref();
        return;
      }
      // Whoever read is gone, or cannot be written: these lines have no other place to go to.
      if (error !== null || bytes === leaving.length) {
        this.#leaving = undefined;
        if (this.#waitingBytes > 0) this.#begin();
        return;
      }
      this.#leaving = leaving.subarray(bytes);
      this.#writeOn();
    });
  }

  /** What is being written now may arrive twice in part: better than not at all. */
  #writeRest(): void {
    try {
      writeSync(this.#fd, Buffer.concat([this.#leaving ?? Buffer.alloc(0), this.#takeWaiting()]));
    } catch {
      // The process ends, and nobody reads.
    }
    this.#leaving = undefined;
  }
}
