/**
 * Requests of the last hour as status reports count them, in bounded memory, and read from the topic again after a start. A
 * report has the time of its log record, unless that clock alone is wrong, because in some topics gateways' clocks stamp
 * records.
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
/** Maximum rows of all reports, including refusals; about 40 MB. */
const rowsMaxDefault = 100_000;
const unreadMax = 10_000;

export interface GatewayTraffic {
  readonly gateway: string;
  readonly incarnation: string;
  /** Data folder with the records of these requests, identified by `recordsId`. */
  readonly records: string;
  /** Time of publication, ms since 1970. */
  readonly atMs: number;
  readonly report: TrafficReport;
}

/** Names by which rows can be selected. */
export type TrafficKind = 'gateway' | 'organisation' | 'stack' | 'model';
export type TrafficWhere = Readonly<Partial<Record<TrafficKind, string | undefined>>>;

/** A row of a gateway's report, or its rest. */
interface GatewayRow extends Pick<GatewayTraffic, 'gateway' | 'records' | 'atMs' | 'report'> {
  readonly row: TrafficRow;
  /** Whether the row is the rest, which sums requests whose names are not known. */
  readonly isRest: boolean;
}

export class FleetTraffic {
  readonly #rowsMax: number;
  /** Reports in the order of publication. */
  #reports: GatewayTraffic[] = [];
  #rows = 0;
  /** Time before which reports were left out for lack of room. */
  #completeFromMs = 0;
  /** Time of each gateway's last report that this build cannot read, by `recordsId`. */
  readonly #unread = new BoundedMap<string, number>(unreadMax, 'oldest');

  /** Clock by which gateways count, ms since 1970. */
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
    // A report repeats the previous one's counts if that one was not known to be in the log.
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

  /** Time since which all published reports are present. */
  sinceMs(nowMs: number): number {
    return Math.max(nowMs - keptMs, this.#completeFromMs);
  }

  /** Reports of the last hour, in the order of publication. */
  reports(nowMs: number): readonly GatewayTraffic[] {
    return this.#reports.filter(({ atMs }) => atMs > nowMs - keptMs);
  }

  /** Yields the rows of the last hour with these names. */
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

  /** Yields the answers of all nodes, or of one, in the last hour. */
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

/** Counts each refusal as a row, and one more for each report, so that the number of reports is bounded too. */
function countRows({ rows, rest, callers = [], nodes = [] }: TrafficReport): number {
  const refusals = [...rows, ...(rest ? [rest] : [])].map(({ refused = {} }) => Object.keys(refused).length);
  return refusals.reduce((sum, types) => sum + types, 1 + rows.length + callers.length + nodes.length);
}
