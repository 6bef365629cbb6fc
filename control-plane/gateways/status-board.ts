/**
 * Keeps the last status report of every process in the fleet. Code in `control-plane/gateways` keeps track of all gateways,
 * asks them questions, and confirms what they enforce. It relies on what gateways have proved and on how long they have been
 * silent, never on their claim to be healthy. A record without a valid MAC must never count.
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
import { type FleetRow, FleetRows, type SeenReport } from './fleet-rows.ts';

export type { SeenReport } from './fleet-rows.ts';

/** Seconds of silence after which a process is `STALE`. */
export const staleSeconds = 10;
/** Seconds since a `fence` gateway's last proof of freshness after which it has certainly stopped accepting keys. */
const fencedForSureSeconds = 60;
/** Seconds after which a `fence` gateway has certainly applied a position or is fenced. Proofs of freshness last 45 s. */
const coveredForSureSeconds = 50;
const digestsMax = 2000;
const headStepMs = 1000;
const headsKept = 120;
/** Maximum number of incarnations whose last counted report is remembered. At most a few thousand processes start per day. */
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
  /** Called for each memory record of another replica. `ended` lists gateways in it that this replica knows to have ended. */
  readonly onMemory?: (ended: readonly string[]) => void;
  /** Called once for each report that contains traffic, in order. `atMs` is the time of its log record. */
  readonly onTraffic?: (traffic: unknown, from: TrafficOrigin, atMs: number | undefined) => void;
}

export type TrafficOrigin = Pick<StatusReport, 'name' | 'incarnation' | 'folder'>;

export class StatusBoard {
  readonly rows = new FleetRows();
  /** Warns about ignored status records, with their number per cause. */
  readonly ignored: RateLimitedLine;
  refused: RefusedRecords | undefined;
  readonly #options: BoardOptions;
  readonly #follower: Follower;
  readonly #digests = new BoundedMap<number, string>(digestsMax, 'oldest');
  readonly #heads = new KnownHeads();
  /** Number of each incarnation's last report whose traffic was counted, so that a repeated record counts only once. */
  readonly #countedUpTo = new BoundedMap<string, number>(incarnationsMax, 'oldest');
  #completing: Promise<void> | undefined;
  /** Monotonic time in ms up to which the topic has been read, or undefined until its end is first reached. */
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

  /** Adds this process's own digest at a position, so that digests reported by other processes can be compared with it. */
  addOwnDigest(seq: number, digest: string): void {
    this.#digests.set(seq, digest);
    this.#heads.reached(seq);
  }

  /** Whether the end of the topic has been reached at least once. */
  get isComplete(): boolean {
    return this.#currentMs !== undefined;
  }

  /** Error that prevents reading the topic, or that made the last request for the topic's end fail. */
  get fault(): string | undefined {
    return this.#follower.failing?.message ?? this.#follower.endFault;
  }

  /** Returns the last reports of all gateways, sorted by name. Processes that share a name are listed separately. */
  gateways(): SeenReport[] {
    this.rows.sweep(staleSeconds * 1000);
    const all = [...this.rows.all()].filter(({ report }) => report.kind === 'gateway');
    return all.sort(
      (a, b) => order(a.report.name, b.report.name) || order(a.report.incarnation, b.report.incarnation),
    );
  }

  /** Returns each name under which several processes report, with the number of these processes. */
  conflicts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { report } of this.gateways()) counts.set(report.name, (counts.get(report.name) ?? 0) + 1);
    return new Map([...counts].filter(([, count]) => count > 1));
  }

  /** Returns all gateways with their reported fold versions, or undefined until all earlier reports have been read. */
  readers(): { readonly name: string; readonly foldVersion: number }[] | undefined {
    if (!this.isComplete || this.rows.isOverflowed) return undefined;
    return this.gateways().map(({ report: { name, foldVersion } }) => ({ name, foldVersion }));
  }

  /** Returns one report per control-plane name. If several processes share a name, the one that reported last counts. */
  controlPlanes(): SeenReport[] {
    const byName = new Map<string, FleetRow>();
    for (const row of this.rows.all()) {
      const other = byName.get(row.report.name);
      if (row.report.kind === 'control-plane' && (other === undefined || other.seenMs < row.seenMs))
        byName.set(row.report.name, row);
    }
    return [...byName.values()];
  }

  /**
   * Returns the monotonic time in ms when a new report of this control plane was last read, or -Infinity before the first.
   */
  readBackMs(name: string): number {
    const live = this.controlPlanes().find((seen) => seen.report.name === name && !seen.isRemembered);
    return live?.seenMs ?? Number.NEGATIVE_INFINITY;
  }

  isSilent({ seenMs, isRemembered }: SeenReport): boolean {
    return isRemembered || (performance.now() - seenMs) / 1000 > staleSeconds;
  }

  state(seen: SeenReport, head: HeadView): FleetState {
    const { report } = seen;
    if (this.isSilent(seen)) return 'STALE';
    if (report.diverged) return 'DIVERGED';
    if (report.log !== head.log) return 'LAGGING';
    const digest = this.#digests.get(report.applied);
    if (digest && report.foldVersion === head.foldVersion && digest !== report.digest) return 'DIVERGED';
    return report.applied >= head.seq && !report.halted ? 'SYNCED' : 'LAGGING';
  }

  /** Whether everything up to `position` in the log with id `log` has certainly taken effect on the gateway. */
  confirms({ report, seenMs }: SeenReport, position: number, log: string | null): boolean {
    if (log !== null && report.log === log && report.halted === undefined && report.applied >= position)
      return true;
    if (report.stalePolicy !== 'fence' || this.#currentMs === undefined) return false;
    // Counts silence only up to the time of the last complete read, because an unread record may be a newer report.
    const silentSeconds = Math.max(0, this.#currentMs - seenMs) / 1000;
    return (
      (report.freshSeconds ?? Number.POSITIVE_INFINITY) + silentSeconds > fencedForSureSeconds &&
      this.#heads.secondsSince(position) > coveredForSureSeconds
    );
  }

  /** Resolves with true once the topic has been read to its current end, or with false after `timeoutMs`. */
  async readToEnd(timeoutMs: number): Promise<boolean> {
    const beganMs = performance.now();
    // The promise rejects if the follower has been stopped.
    const isRead = await this.#follower.caughtUp(timeoutMs).catch(() => false);
    if (isRead) this.#currentMs = Math.max(beganMs, this.#currentMs ?? beganMs);
    return isRead;
  }

  /** Resolves when new records arrive, or after `timeoutMs`. */
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

  /** Adds a report. Passes its traffic on to `onTraffic`, because neither rows nor memory records keep traffic. */
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

/** Extracts the name from a record without a valid MAC, for display only. */
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

/** Remembers when this process reached recent log positions, to the second. It never overestimates a position's age. */
class KnownHeads {
  /** The last position reached in each second and the time when it was reached, in ascending order. */
  readonly #entries: { readonly startMs: number; ms: number; seq: number }[] = [];

  reached(seq: number): void {
    const ms = performance.now();
    const last = this.#entries.at(-1);
    if (last && seq <= last.seq) return;
    if (last && ms - last.startMs < headStepMs) Object.assign(last, { ms, seq });
    else this.#entries.push({ startMs: ms, ms, seq });
    if (this.#entries.length > headsKept) this.#entries.shift();
  }

  /** Returns a lower bound on the seconds since a position was reached, or 0 if the position is unknown. */
  secondsSince(seq: number): number {
    const entry = this.#entries.find((each) => each.seq >= seq);
    return entry === undefined ? 0 : (performance.now() - entry.ms) / 1000;
  }
}
