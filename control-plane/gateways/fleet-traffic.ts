/**
 * Requests of the last hour as the gateways' status reports count them. They are kept in bounded memory, and read from the topic
 * again after a start. A report has the time of its log record, unless that clock alone is wrong: in some topics the gateway's own
 * clock stamps the records.
 */
import { hourMs } from '../../schemas/durations.ts';
import {
  readTraffic,
  type TrafficNode,
  type TrafficReport,
  type TrafficRow,
} from '../../schemas/records/traffic.ts';
import { BoundedMap } from '../../shared/runtime/bounded-map.ts';
import { ReadTime, wallClockMs } from '../../shared/runtime/clock.ts';
import { recordsId } from './fleet-rows.ts';
import type { TrafficOrigin } from './status-board.ts';

const keptMs = hourMs;
/** Rows of all reports, with their refusals; some 40 MB. */
const rowsMaxDefault = 100_000;
const unreadMax = 10_000;

export interface GatewayTraffic {
  readonly gateway: string;
  readonly incarnation: string;
  /** Data folder with the records of these requests, identified by `recordsId`. */
  readonly records: string;
  /** When it was published, ms since 1970. */
  readonly atMs: number;
  readonly report: TrafficReport;
}

/** By what rows can be chosen. */
export type TrafficKind = 'gateway' | 'organisation' | 'stack' | 'model';
export type TrafficWhere = Readonly<Partial<Record<TrafficKind, string | undefined>>>;

/** A row, or what a gateway has in no row. */
interface GatewayRow extends Pick<GatewayTraffic, 'gateway' | 'records' | 'atMs' | 'report'> {
  readonly row: TrafficRow;
  /** Many together, whose names nobody knows. */
  readonly isRest: boolean;
}

export class FleetTraffic {
  readonly #rowsMax: number;
  /** In the order in which they were published. */
  #reports: GatewayTraffic[] = [];
  #rows = 0;
  /** What was published earlier was left out for want of room. */
  #completeFromMs = 0;
  /** Time of each gateway's last report that this build cannot read, by `recordsId`. */
  readonly #unread = new BoundedMap<string, number>(unreadMax, 'oldest');

  /** The time by which gateways count, ms since 1970. */
  readonly now: () => number;
  readonly #time: ReadTime;

  constructor(rowsMax = rowsMaxDefault, now: () => number = wallClockMs) {
    this.#rowsMax = rowsMax;
    this.now = now;
    this.#time = new ReadTime(now);
  }

  /** Adds a report, unless it is too old or cannot be read because another build wrote it. */
  add(traffic: unknown, origin: TrafficOrigin, recordMs: number, nowMs = this.now()): void {
    const { name, incarnation } = origin;
    const records = recordsId(origin);
    const atMs = Math.min(this.#time.read(recordMs, recordMs), nowMs);
    if (atMs <= nowMs - keptMs) return;
    const report = readTraffic(traffic);
    if (report === undefined) return void this.#unread.keep(records, atMs);
    // What the log was not known to have is part of the next report.
    const isContained = (other: GatewayTraffic): boolean =>
      other.incarnation === incarnation && other.report.fromMs >= report.fromMs;
    const last = this.#reports.findLast((other) => other.incarnation === incarnation);
    if (last !== undefined && isContained(last)) this.#keep((other) => !isContained(other));
    this.#reports.push({ gateway: name, incarnation, records, atMs, report });
    this.#rows += countRows(report);
    this.#makeRoom(nowMs);
  }

  /** Whether the gateway with these records sent a report in the last hour that this build cannot read. */
  isUnread(records: string, nowMs: number): boolean {
    return (this.#unread.get(records) ?? 0) > nowMs - keptMs;
  }

  /** From when on everything that was published is here. */
  sinceMs(nowMs: number): number {
    return Math.max(nowMs - keptMs, this.#completeFromMs);
  }

  /** Of the last hour, in the order in which they were published. */
  reports(nowMs: number): readonly GatewayTraffic[] {
    return this.#reports.filter(({ atMs }) => atMs > nowMs - keptMs);
  }

  /** All rows of the last hour with these names. */
  *rows(nowMs: number, where: TrafficWhere = {}): Iterable<GatewayRow> {
    const wanted = (Object.entries(where) as [TrafficKind, string | undefined][]).filter(
      ([, name]) => name !== undefined,
    );
    for (const { gateway, records, atMs, report } of this.reports(nowMs)) {
      const { rows, rest } = report;
      const all: readonly TrafficRow[] = rest ? [...rows, rest] : rows;
      for (const row of all) {
        const isWanted = wanted.every(([kind, name]) => rowName(kind, gateway, row) === name);
        if (isWanted) yield { gateway, records, atMs, report, row, isRest: row === rest };
      }
    }
  }

  /** What nodes have answered in the last hour: all, or one. */
  *nodes(
    nowMs: number,
    wanted?: string,
  ): Iterable<Pick<GatewayTraffic, 'atMs' | 'report'> & { readonly row: TrafficNode }> {
    for (const { atMs, report } of this.reports(nowMs))
      for (const row of report.nodes ?? [])
        if (wanted === undefined || row.node === wanted) yield { atMs, report, row };
  }

  #makeRoom(nowMs: number): void {
    let first = 0;
    for (const { atMs, report } of this.#reports) {
      const isOld = atMs <= nowMs - keptMs;
      if (!isOld && this.#rows <= this.#rowsMax) break;
      if (!isOld) this.#completeFromMs = Math.max(this.#completeFromMs, atMs);
      this.#rows -= countRows(report);
      first++;
    }
    if (first > 0) this.#reports.splice(0, first);
  }

  #keep(isKept: (other: GatewayTraffic) => boolean): void {
    this.#reports = this.#reports.filter(isKept);
    this.#rows = this.#reports.reduce((sum, { report }) => sum + countRows(report), 0);
  }
}

function rowName(kind: TrafficKind, gateway: string, row: TrafficRow): string | undefined {
  return kind === 'gateway' ? gateway : row[kind];
}

/** One report has at least one, so that there are not too many of them either; a refusal takes as much as a row. */
function countRows({ rows, rest, callers = [], nodes = [] }: TrafficReport): number {
  const refusals = [...rows, ...(rest ? [rest] : [])].map(({ refused = {} }) => Object.keys(refused).length);
  return refusals.reduce((sum, types) => sum + types, 1 + rows.length + callers.length + nodes.length);
}
