/**
 * What the gateways counted of their requests in the last hour, as their status reports say: in memory, bounded, and after a start
 * read again from the topic. A time is that of the record in the log, and at the latest that at which it was read: a topic may
 * have it from the gateway's clock.
 */
import { hourMs } from '../../schemas/durations.ts';
import {
  addTraffic,
  readTraffic,
  type TrafficReport,
  type TrafficRow,
  type TrafficSums,
} from '../../schemas/traffic.ts';
import type { TrafficOrigin } from '../../shared/status/status-board.ts';

const keptMs = hourMs;
/** Rows of all reports, with their refusals; some 40 MB. */
const rowsMaxDefault = 100_000;

export interface GatewayTraffic {
  readonly gateway: string;
  readonly incarnation: string;
  /** When it was published, ms since 1970. */
  readonly atMs: number;
  readonly report: TrafficReport;
}

/** By what series differ. */
export type TrafficKind = 'gateway' | 'organisation' | 'stack' | 'model';
/** A row, or what a gateway has in no row. */
interface GatewayRow extends Pick<GatewayTraffic, 'gateway' | 'atMs'> {
  readonly row: TrafficRow;
  /** Many together, whose names nobody knows. */
  readonly isRest: boolean;
}

export interface SeriesQuery {
  readonly by: TrafficKind;
  readonly nowMs: number;
  /** Length of a step. The last one ends now. */
  readonly stepMs: number;
  /** Only rows with these names. */
  readonly where?: Readonly<Partial<Record<TrafficKind, string>>>;
}
export interface TrafficSeries {
  /** Undefined: rows without such a name. */
  readonly name: string | undefined;
  /** From the first step of the hour on; undefined where there was nothing. */
  readonly steps: readonly (TrafficSums | undefined)[];
}

export class FleetTraffic {
  readonly #rowsMax: number;
  /** In the order in which they were published. */
  #reports: GatewayTraffic[] = [];
  #rows = 0;
  /** What was published earlier was left out for want of room. */
  #completeFromMs = 0;

  constructor(rowsMax = rowsMaxDefault) {
    this.#rowsMax = rowsMax;
  }

  /** What cannot be read is left out: another build may have written it. */
  add(traffic: unknown, { name, incarnation }: TrafficOrigin, recordMs: number, nowMs = Date.now()): void {
    const atMs = Math.min(recordMs, nowMs);
    if (atMs <= nowMs - keptMs) return;
    const report = readTraffic(traffic);
    if (report === undefined) return;
    // What the log was not known to have is part of the next report.
    const isContained = (other: GatewayTraffic): boolean =>
      other.incarnation === incarnation && other.report.fromMs >= report.fromMs;
    const last = this.#reports.findLast((other) => other.incarnation === incarnation);
    if (last !== undefined && isContained(last)) this.#keep((other) => !isContained(other));
    this.#reports.push({ gateway: name, incarnation, atMs, report });
    this.#rows += rowsOf(report);
    this.#makeRoom(nowMs);
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
  *rows(nowMs: number, where: SeriesQuery['where'] = {}): Iterable<GatewayRow> {
    const wanted = Object.entries(where) as [TrafficKind, string][];
    for (const { gateway, atMs, report } of this.reports(nowMs)) {
      const { rows, rest } = report;
      const all: readonly TrafficRow[] = rest ? [...rows, rest] : rows;
      for (const row of all) {
        const isWanted = wanted.every(([kind, name]) => nameIn(kind, gateway, row) === name);
        if (isWanted) yield { gateway, atMs, row, isRest: row === rest };
      }
    }
  }

  /** The last hour in steps, one series for each name. */
  series({ by, nowMs, stepMs, where }: SeriesQuery): TrafficSeries[] {
    const steps = Math.ceil(keptMs / stepMs);
    const series = new Map<string | undefined, (TrafficSums | undefined)[]>();
    for (const { gateway, atMs, row } of this.rows(nowMs, where)) {
      const name = nameIn(by, gateway, row);
      const sums = series.get(name) ?? new Array<TrafficSums | undefined>(steps).fill(undefined);
      series.set(name, sums);
      const step = Math.min(steps - 1, Math.max(0, steps - 1 - Math.floor((nowMs - atMs) / stepMs)));
      const sum = sums[step] ?? { requests: 0 };
      sums[step] = sum;
      addTraffic(sum, row);
    }
    return [...series].map(([name, sums]) => ({ name, steps: sums }));
  }

  #makeRoom(nowMs: number): void {
    let first = 0;
    for (const { atMs, report } of this.#reports) {
      const isOld = atMs <= nowMs - keptMs;
      if (!isOld && this.#rows <= this.#rowsMax) break;
      if (!isOld) this.#completeFromMs = Math.max(this.#completeFromMs, atMs);
      this.#rows -= rowsOf(report);
      first++;
    }
    if (first > 0) this.#reports.splice(0, first);
  }

  #keep(isKept: (other: GatewayTraffic) => boolean): void {
    this.#reports = this.#reports.filter(isKept);
    this.#rows = this.#reports.reduce((sum, { report }) => sum + rowsOf(report), 0);
  }
}

function nameIn(kind: TrafficKind, gateway: string, row: TrafficRow): string | undefined {
  return kind === 'gateway' ? gateway : row[kind];
}

/** One report has at least one, so that there are not too many of them either; a refusal takes as much as a row. */
function rowsOf({ rows, rest, callers = [] }: TrafficReport): number {
  const refusals = [...rows, ...(rest ? [rest] : [])].map(({ refused = {} }) => Object.keys(refused).length);
  return refusals.reduce((sum, types) => sum + types, 1 + rows.length + callers.length);
}
