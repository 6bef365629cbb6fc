/**
 * A log of groups of records in files that are only appended to, the segments, bounded in bytes and in age. Each record has a
 * number, its position, which continues over restarts; a segment is called by its first one. A group is one write with a checksum:
 * once that has ended `kill -9` does not lose it, and one that was cut or damaged costs its own records, and none of the others.
 * A process begins a segment of its own, so that nothing which it found is changed. Nothing waits for the disk.
 */
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import { crc32, inflateRaw } from 'node:zlib';
import { dayMs } from '../../schemas/durations.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import {
  type Frame,
  foundBytesMax,
  frameAt,
  frameOf,
  framesIn,
  headed,
  idBytes,
  nameForm,
  nameOf,
  type ReadGroup,
  type RecordGroup,
  textBytesMax,
} from './segment-frame.ts';

export interface SegmentBounds {
  readonly ageMsMax: number;
  readonly bytesMax: number;
  /** Of one segment. What is removed is whole segments, and one is read at once. */
  readonly segmentBytes: number;
}

export interface SegmentLogOptions extends SegmentBounds {
  /** Each segment begins with it, and each group is read with that of its segment: how this build writes its records. */
  readonly heading: string;
  /** No record has a lower position than this, though the log was emptied since. */
  readonly from: number;
  /** What has records from this position on is not removed. */
  readonly keptFrom: () => number;
  /** A segment has its bytes on the disk from its beginning, so that a full disk takes none of what fits into half of one. */
  readonly isAllocated: boolean;
  /** False where groups come so often that it would cost more than their bytes. */
  readonly isDeflated: boolean;
}

const defaults: SegmentLogOptions = {
  ageMsMax: dayMs,
  bytesMax: 256 * 1024 * 1024,
  segmentBytes: 1024 * 1024,
  heading: '',
  from: 0,
  keptFrom: () => Number.POSITIVE_INFINITY,
  isAllocated: false,
  isDeflated: true,
};
/** A segment takes so many parts of the age, so that a quiet gateway keeps nothing much longer. */
const segmentsInAge = 24;
/** How often it is looked whether the segment still has its name, ms: that costs as much as a write. */
const nameEveryMs = 1_000;

/** So many are checked in a turn of the event loop. */
const framesInTurn = 500;

const inflate = promisify(inflateRaw);

interface Segment {
  readonly path: string;
  /** Position of its first record. */
  readonly first: number;
  bytes: number;
  /** Of its latest record, or when it was last written before this process, ms since 1970. */
  lastMs: number;
  /** How old it was at a moment of the monotonic clock; of one that was found, at the first write of this process. */
  ageAt: { nowMs: number | undefined; readonly ageMs: number };
}

/** The one that is written. */
interface OpenSegment extends Segment {
  readonly handle: FileHandle;
  readonly beganMs: number;
  /** When it last had its name. */
  namedMs: number;
}

export class SegmentLog {
  readonly #folder: string;
  readonly #options: SegmentLogOptions;
  /** Groups of this heading are read though that of their segment is damaged. */
  readonly #form: number;
  /** Oldest first. */
  #segments: Segment[] = [];
  #finding: Promise<void> | undefined;
  #written: OpenSegment | undefined;
  #next: number | undefined;

  constructor(folder: string, options: Partial<SegmentLogOptions> = {}) {
    this.#folder = folder;
    this.#options = { ...defaults, ...options };
    this.#form = crc32(this.#options.heading);
  }

  /** Position of the next record, once the log has begun. */
  get next(): number {
    return this.#next ?? 0;
  }

  get bytes(): number {
    return this.#segments.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Begins a segment before there is a record. */
  async begin(nowMs: number): Promise<void> {
    await this.#segmentFor(0, await this.#found(), nowMs);
  }

  /**
   * One at a time. Rejects with nothing written that could be read; the next one begins another segment. `nowMs` is monotonic: a
   * wall clock that is set by days makes nothing old.
   */
  async append(group: RecordGroup, nowMs: number): Promise<void> {
    const segments = await this.#found();
    const frame = await frameOf(group, this.next, this.#form, this.#options.isDeflated);
    try {
      const segment = await this.#segmentFor(frame.length, segments, nowMs);
      const { bytesWritten } = await segment.handle.write(frame, 0, frame.length, segment.bytes);
      if (bytesWritten < frame.length) throw new Error(`${segment.path} cannot be written`);
      await this.#refuseRemoved(segment, nowMs);
      segment.bytes += frame.length;
      segment.lastMs = Math.max(segment.lastMs, group.lastMs);
      segment.ageAt = { nowMs, ageMs: 0 };
    } catch (error) {
      await this.close();
      // The folder itself may be what is wrong.
      this.#finding = undefined;
      throw error;
    }
    this.#next = this.next + group.count;
    await this.#trim(segments, nowMs);
  }

  async #refuseRemoved(segment: OpenSegment, nowMs: number): Promise<void> {
    if (nowMs - segment.namedMs < nameEveryMs) return;
    if ((await segment.handle.stat()).nlink === 0) throw new Error(`${segment.path} was removed`);
    segment.namedMs = nowMs;
  }

  /** The group that has a record, and its place there; the newest are searched first. */
  async find(id: Buffer): Promise<{ readonly group: ReadGroup; readonly at: number } | undefined> {
    for (const segment of (await this.#found()).toReversed()) {
      const bytes = await contentOf(segment);
      // A search of bytes: few segments have it, and only these are looked through.
      if (!bytes.includes(id)) continue;
      const heading = await headingOf(bytes);
      for (const frame of framesIn(bytes)) {
        const at = indexIn(frame.ids, id);
        const group = at === -1 ? undefined : await groupIn(frame, this.#headingOf(frame, heading));
        if (group !== undefined) return { group, at };
      }
    }
    return undefined;
  }

  /** Groups with records of this time or later, oldest first; those that are appended meanwhile too. */
  async *since(sinceMs: number): AsyncGenerator<ReadGroup, void> {
    const segments = await this.#found();
    let next = 0;
    for (;;) {
      const segment = segments.find(({ first, lastMs }) => first >= next && lastMs >= sinceMs);
      if (segment === undefined) return;
      yield* this.#groupsOf(segment, sinceMs);
      next = segment.first + 1;
    }
  }

  /** Up to where nothing was added while it was read: what comes next begins behind that. */
  async *#groupsOf(segment: Segment, sinceMs: number): AsyncGenerator<ReadGroup, void> {
    for (let from = 0; from < segment.bytes; ) {
      const end = segment.bytes;
      const bytes = (await contentOf(segment)).subarray(0, end);
      const heading = await headingOf(bytes);
      for (const frame of framesIn(bytes, from)) {
        const group =
          frame.lastMs < sinceMs ? undefined : await groupIn(frame, this.#headingOf(frame, heading));
        if (group !== undefined) yield group;
      }
      from = end;
    }
  }

  /**
   * Groups that begin before a position and have records of this time or later, newest first. A segment that is not asked for by
   * position or time is not read.
   */
  async *backwards(before: number, sinceMs: number): AsyncGenerator<ReadGroup, void> {
    const segments = await this.#found();
    for (let end = before; ; ) {
      const segment = segments.findLast(({ first, lastMs }) => first < end && lastMs >= sinceMs);
      if (segment === undefined) return;
      const bytes = (await contentOf(segment)).subarray(0, segment.bytes);
      const heading = await headingOf(bytes);
      for (const frame of (await framesOf(bytes)).toReversed()) {
        if (frame.position >= end || frame.lastMs < sinceMs) continue;
        const group = await groupIn(frame, this.#headingOf(frame, heading));
        if (group !== undefined) yield group;
      }
      end = segment.first;
    }
  }

  #headingOf({ form }: Frame, ofSegment: string): string {
    return form === this.#form ? this.#options.heading : ofSegment;
  }

  async close(): Promise<void> {
    const written = this.#written;
    this.#written = undefined;
    // What was allocated and not used, and what a write left that failed.
    if (this.#options.isAllocated) await written?.handle.truncate(written.bytes).catch(() => undefined);
    await written?.handle.close().catch(() => undefined);
  }

  /** What earlier processes left; tried again where it could not be read. */
  async #found(): Promise<Segment[]> {
    this.#finding ??= this.#find();
    try {
      await this.#finding;
    } catch (error) {
      this.#finding = undefined;
      throw error;
    }
    return this.#segments;
  }

  async #find(): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const names = (await readdir(this.#folder)).filter((name) => nameForm.test(name)).sort();
    const segments: Segment[] = [];
    const all = await Promise.all(names.map((name) => lstat(join(this.#folder, name))));
    // Ages count from the newest segment if the wall clock is later, so that a fast clock makes no segment old.
    const newestMs = Math.min(wallClockMs(), Math.max(...all.map(({ mtimeMs }) => mtimeMs)));
    for (const [index, name] of names.entries()) {
      const path = join(this.#folder, name);
      const found = all[index];
      if (found === undefined) continue;
      const { size: bytes, mtimeMs: lastMs } = found;
      const ageMs = Math.max(0, newestMs - lastMs);
      // Neither waited for nor read into memory: none of these was written here.
      if (!found.isFile() || bytes > foundBytesMax) {
        await rm(path, { force: true, recursive: true });
        continue;
      }
      segments.push({
        path,
        first: Number.parseInt(name, 10),
        bytes,
        lastMs,
        ageAt: { nowMs: undefined, ageMs },
      });
    }
    const last = segments.at(-1);
    let end = last?.first ?? 0;
    if (last !== undefined)
      for (const { position, count } of framesIn(await contentOf(last))) end = position + count;
    // Later it stays as it is: readers are there, though the folder was emptied, and a write that failed may be whole.
    this.#next ??= Math.max(end, this.#options.from);
    this.#segments = segments;
  }

  async #segmentFor(bytes: number, segments: Segment[], nowMs: number): Promise<OpenSegment> {
    const { ageMsMax, segmentBytes, isAllocated } = this.#options;
    const present = this.#written;
    if (present !== undefined) {
      const hasRoom = present.bytes + bytes <= (isAllocated ? segmentBytes / 2 : segmentBytes);
      const isOld = nowMs - present.beganMs > ageMsMax / segmentsInAge;
      // One without records has the name that the next would have.
      if (present.first === this.next || (hasRoom && !isOld)) return present;
    }
    const opened = await this.#opened(nowMs).catch((error: unknown) => {
      // There is no room for another, so the second half of this one is used.
      if (isAllocated && present !== undefined && present.bytes + bytes <= segmentBytes) return present;
      throw error;
    });
    if (opened === present) return present;
    await this.close();
    if (segments.at(-1)?.first === this.next) segments.pop();
    segments.push(opened);
    this.#written = opened;
    return opened;
  }

  async #opened(nowMs: number): Promise<OpenSegment> {
    const { heading, segmentBytes, isAllocated } = this.#options;
    const path = join(this.#folder, nameOf(this.next));
    // What has the same first position has no group that can be read.
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
    const handle = await open(path, flags, 0o600);
    try {
      const frame = await frameOf(headed(heading), this.next, this.#form, this.#options.isDeflated);
      const { bytesWritten } = await handle.write(frame, 0, frame.length, 0);
      // Of groups behind half a heading nobody would know whose they are.
      if (bytesWritten < frame.length) throw new Error(`${path} cannot be written`);
      if (isAllocated) await this.#allocate(handle, frame.length, segmentBytes);
      const bytes = frame.length;
      const ageAt = { nowMs, ageMs: 0 };
      return { path, first: this.next, bytes, lastMs: 0, ageAt, handle, beganMs: nowMs, namedMs: nowMs };
    } catch (error) {
      await handle.close();
      await rm(path, { force: true });
      throw error;
    }
  }

  /** Zeros are written, because a file that was only made longer has no room of its own. */
  async #allocate(handle: FileHandle, from: number, to: number): Promise<void> {
    try {
      const zeros = Buffer.alloc(to - from);
      const { bytesWritten } = await handle.write(zeros, 0, zeros.length, from);
      if (bytesWritten < zeros.length) throw new Error('there is no room for a segment');
    } catch (error) {
      // The first one grows as it is written.
      if (this.#written !== undefined) throw error;
      await handle.truncate(from);
    }
  }

  async #trim(segments: Segment[], nowMs: number): Promise<void> {
    const { ageMsMax, bytesMax, keptFrom } = this.#options;
    for (let [oldest] = segments; oldest !== undefined && oldest !== this.#written; [oldest] = segments) {
      oldest.ageAt.nowMs ??= nowMs;
      const ageMs = oldest.ageAt.ageMs + nowMs - oldest.ageAt.nowMs;
      if (this.bytes <= bytesMax && ageMs <= ageMsMax) return;
      if ((segments[1]?.first ?? 0) > keptFrom()) return;
      segments.shift();
      // One that cannot be removed now is found at the next start.
      await rm(oldest.path, { force: true }).catch(() => undefined);
    }
  }
}

async function headingOf(segment: Buffer): Promise<string> {
  const frame = frameAt(segment, 0);
  return frame?.count === 0 ? ((await groupIn(frame, ''))?.text ?? '') : '';
}

/** All of them. A segment has thousands of small ones, which are not looked through in one turn. */
async function framesOf(bytes: Buffer): Promise<Frame[]> {
  const frames: Frame[] = [];
  for (const frame of framesIn(bytes)) if (frames.push(frame) % framesInTurn === 0) await setImmediate();
  return frames;
}

/** Undefined where it cannot be read. */
async function groupIn(
  { position, ids, text, isDeflated }: Frame,
  heading: string,
): Promise<ReadGroup | undefined> {
  try {
    const whole = isDeflated ? await inflate(text, { maxOutputLength: textBytesMax }) : text;
    return { position, ids, text: whole.toString(), heading };
  } catch {
    return undefined;
  }
}

/** Nothing where it was removed meanwhile. */
async function contentOf({ path }: Segment): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  }
}

/** Which of the ids it is; -1: none. */
function indexIn(ids: Buffer, wanted: Buffer): number {
  let at = ids.indexOf(wanted);
  while (at % idBytes > 0) at = ids.indexOf(wanted, at + 1);
  return at === -1 ? -1 : at / idBytes;
}
