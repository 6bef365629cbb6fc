/**
 * Reads a log of segments in the order of its positions, from any of them on, while another thread appends to it. Nothing is
 * asynchronous: it is for a thread that waits for the disk anyway.
 */
import {
  closeSync,
  constants,
  existsSync,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  openSync,
  readdirSync,
  readSync,
} from 'node:fs';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import {
  type Frame,
  foundBytesMax,
  frameAt,
  frameBytesAt,
  framesIn,
  nameForm,
  nameOf,
  type ReadGroup,
  textBytesMax,
} from './segment-frame.ts';

const readAtOnce = 32 * 1024;

/** A group and where its segment begins. */
export interface ReadSegmentGroup extends Omit<ReadGroup, 'ids'> {
  readonly count: number;
  readonly segment: number;
}

interface OpenFile {
  readonly first: number;
  readonly fd: number;
  heading: string;
  form: number;
  /** Where the next group is. */
  offset: number;
  /** What was read of it, from such a place on. */
  bytes: Buffer;
  bytesFrom: number;
}

export class SegmentReader {
  /** Of the next record. */
  position: number;
  readonly #folder: string;
  #file: OpenFile | undefined;
  #damaged: string | undefined;
  /** What is usually read is read into it again and again. */
  readonly #buffer = Buffer.allocUnsafeSlow(readAtOnce);

  constructor(folder: string, position: number) {
    this.#folder = folder;
    this.position = position;
  }

  /** Position of the first record that the log has; undefined where there is none. */
  get oldest(): number | undefined {
    return this.#segments()[0];
  }

  /** Paths of all files. */
  get paths(): string[] {
    return this.#segments().map((first) => join(this.#folder, nameOf(first)));
  }

  /** Those that are called like a segment and are none: to open a pipe would wait, and none is so large. */
  get otherPaths(): string[] {
    return this.paths.filter((path) => {
      const found = lstatSync(path);
      return !found.isFile() || found.size > foundBytesMax;
    });
  }

  /**
   * The group that has the next record, or the one behind where that cannot be read; undefined where there is none so far.
   * `isEnded`: nobody appends now, so what cannot be read is a damage and nothing that is being written.
   */
  next(isEnded = false): ReadSegmentGroup | undefined {
    for (;;) {
      this.#file ??= this.#opened();
      const file = this.#file;
      if (file === undefined) return undefined;
      const frame = this.#frameIn(file);
      if (frame === undefined) {
        if (!this.#continue(file, isEnded)) return undefined;
      } else {
        file.offset += frame.bytes;
        const group = this.#groupOf(frame, file);
        if (group !== undefined) return group;
      }
    }
  }

  /** Undefined where it has no record that is wanted, or cannot be read. */
  #groupOf(frame: Frame, file: OpenFile): ReadSegmentGroup | undefined {
    const { position, count, form } = frame;
    if (count === 0) [file.heading, file.form] = [textOf(frame) ?? '', form];
    if (count === 0 || position + count <= this.position) return undefined;
    const text = form === file.form ? textOf(frame) : undefined;
    if (text === undefined) return undefined;
    this.position = position + count;
    return { position, count, text, heading: file.heading, segment: file.first };
  }

  /** Is there something behind what was read that is no group, or no heading before it? */
  get hasRest(): boolean {
    const file = this.#file;
    if (file === undefined || fstatSync(file.fd).size === 0) return false;
    return file.heading === '' || restOf(file).some((byte) => byte !== 0);
  }

  /** Of the file with the latest damage, or that which is read. */
  get path(): string {
    return this.#damaged ?? join(this.#folder, nameOf(this.#file?.first ?? this.position));
  }

  /** Goes to a position. */
  seek(position: number): void {
    this.close();
    this.position = position;
  }

  /** What was read is on the disk when it returns. */
  sync(): void {
    if (this.#file !== undefined) fdatasyncSync(this.#file.fd);
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file.fd);
    this.#file = undefined;
  }

  #segments(): number[] {
    if (!existsSync(this.#folder)) return [];
    const names = readdirSync(this.#folder).filter((name) => nameForm.test(name));
    return names.map((name) => Number.parseInt(name, 10)).sort((one, other) => one - other);
  }

  /** The segment that has the position, or the first one behind it. */
  #opened(): OpenFile | undefined {
    const segments = this.#segments();
    const first = segments.findLast((each) => each <= this.position) ?? segments[0];
    return first === undefined ? undefined : this.#open(first);
  }

  #open(first: number): OpenFile {
    const path = join(this.#folder, nameOf(first));
    const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    this.#syncFolder();
    const bytes = Buffer.alloc(0);
    return { first, fd, heading: '', form: 0, offset: 0, bytes, bytesFrom: 0 };
  }

  /** A file that is on the disk is of no use without its name. */
  #syncFolder(): void {
    const fd = openSync(this.#folder, constants.O_RDONLY);
    fsyncSync(fd);
    closeSync(fd);
  }

  #frameIn(file: OpenFile): Frame | undefined {
    const read = () => frameAt(file.bytes, file.offset - file.bytesFrom);
    const found = read();
    if (found !== undefined) return found;
    fill(file, this.#buffer);
    const needed = frameBytesAt(file.bytes, 0);
    if (needed > file.bytes.length && needed <= foundBytesMax) fill(file, Buffer.allocUnsafe(needed));
    return read();
  }

  /** Where the next group is in no place that was read; false where there is none. */
  #continue(file: OpenFile, isEnded: boolean): boolean {
    const later = this.#segments().find((first) => first > file.first);
    // It may have come since it was looked for.
    if (later !== undefined && this.#frameIn(file) !== undefined) return true;
    const isWhole = later === undefined ? !isEnded : later <= this.position;
    if (later !== undefined && !isWhole) this.#damaged = join(this.#folder, nameOf(file.first));
    if (!isWhole && skipTo(file, this.position)) return true;
    if (later === undefined) return false;
    this.sync();
    this.close();
    this.#file = this.#open(later);
    return true;
  }
}

function fill(file: OpenFile, buffer: Buffer): void {
  file.bytes = buffer.subarray(0, readSync(file.fd, buffer, 0, buffer.length, file.offset));
  file.bytesFrom = file.offset;
}

function restOf(file: OpenFile): Buffer {
  fill(file, Buffer.allocUnsafe(Math.max(0, fstatSync(file.fd).size - file.offset)));
  return file.bytes;
}

/** Goes to the next whole group behind a damage; false where there is none. */
function skipTo(file: OpenFile, position: number): boolean {
  const rest = restOf(file);
  for (const frame of framesIn(rest)) {
    if (frame.position < position) continue;
    file.offset += frame.text.byteOffset - rest.byteOffset - (frame.bytes - frame.text.length);
    return true;
  }
  return false;
}

/** Undefined where it cannot be read. */
function textOf({ text, isDeflated }: Frame): string | undefined {
  try {
    return (isDeflated ? inflateRawSync(text, { maxOutputLength: textBytesMax }) : text).toString();
  } catch {
    return undefined;
  }
}
