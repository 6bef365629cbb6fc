/**
 * A log of groups of records in append-only files, the segments, bounded in bytes and age. Each record has a number, its
 * position, which continues after restarts and names a segment by its first record. A group is one write with a checksum:
 * once it has ended, `kill -9` does not lose it, and damage costs only its own records. Each process begins its own segment,
 * so existing ones never change. The log does not flush to the disk.
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
  /** Size of a segment. Segments are removed as a whole and read at once. */
  readonly segmentBytes: number;
}

export interface SegmentLogOptions extends SegmentBounds {
  /** First text of each segment, which says how this build writes records and is returned with each of its groups. */
  readonly heading: string;
  /** Lowest possible position, even if the log has been emptied since. */
  readonly from: number;
  /** Segments with records from this position on are not removed. */
  readonly keptFrom: () => number;
  /** Whether a segment reserves its bytes at once, so that even a full disk has room for half of one. */
  readonly isAllocated: boolean;
  /** Whether to compress groups. False if they come so often that it costs more than it saves. */
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
/** Number of segments in the maximum age, so that a quiet gateway keeps little for much longer. */
const segmentsInAge = 24;
/** Interval in ms between checks that the segment still has its name. A check costs as much as a write. */
const nameEveryMs = 1_000;

/** Number of groups checked per turn of the event loop. */
const framesInTurn = 500;

const inflate = promisify(inflateRaw);

interface Segment {
  readonly path: string;
  /** Position of its first record. */
  readonly first: number;
  bytes: number;
  /** Time of its latest record, or of its last write by an earlier process, in ms since 1970. */
  lastMs: number;
  /** Age at a moment of the monotonic clock: for a segment of an earlier process, its first removal check. */
  ageAt: { nowMs: number | undefined; readonly ageMs: number };
}

/** The segment being written. */
interface OpenSegment extends Segment {
  readonly handle: FileHandle;
  readonly beganMs: number;
  /** Monotonic time at which it last had its name, in ms. */
  namedMs: number;
}

export class SegmentLog {
  readonly #folder: string;
  readonly #options: SegmentLogOptions;
  /** Checksum of the present heading. Its groups are readable even if their segment's heading is damaged. */
  readonly #form: number;
  /** Segments, oldest first. */
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
   * Appends a group; call it one at a time. If it rejects, nothing readable was written, and the next call begins another
   * segment. `nowMs` is monotonic, so setting the wall clock does not age segments.
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
      // The folder itself may be at fault, so read it again.
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

  /** Finds the group that contains a record, newest segment first, and the record's index in it. */
  async find(id: Buffer): Promise<{ readonly group: ReadGroup; readonly at: number } | undefined> {
    for (const segment of (await this.#found()).toReversed()) {
      const bytes = await contentOf(segment);
      // A byte search is cheap, and few segments remain to be parsed.
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

  /** Groups with records of this time or later, oldest first, including those appended meanwhile. */
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

  /** Reads a segment until nothing was added meanwhile, so that whatever comes next is in a later one. */
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

  /** Groups that begin before a position, with records of this time or later, newest first. Reads only their segments. */
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
    // Cut off unused room and the remains of a failed write.
    if (this.#options.isAllocated) await written?.handle.truncate(written.bytes).catch(() => undefined);
    await written?.handle.close().catch(() => undefined);
  }

  /** Finds the segments of earlier processes. The next call repeats a search that failed. */
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
    // Ages count from the newest segment if the wall clock is later, so that a fast clock does not age segments.
    const newestMs = Math.min(wallClockMs(), Math.max(...all.map(({ mtimeMs }) => mtimeMs)));
    for (const [index, name] of names.entries()) {
      const path = join(this.#folder, name);
      const found = all[index];
      if (found === undefined) continue;
      const { size: bytes, mtimeMs: lastMs } = found;
      const ageMs = Math.max(0, newestMs - lastMs);
      // This log never writes such files, and reading one could block or exhaust the memory.
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
    // Keep a known position: readers rely on it even if the folder was emptied, and a failed write may be whole.
    this.#next ??= Math.max(end, this.#options.from);
    this.#segments = segments;
  }

  async #segmentFor(bytes: number, segments: Segment[], nowMs: number): Promise<OpenSegment> {
    const { ageMsMax, segmentBytes, isAllocated } = this.#options;
    const present = this.#written;
    if (present !== undefined) {
      const hasRoom = present.bytes + bytes <= (isAllocated ? segmentBytes / 2 : segmentBytes);
      const isOld = nowMs - present.beganMs > ageMsMax / segmentsInAge;
      // A segment without records already has the name of the next one.
      if (present.first === this.next || (hasRoom && !isOld)) return present;
    }
    const opened = await this.#opened(nowMs).catch((error: unknown) => {
      // Without room for another segment, use the second half of this one.
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
    // Overwrite a file of this name, because it does not contain readable groups.
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
    const handle = await open(path, flags, 0o600);
    try {
      const frame = await frameOf(headed(heading), this.next, this.#form, this.#options.isDeflated);
      const { bytesWritten } = await handle.write(frame, 0, frame.length, 0);
      // Nobody could tell whose groups follow an incomplete heading.
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

  /** Writes zeros, because extending a file does not reserve room. */
  async #allocate(handle: FileHandle, from: number, to: number): Promise<void> {
    try {
      const zeros = Buffer.alloc(to - from);
      const { bytesWritten } = await handle.write(zeros, 0, zeros.length, from);
      if (bytesWritten < zeros.length) throw new Error('there is no room for a segment');
    } catch (error) {
      // The first segment then grows as it is written.
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
      // A segment that cannot be removed now is found at the next start.
      await rm(oldest.path, { force: true }).catch(() => undefined);
    }
  }
}

async function headingOf(segment: Buffer): Promise<string> {
  const frame = frameAt(segment, 0);
  return frame?.count === 0 ? ((await groupIn(frame, ''))?.text ?? '') : '';
}

/** All groups with records. A segment may have thousands of small ones, so this takes several turns of the event loop. */
async function framesOf(bytes: Buffer): Promise<Frame[]> {
  const frames: Frame[] = [];
  for (const frame of framesIn(bytes)) if (frames.push(frame) % framesInTurn === 0) await setImmediate();
  return frames;
}

/** Returns undefined if the group cannot be decompressed. */
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

/** Content of a segment; empty if it has been removed. */
async function contentOf({ path }: Segment): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  }
}

/** Index of the wanted id; -1 if there is none. */
function indexIn(ids: Buffer, wanted: Buffer): number {
  let at = ids.indexOf(wanted);
  while (at % idBytes > 0) at = ids.indexOf(wanted, at + 1);
  return at === -1 ? -1 : at / idBytes;
}
