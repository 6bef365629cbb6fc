/**
 * Log of records in append-only files, called segments. Its size and age are bounded. Each record has a number, its position;
 * the numbers continue after a restart. A segment's file name is the position of its first record.
 *
 * Records are written in groups. A group is one write with a checksum. Once a group is written, `kill -9` does not lose it,
 * and damage to one group affects no other. Each process begins a new segment, so existing ones never change. The log does
 * not flush files to disk.
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
  /** Target size of a segment in bytes. Segments are read and removed as a whole. */
  readonly segmentBytes: number;
}

export interface SegmentLogOptions extends SegmentBounds {
  /** Text at the start of each segment that says how its records are written. Each group is returned with this text. */
  readonly heading: string;
  /** Lowest position that the next record may have, even if the log has been emptied. */
  readonly from: number;
  /** Returns the position of the first record that must be kept. Segments from that record on are not removed. */
  readonly keptFrom: () => number;
  /** Whether a segment reserves its space when it begins, so that half of it can be written even when the disk is full. */
  readonly isAllocated: boolean;
  /** Whether groups are compressed. If groups are small and frequent, compression costs more than it saves. */
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
/** A segment ends after this part of the maximum age, because only whole segments are removed when they get too old. */
const segmentsInAge = 24;
/** Interval in ms at which to check that no one has deleted the segment's file. A check costs as much as a write. */
const nameEveryMs = 1_000;

/** Number of groups of a segment that are checked in one turn of the event loop. */
const framesInTurn = 500;

const inflate = promisify(inflateRaw);

interface Segment {
  readonly path: string;
  /** Position of the segment's first record. */
  readonly first: number;
  bytes: number;
  /** Time of the segment's latest record in ms since 1970, or of its last write if an earlier process wrote it. */
  lastMs: number;
  /** Age in ms at the monotonic time `nowMs`. If an earlier process wrote the segment, `nowMs` is set at the first check. */
  ageAt: { nowMs: number | undefined; readonly ageMs: number };
}

/** The segment that this process is writing. */
interface OpenSegment extends Segment {
  readonly handle: FileHandle;
  readonly beganMs: number;
  /** Time at which the file was last known to have its name, in monotonic ms. */
  namedMs: number;
}

export class SegmentLog {
  readonly #folder: string;
  readonly #options: SegmentLogOptions;
  /** Checksum of this build's heading. Groups that carry it can be read even if their segment's own heading is damaged. */
  readonly #form: number;
  /** All segments, oldest first. */
  #segments: Segment[] = [];
  #finding: Promise<void> | undefined;
  #written: OpenSegment | undefined;
  #next: number | undefined;

  constructor(folder: string, options: Partial<SegmentLogOptions> = {}) {
    this.#folder = folder;
    this.#options = { ...defaults, ...options };
    this.#form = crc32(this.#options.heading);
  }

  /** Position of the next record. It is known only once the log has begun. */
  get next(): number {
    return this.#next ?? 0;
  }

  get bytes(): number {
    return this.#segments.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Begins a segment, although there is no record to write yet. */
  async begin(nowMs: number): Promise<void> {
    await this.#segmentFor(0, await this.#found(), nowMs);
  }

  /**
   * Appends a group. Calls must not overlap. If a call rejects, nothing readable was written, and the next call begins a new
   * segment. `nowMs` is monotonic, so that segments do not age when the wall clock is changed.
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
      // Read the folder again before the next group, because the folder itself may have failed.
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

  /** Finds a record by its id, searching the newest segment first. Returns the record's group and its index in the group. */
  async find(id: Buffer): Promise<{ readonly group: ReadGroup; readonly at: number } | undefined> {
    for (const segment of (await this.#found()).toReversed()) {
      const bytes = await contentOf(segment);
      // Search the bytes first, which is cheap and leaves few segments to parse.
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

  /** Yields the groups that have records since `sinceMs`, oldest first, including groups appended in the meantime. */
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

  /** Yields a segment's groups until no more are added, after which all later groups are in later segments. */
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

  /** Yields the groups that begin before a position and have records since `sinceMs`, newest first. */
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
    // Remove reserved space that was not used, and the remains of a failed write.
    if (this.#options.isAllocated) await written?.handle.truncate(written.bytes).catch(() => undefined);
    await written?.handle.close().catch(() => undefined);
  }

  /** Returns all segments, including those of earlier processes. If finding these fails, the next call tries again. */
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
    // If the wall clock is later than the newest file, compute ages from that file, because the clock may be fast.
    const newestMs = Math.min(wallClockMs(), Math.max(...all.map(({ mtimeMs }) => mtimeMs)));
    for (const [index, name] of names.entries()) {
      const path = join(this.#folder, name);
      const found = all[index];
      if (found === undefined) continue;
      const { size: bytes, mtimeMs: lastMs } = found;
      const ageMs = Math.max(0, newestMs - lastMs);
      // Remove what the log has not written, because reading it could block or use up the memory.
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
    // Keep a position that is known. Readers rely on it even if the folder was emptied or a failed write turns out readable.
    this.#next ??= Math.max(end, this.#options.from);
    this.#segments = segments;
  }

  async #segmentFor(bytes: number, segments: Segment[], nowMs: number): Promise<OpenSegment> {
    const { ageMsMax, segmentBytes, isAllocated } = this.#options;
    const present = this.#written;
    if (present !== undefined) {
      const hasRoom = present.bytes + bytes <= (isAllocated ? segmentBytes / 2 : segmentBytes);
      const isOld = nowMs - present.beganMs > ageMsMax / segmentsInAge;
      // Continue a segment without records, because a new segment would have the same name.
      if (present.first === this.next || (hasRoom && !isOld)) return present;
    }
    const opened = await this.#opened(nowMs).catch((error: unknown) => {
      // If the disk has no space for another segment, use the second half of this one.
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
    // Overwrite a file of this name, because it can contain no readable records.
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
    const handle = await open(path, flags, 0o600);
    try {
      const frame = await frameOf(headed(heading), this.next, this.#form, this.#options.isDeflated);
      const { bytesWritten } = await handle.write(frame, 0, frame.length, 0);
      // Do not use the segment without a complete heading, because nobody could tell how its records are written.
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

  /** Reserves space by writing zeros, because making the file longer does not reserve any. */
  async #allocate(handle: FileHandle, from: number, to: number): Promise<void> {
    try {
      const zeros = Buffer.alloc(to - from);
      const { bytesWritten } = await handle.write(zeros, 0, zeros.length, from);
      if (bytesWritten < zeros.length) throw new Error('there is no room for a segment');
    } catch (error) {
      // Only this process's first segment may do without reserved space. It then grows as it is written.
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
      // Ignore an error, because the next start of the process finds the file again.
      await rm(oldest.path, { force: true }).catch(() => undefined);
    }
  }
}

async function headingOf(segment: Buffer): Promise<string> {
  const frame = frameAt(segment, 0);
  return frame?.count === 0 ? ((await groupIn(frame, ''))?.text ?? '') : '';
}

/** All groups of a segment that have records. Pauses now and then, because a segment may have thousands of small groups. */
async function framesOf(bytes: Buffer): Promise<Frame[]> {
  const frames: Frame[] = [];
  for (const frame of framesIn(bytes)) if (frames.push(frame) % framesInTurn === 0) await setImmediate();
  return frames;
}

/** Decompresses a group. Returns undefined if it cannot be decompressed. */
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

/** Content of the segment's file. Empty if the file has been removed. */
async function contentOf({ path }: Segment): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0);
    throw error;
  }
}

/** Index of the wanted id in a list of ids, or -1 if it is not there. */
function indexIn(ids: Buffer, wanted: Buffer): number {
  let at = ids.indexOf(wanted);
  while (at % idBytes > 0) at = ids.indexOf(wanted, at + 1);
  return at === -1 ? -1 : at / idBytes;
}
