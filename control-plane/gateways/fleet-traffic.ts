/**
 * Request counts of the last hour from the gateways' status reports, in bounded memory. After a start they are read from the
 * topic again. A report is dated by its log record, with a correction for wrong clocks, because some topics let the gateways'
 * clocks stamp the records.
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
/** Maximum number of rows in all reports, including refusals; about 40 MB. */
const rowsMaxDefault = 100_000;
const unreadMax = 10_000;

export interface GatewayTraffic {
  readonly gateway: string;
  readonly incarnation: string;
  /** Id of the data folder that contains the records of these requests; see `recordsId`. */
  readonly records: string;
  /** Time of publication in ms since 1970. */
  readonly atMs: number;
  readonly report: TrafficReport;
}

/** Dimensions by which rows can be selected. */
export type TrafficKind = 'gateway' | 'organisation' | 'stack' | 'model';
export type TrafficWhere = Readonly<Partial<Record<TrafficKind, string | undefined>>>;

/** A row of a gateway's report, or the report's rest row. */
interface GatewayRow extends Pick<GatewayTraffic, 'gateway' | 'records' | 'atMs' | 'report'> {
  readonly row: TrafficRow;
  /** Whether this is the rest row, which sums all requests that have no row of their own. */
  readonly isRest: boolean;
}

export class FleetTraffic {
  readonly #rowsMax: number;
  #reports: GatewayTraffic[] = [];
  #rows = 0;
  /** Time in ms since 1970 after which no report was dropped for lack of space. */
  #completeFromMs = 0;
  /** Time of each gateway's last report that this build could not read, by `recordsId`. */
  readonly #unread = new BoundedMap<string, number>(unreadMax, 'oldest');

  /** Clock that gateways use for counting, in ms since 1970. */
  readonly now: () => number;
  readonly #time: ReadTime;

  constructor(rowsMax = rowsMaxDefault, now: () => number = wallClockMs) {
    this.#rowsMax = rowsMax;
    this.now = now;
    this.#time = new ReadTime(now);
  }

  /** Adds a report, unless it is too old. If this build cannot read the report, only its time is kept. */
  add(traffic: unknown, origin: TrafficOrigin, recordMs: number, nowMs = this.now()): void {
    const { name, incarnation } = origin;
    const records = recordsId(origin);
    const atMs = Math.min(this.#time.read(recordMs, recordMs), nowMs);
    if (atMs <= nowMs - keptMs) return;
    const report = readTraffic(traffic);
    if (report === undefined) return void this.#unread.keep(records, atMs);
    // A gateway that does not know whether its last report reached the log repeats the counts in its next one, which then
    // replaces it.
    const isContained = (other: GatewayTraffic): boolean =>
      other.incarnation === incarnation && other.report.fromMs >= report.fromMs;
    const last = this.#reports.findLast((other) => other.incarnation === incarnation);
    if (last !== undefined && isContained(last)) this.#keep((other) => !isContained(other));
    this.#reports.push({ gateway: name, incarnation, records, atMs, report });
    this.#rows += countRows(report);
    this.#makeRoom(nowMs);
  }

  /** Whether the gateway with this `recordsId` sent a report in the last hour that this build cannot read. */
  isUnread(records: string, nowMs: number): boolean {
    return (this.#unread.get(records) ?? 0) > nowMs - keptMs;
  }

  /** Returns the time in ms since 1970 from which no report is missing. */
  sinceMs(nowMs: number): number {
    return Math.max(nowMs - keptMs, this.#completeFromMs);
  }

  /** Returns the reports of the last hour, in order of publication. */
  reports(nowMs: number): readonly GatewayTraffic[] {
    return this.#reports.filter(({ atMs }) => atMs > nowMs - keptMs);
  }

  /** Yields the rows of the last hour that match all names in `where`. */
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

  /** Yields the rows about nodes in the last hour's reports, for all nodes or only for `wanted`. */
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

/** Counts each row, each refusal type and the report itself as one row, so that the number of reports is bounded too. */
function countRows({ rows, rest, callers = [], nodes = [] }: TrafficReport): number {
  const refusals = [...rows, ...(rest ? [rest] : [])].map(({ refused = {} }) => Object.keys(refused).length);
  return refusals.reduce((sum, types) => sum + types, 1 + rows.length + callers.length + nodes.length);
}
