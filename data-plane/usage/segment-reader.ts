/** Reads a log's segments while another thread appends to them. Its calls block, which its own thread can afford. */
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

/** A group, together with the position at which its segment begins. */
export interface ReadSegmentGroup extends Omit<ReadGroup, 'ids'> {
  readonly count: number;
  readonly segment: number;
}

interface OpenFile {
  readonly first: number;
  readonly fd: number;
  heading: string;
  form: number;
  /** Offset in the file at which the next group begins. */
  offset: number;
  /** Bytes of the file that were read last. They begin at offset `bytesFrom`. */
  bytes: Buffer;
  bytesFrom: number;
}

export class SegmentReader {
  /** Position of the next record to read. */
  position: number;
  readonly #folder: string;
  #file: OpenFile | undefined;
  #damaged: string | undefined;
  readonly #buffer = Buffer.allocUnsafeSlow(readAtOnce);

  constructor(folder: string, position: number) {
    this.#folder = folder;
    this.position = position;
  }

  /** Position of the first record in the log, or undefined if the log is empty. */
  get oldest(): number | undefined {
    return this.#segments()[0];
  }

  get paths(): string[] {
    return this.#segments().map((first) => join(this.#folder, nameOf(first)));
  }

  /** Paths with the names of segments that must not be read: oversized files, or pipes and the like, which would block. */
  get otherPaths(): string[] {
    return this.paths.filter((path) => {
      const found = lstatSync(path);
      return !found.isFile() || found.size > foundBytesMax;
    });
  }

  /**
   * Returns the group that contains the next record, or the group after it if that one is unreadable. Returns undefined if no
   * further group has been written. If `isEnded` is true, nothing is being appended, so an incomplete group counts as damage.
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

  /** The group, with its text. Undefined if it is unreadable or ends before the next record to read. */
  #groupOf(frame: Frame, file: OpenFile): ReadSegmentGroup | undefined {
    const { position, count, form } = frame;
    if (count === 0) [file.heading, file.form] = [textOf(frame) ?? '', form];
    if (count === 0 || position + count <= this.position) return undefined;
    const text = form === file.form ? textOf(frame) : undefined;
    if (text === undefined) return undefined;
    this.position = position + count;
    return { position, count, text, heading: file.heading, segment: file.first };
  }

  /** Whether anything but groups follows in the file, or the file has no heading. */
  get hasRest(): boolean {
    const file = this.#file;
    if (file === undefined || fstatSync(file.fd).size === 0) return false;
    return file.heading === '' || restOf(file).some((byte) => byte !== 0);
  }

  /** Path of the file in which damage was last found. If there was none, the file that is being read. */
  get path(): string {
    return this.#damaged ?? join(this.#folder, nameOf(this.#file?.first ?? this.position));
  }

  seek(position: number): void {
    this.close();
    this.position = position;
  }

  /** Flushes the file to disk, so that a power cut cannot undo what this reader has read. */
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

  /** Opens the segment that contains the next record to read, or else the first segment. */
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

  /** Flushes the folder to disk, because a flushed file is lost if its name is lost. */
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

  /** Continues after damage, or in the next segment. Returns false if no further group can be read now. */
  #continue(file: OpenFile, isEnded: boolean): boolean {
    const later = this.#segments().find((first) => first > file.first);
    // Look once more, because a group may have been appended since the file was read.
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

/** Skips damage up to the next complete group in the file. Returns false if there is none. */
function skipTo(file: OpenFile, position: number): boolean {
  const rest = restOf(file);
  for (const frame of framesIn(rest)) {
    if (frame.position < position) continue;
    file.offset += frame.text.byteOffset - rest.byteOffset - (frame.bytes - frame.text.length);
    return true;
  }
  return false;
}

/** Decompresses a group's text. Returns undefined if the text is damaged. */
function textOf({ text, isDeflated }: Frame): string | undefined {
  try {
    return (isDeflated ? inflateRawSync(text, { maxOutputLength: textBytesMax }) : text).toString();
  } catch {
    return undefined;
  }
}
