/**
 * Keeps the last reports of the fleet. The room `control-plane/gateways` knows all gateways, asks them, and confirms what they
 * enforce. State and confirmation follow from what a process proved and from how long it has been silent here, never from its own
 * claim to be healthy. A record must not count without its MAC.
 */
import { z } from 'zod';
import { nameSchema } from '../../schemas/names.ts';
import {
  type FleetMemoryRecord,
  type StatusReport,
  statusBytesMax,
  statusRecordSchema,
} from '../../schemas/records/status.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { type FollowedLog, Follower } from '../../shared/log/core/follower.ts';
import { addRefused, type RefusedRecords } from '../../shared/log/core/record-mac.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';
import type { LineLogger } from '../../shared/runtime/logger.ts';
import { RateLimitedLine } from '../../shared/runtime/rate-limited-line.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import type { StatusMac } from '../../shared/status/status-mac.ts';
import { type FleetRow, FleetRows, type Seen } from './fleet-rows.ts';

export type { Seen } from './fleet-rows.ts';

/** A silent process is STALE after this. */
export const staleSeconds = 10;
/** A fenced gateway whose last proof is older than this accepts no key (design: Revocation confirmed). */
const fencedForSureSeconds = 60;
/**
 * A proof that does not cover a position began before it was written, and is valid for 45 s. This long after the position
 * was reached here, a gateway that fences has folded it or accepts no key, also where its reports were lost.
 */
const coveredForSureSeconds = 50;
const digestsMax = 2000;
const headStepMs = 1000;
const headsKept = 120;
/** Incarnations whose counted reports are remembered. At most a few thousand processes end and start again per day. */
const incarnationsMax = 20_000;

export const fleetStates = ['SYNCED', 'LAGGING', 'STALE', 'DIVERGED'] as const;
export type FleetState = (typeof fleetStates)[number];

export interface HeadView {
  readonly log: string | null;
  readonly seq: number;
  readonly foldVersion: number;
}

export interface BoardOptions {
  readonly log: FollowedLog;
  readonly mac: StatusMac;
  readonly logger: Pick<LineLogger, 'warn'>;
  /** Called for each memory record of another replica; `ended`: those of its gateways that have ended here. */
  readonly onMemory?: (ended: readonly string[]) => void;
  /** Called once for each report with traffic, in their order; `atMs` as the log has it. */
  readonly onTraffic?: (traffic: unknown, from: TrafficOrigin, atMs: number | undefined) => void;
}

export type TrafficOrigin = Pick<StatusReport, 'name' | 'incarnation' | 'folder'>;

export class StatusBoard {
  readonly rows = new FleetRows();
  /** Records that did not count, by cause. */
  readonly ignored: RateLimitedLine;
  refused: RefusedRecords | undefined;
  readonly #options: BoardOptions;
  readonly #follower: Follower;
  readonly #digests = new BoundedMap<number, string>(digestsMax, 'oldest');
  readonly #heads = new KnownHeads();
  /**
   * Number of the last report of each incarnation whose traffic was passed on, so that a repeated record counts once. The rows cannot
   * show this, because after a start they may already know that a gateway has ended before its reports have been read.
   */
  readonly #countedUpTo = new BoundedMap<string, number>(incarnationsMax, 'oldest');
  #completing: Promise<void> | undefined;
  /** The topic was read up to its end at this moment; undefined until it was read to its end once. */
  #currentMs: number | undefined;

  constructor(options: BoardOptions) {
    this.#options = options;
    this.ignored = new RateLimitedLine((causes) =>
      options.logger.warn(
        { causes },
        'status records were ignored, because they lack a valid MAC of the gateway token or are of another version',
      ),
    );
    this.#follower = new Follower({
      log: options.log,
      from: 0,
      fold: (records) => {
        for (const record of records) this.#apply(record);
        return records.length;
      },
      isReachedByReading: true,
      onReachabilityChange: (reachable, error) =>
        options.logger.warn({ reachable, reason: error?.message }, 'reachability of the status topic'),
    });
  }

  start(): void {
    this.#follower.start();
    this.#completing = this.#becomeComplete();
  }

  async stop(): Promise<void> {
    this.ignored.close();
    await Promise.all([this.#follower.stop(), this.#completing]);
  }

  /** Adds this process's digest at a position, to compare the reported ones with. */
  addOwnDigest(seq: number, digest: string): void {
    this.#digests.set(seq, digest);
    this.#heads.reached(seq);
  }

  /** Has the topic been read to its end once? */
  get isComplete(): boolean {
    return this.#currentMs !== undefined;
  }

  /** Why the topic cannot be read, or why the last request for its end failed. */
  get fault(): string | undefined {
    return this.#follower.failing?.message ?? this.#follower.endFault;
  }

  /** The last report of each gateway that confirmations wait for, by name; two of one name are two. */
  gateways(): Seen[] {
    this.rows.sweep(staleSeconds * 1000);
    const all = [...this.rows.all()].filter(({ report }) => report.kind === 'gateway');
    return all.sort(
      (a, b) => order(a.report.name, b.report.name) || order(a.report.incarnation, b.report.incarnation),
    );
  }

  /** Names under which several processes report, and how many. */
  conflicts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { report } of this.gateways()) counts.set(report.name, (counts.get(report.name) ?? 0) + 1);
    return new Map([...counts].filter(([, count]) => count > 1));
  }

  /** The gateways and the version of the fold that each reported; undefined until all earlier reports were read. */
  readers(): { readonly name: string; readonly foldVersion: number }[] | undefined {
    if (!this.isComplete || this.rows.isOverflowed) return undefined;
    return this.gateways().map(({ report: { name, foldVersion } }) => ({ name, foldVersion }));
  }

  /** One for each name: the one that reported last. */
  controlPlanes(): Seen[] {
    const byName = new Map<string, FleetRow>();
    for (const row of this.rows.all()) {
      const other = byName.get(row.report.name);
      if (row.report.kind === 'control-plane' && (other === undefined || other.seenMs < row.seenMs))
        byName.set(row.report.name, row);
    }
    return [...byName.values()];
  }

  /** When this process last read a new report of control plane `name`; monotonic, ms; -Infinity before the first since its start. */
  readBackMs(name: string): number {
    const live = this.controlPlanes().find((seen) => seen.report.name === name && !seen.isRemembered);
    return live?.seenMs ?? Number.NEGATIVE_INFINITY;
  }

  isSilent({ seenMs, isRemembered }: Seen): boolean {
    return isRemembered || (performance.now() - seenMs) / 1000 > staleSeconds;
  }

  state(seen: Seen, head: HeadView): FleetState {
    const { report } = seen;
    if (this.isSilent(seen)) return 'STALE';
    if (report.diverged) return 'DIVERGED';
    if (report.log !== head.log) return 'LAGGING';
    const digest = this.#digests.get(report.applied);
    if (digest && report.foldVersion === head.foldVersion && digest !== report.digest) return 'DIVERGED';
    return report.applied >= head.seq && !report.halted ? 'SYNCED' : 'LAGGING';
  }

  /** Is everything up to `position` of this log effective on this gateway? */
  confirms({ report, seenMs }: Seen, position: number, log: string | null): boolean {
    if (log !== null && report.log === log && report.halted === undefined && report.applied >= position)
      return true;
    if (report.stalePolicy !== 'fence' || this.#currentMs === undefined) return false;
    // An unread record may be a newer report, so silence counts only up to the moment that was read.
    const silentSeconds = Math.max(0, this.#currentMs - seenMs) / 1000;
    return (
      (report.freshSeconds ?? Number.POSITIVE_INFINITY) + silentSeconds > fencedForSureSeconds &&
      this.#heads.secondsSince(position) > coveredForSureSeconds
    );
  }

  /** Resolves true once the topic has been read up to its present end, false at the deadline. */
  async readToEnd(timeoutMs: number): Promise<boolean> {
    const beganMs = performance.now();
    // Once stopped it is not read any more.
    const isRead = await this.#follower.caughtUp(timeoutMs).catch(() => false);
    if (isRead) this.#currentMs = Math.max(beganMs, this.#currentMs ?? beganMs);
    return isRead;
  }

  /** Resolves at the next records, or after `timeoutMs`. */
  changed(timeoutMs: number): Promise<void> {
    return this.#follower.changed(timeoutMs);
  }

  async #becomeComplete(): Promise<void> {
    const { signal } = this.#follower;
    while (!signal.aborted && !(await this.readToEnd(10_000))) await sleep(100, signal);
  }

  #apply(record: LogRecord): void {
    const { read, signedBy, ignored } = this.#read(record);
    if (ignored !== undefined) this.ignored.add(ignored);
    else if (read.kind === 'memory') this.#applyMemory(read);
    else this.#applyReport(read, signedBy, record.atMs);
  }

  /** What was counted goes to who sums it up; no row keeps it, and no memory of silent gateways. */
  #applyReport(
    { traffic, ...report }: StatusReport,
    signedBy: number | undefined,
    atMs: number | undefined,
  ): void {
    const { incarnation, n } = report;
    if (traffic !== undefined && n > (this.#countedUpTo.get(incarnation) ?? 0)) {
      this.#countedUpTo.keep(incarnation, n);
      this.#options.onTraffic?.(traffic, report, atMs);
    }
    this.rows.upsert(report, this.isComplete ? 'live' : 'earlier', signedBy);
  }

  #read({ offset, value, signature }: LogRecord): ReadRecord {
    const signedBy = signature === null ? undefined : this.#options.mac.signerOf(value, signature);
    if (signedBy === undefined) {
      this.refused = addRefused(this.refused, offset, claimedName(value));
      return { ignored: signature === null || signature.length === 0 ? 'unsigned' : 'wrong_mac' };
    }
    const { data } = statusRecordSchema.safeParse(parseJson(value));
    return data === undefined ? { ignored: 'unreadable' } : { read: data, signedBy };
  }

  #applyMemory({ gateways, forgotten }: FleetMemoryRecord): void {
    const ended: string[] = [];
    for (const report of gateways)
      if (report.kind === 'gateway' && !this.rows.upsert(report, 'memory')) ended.push(report.incarnation);
    for (const each of forgotten) this.rows.forget(each);
    if (this.isComplete) this.#options.onMemory?.(ended);
  }
}

type ReadRecord =
  | { readonly read: StatusReport | FleetMemoryRecord; readonly signedBy: number; readonly ignored?: never }
  | {
      readonly read?: never;
      readonly signedBy?: never;
      readonly ignored: 'unsigned' | 'wrong_mac' | 'unreadable';
    };

function order(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

/** The name of a record that nobody vouches for. */
function claimedName(value: Buffer): string | undefined {
  if (value.length > statusBytesMax) return undefined;
  return claimSchema.safeParse(parseJson(value)).data?.name;
}

const claimSchema = z.object({ name: nameSchema });

function parseJson(value: Buffer): unknown {
  try {
    return JSON.parse(value.toString('utf8'));
  } catch {
    return undefined;
  }
}

/**
 * When this process reached each position of the log: recent history, at a resolution of one second. Errors are on the
 * safe side: a position never seems to be known for longer than it is.
 */
class KnownHeads {
  /** Ascending: for each second, the last position and when it was reached. */
  readonly #entries: { readonly startMs: number; ms: number; seq: number }[] = [];

  reached(seq: number): void {
    const ms = performance.now();
    const last = this.#entries.at(-1);
    if (last && seq <= last.seq) return;
    if (last && ms - last.startMs < headStepMs) Object.assign(last, { ms, seq });
    else this.#entries.push({ startMs: ms, ms, seq });
    if (this.#entries.length > headsKept) this.#entries.shift();
  }

  /** A lower bound; 0 for an unknown position. */
  secondsSince(seq: number): number {
    const entry = this.#entries.find((each) => each.seq >= seq);
    return entry === undefined ? 0 : (performance.now() - entry.ms) / 1000;
  }
}
