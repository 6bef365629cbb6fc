/**
 * Writes lines to a file descriptor without waiting for it: buffered for a short time, then written together, one write at
 * a time. For many lines that may be lost: a process that a signal kills loses its buffer, and where the reader does not
 * keep up, lines are dropped and counted instead of using more memory. Any other end of the process flushes the buffer.
 */
import { write, writeSync } from 'node:fs';

export interface LineWriterOptions {
  readonly fd: number;
  /** How long a line is buffered, ms. */
  readonly gatherMs?: number;
  /** The buffer size; further lines are dropped. */
  readonly bytesMax?: number;
  /** Called with the number of dropped lines, once there is room again. */
  readonly onDropped?: (lines: number) => void;
}

const gatherMsDefault = 50;
const bytesMaxDefault = 1024 * 1024;

export class LineWriter {
  readonly #fd: number;
  readonly #gatherMs: number;
  readonly #onDropped: (lines: number) => void;
  #dropped = 0;
  /** Lines are encoded into the buffer at once: long strings would outlive their requests and be copied by the collector. */
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
      this.#dropped += lines.split('\n').length - 1;
      return;
    }
    this.#waitingBytes += this.#waiting.write(lines, this.#waitingBytes);
    if (this.#leaving === undefined) this.#plan();
  }

  #plan(): void {
    this.#timer ??= setTimeout(() => this.#begin(), this.#gatherMs).unref();
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
      // The reader has closed the descriptor, or the write failed: these lines are lost.
      if (error !== null || bytes === leaving.length) {
        this.#leaving = undefined;
        // Each write wakes another thread, so the few lines that came meanwhile wait for more, too.
        if (2 * this.#waitingBytes > this.#waiting.length) this.#begin();
        else if (this.#waitingBytes > 0) this.#plan();
        return;
      }
      this.#leaving = leaving.subarray(bytes);
      this.#writeOn();
    });
  }

  /** Part of a pending write may be written twice, which is better than a loss. */
  #writeRest(): void {
    try {
      writeSync(this.#fd, Buffer.concat([this.#leaving ?? Buffer.alloc(0), this.#takeWaiting()]));
    } catch {
      // The process ends, and there is no reader.
    }
    this.#leaving = undefined;
  }
}
