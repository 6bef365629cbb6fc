/**
 * Keeps the last reports of the fleet. The room `control-plane/gateways` knows all gateways, asks them, and confirms what
 * they enforce: by what they proved and how long they are silent, never by their claim to be healthy. A record must not count
 * without its MAC.
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

/** Seconds of silence after which a process is STALE. */
export const staleSeconds = 10;
/** Age in seconds of a fenced gateway's last proof after which it accepts no key (design: Revocation confirmed). */
const fencedForSureSeconds = 60;
/** A proof is valid for 45 s. This long after a position was reached here, a fencing gateway has folded it or is fenced. */
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
  /** Called for each memory record of another replica. `ended` contains those of its gateways that have ended here. */
  readonly onMemory?: (ended: readonly string[]) => void;
  /** Called once for each report with traffic, in order. `atMs` is the log's time. */
  readonly onTraffic?: (traffic: unknown, from: TrafficOrigin, atMs: number | undefined) => void;
}

export type TrafficOrigin = Pick<StatusReport, 'name' | 'incarnation' | 'folder'>;

export class StatusBoard {
  readonly rows = new FleetRows();
  /** Ignored records, by cause. */
  readonly ignored: RateLimitedLine;
  refused: RefusedRecords | undefined;
  readonly #options: BoardOptions;
  readonly #follower: Follower;
  readonly #digests = new BoundedMap<number, string>(digestsMax, 'oldest');
  readonly #heads = new KnownHeads();
  /** Number of each incarnation's last report whose traffic was passed on, so that a repeated record counts once. */
  readonly #countedUpTo = new BoundedMap<string, number>(incarnationsMax, 'oldest');
  #completing: Promise<void> | undefined;
  /** Time up to which the topic was read; undefined until it has been read to its end once. */
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

  /** Adds this process's digest at a position, to compare reported digests with it. */
  addOwnDigest(seq: number, digest: string): void {
    this.#digests.set(seq, digest);
    this.#heads.reached(seq);
  }

  /** Whether the topic has been read to its end once. */
  get isComplete(): boolean {
    return this.#currentMs !== undefined;
  }

  /** Reason why the topic cannot be read, or why the last request for its end failed. */
  get fault(): string | undefined {
    return this.#follower.failing?.message ?? this.#follower.endFault;
  }

  /** Last reports of the gateways that confirmations wait for, by name. Processes that share a name are listed separately. */
  gateways(): Seen[] {
    this.rows.sweep(staleSeconds * 1000);
    const all = [...this.rows.all()].filter(({ report }) => report.kind === 'gateway');
    return all.sort(
      (a, b) => order(a.report.name, b.report.name) || order(a.report.incarnation, b.report.incarnation),
    );
  }

  /** Names under which several processes report, with the number of processes. */
  conflicts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { report } of this.gateways()) counts.set(report.name, (counts.get(report.name) ?? 0) + 1);
    return new Map([...counts].filter(([, count]) => count > 1));
  }

  /** Gateways with the fold version that each reported; undefined until all earlier reports have been read. */
  readers(): { readonly name: string; readonly foldVersion: number }[] | undefined {
    if (!this.isComplete || this.rows.isOverflowed) return undefined;
    return this.gateways().map(({ report: { name, foldVersion } }) => ({ name, foldVersion }));
  }

  /** Control planes by name. If several share a name, the one that reported last counts. */
  controlPlanes(): Seen[] {
    const byName = new Map<string, FleetRow>();
    for (const row of this.rows.all()) {
      const other = byName.get(row.report.name);
      if (row.report.kind === 'control-plane' && (other === undefined || other.seenMs < row.seenMs))
        byName.set(row.report.name, row);
    }
    return [...byName.values()];
  }

  /** Monotonic time in ms when a new report of this control plane was last read; -Infinity before the first. */
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

  /** Whether everything up to `position` of this log is effective on this gateway. */
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

  /** Resolves with true once the topic is read to its present end, with false at the deadline. */
  async readToEnd(timeoutMs: number): Promise<boolean> {
    const beganMs = performance.now();
    // A stopped follower does not read any more.
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

  /** Passes on the traffic, which neither rows nor memory records keep. */
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

/** Name in a record without a valid MAC. */
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

/** Times when this process reached recent positions, to one second. A position never seems older here than it is. */
class KnownHeads {
  /** Entries in ascending order: for each second, the last position and when it was reached. */
  readonly #entries: { readonly startMs: number; ms: number; seq: number }[] = [];

  reached(seq: number): void {
    const ms = performance.now();
    const last = this.#entries.at(-1);
    if (last && seq <= last.seq) return;
    if (last && ms - last.startMs < headStepMs) Object.assign(last, { ms, seq });
    else this.#entries.push({ startMs: ms, ms, seq });
    if (this.#entries.length > headsKept) this.#entries.shift();
  }

  /** Lower bound on the seconds since a position was reached; 0 for an unknown position. */
  secondsSince(seq: number): number {
    const entry = this.#entries.find((each) => each.seq >= seq);
    return entry === undefined ? 0 : (performance.now() - entry.ms) / 1000;
  }
}
