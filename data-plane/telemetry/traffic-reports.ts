/**
 * Builds traffic reports from counts: at most one every ten seconds, and none if nothing has happened. If the log does not
 * accept a report, the next one includes it and also covers its period, so that nothing is lost or counted twice.
 */
import type { StackId } from '../../schemas/names.ts';
import {
  addTraffic,
  type TrafficCaller,
  type TrafficNode,
  type TrafficReport,
  type TrafficRow,
  trafficBytesMax,
  trafficCallersMax,
  trafficNodesMax,
  trafficRowsMax,
} from '../../schemas/records/traffic.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';
import { isModelName } from '../request/model-names.ts';
import type { RequestRecord } from '../request/request-record.ts';
import { type CountedTraffic, type RefusedRequest, TrafficCounts } from './traffic-counts.ts';

const everyMsDefault = 10_000;

export class TrafficReports {
  readonly #counts: TrafficCounts;
  readonly #inFlight: () => number;
  readonly #everyMs: number;
  #fromMs = 0;
  /** Report that was handed out and is being written to the log. */
  #sent: TrafficReport | undefined;
  /** Report that the log did not accept. The next report includes it. */
  #kept: TrafficReport | undefined;

  constructor(
    lookup: Pick<Lookup, 'isCatalogued' | 'isPooled' | 'stack'>,
    inFlight: () => number,
    everyMs = everyMsDefault,
  ) {
    this.#counts = new TrafficCounts({
      isKnown: (model) => isModelName(lookup, model),
      isStack: (id) => lookup.stack(id as StackId) !== undefined,
    });
    this.#inFlight = inFlight;
    this.#everyMs = everyMs;
  }

  add(record: RequestRecord): void {
    this.#counts.add(record);
  }

  /** Counts a request that was refused before it could be handled. */
  addEarly(refused: RefusedRequest): void {
    this.#counts.addEarly(refused, wallClockMs());
  }

  /** Returns a report if one is due or `isLast` is true. `settle` must be called before the next report is taken. */
  take(isLast: boolean): TrafficReport | undefined {
    const toMs = Math.round(performance.now());
    if (this.#sent !== undefined || (!isLast && toMs - this.#fromMs < this.#everyMs)) return undefined;
    const fromMs = this.#kept?.fromMs ?? this.#fromMs;
    const counted = together(this.#kept, this.#counts.take());
    this.#fromMs = toMs;
    this.#kept = undefined;
    const running = this.#inFlight();
    const isIdle = counted.rows.length === 0 && counted.rest.requests === 0 && running === 0;
    if (!isIdle) this.#sent = bounded({ fromMs, toMs, inFlight: running }, counted);
    return this.#sent;
  }

  settle(isOnLog: boolean): void {
    if (!isOnLog) this.#kept = this.#sent;
    this.#sent = undefined;
  }
}

const rowKey = ({ organisation = '', stack = '', model = '' }: TrafficRow): string =>
  `${organisation} ${stack} ${model}`;
const callerKey = ({ stack, surface, key }: TrafficCaller): string => `${stack} ${surface} ${key}`;

const nodeKey = ({ node }: TrafficNode): string => node;

/** Merges two lists of items. Items with the same key are added up. */
function joined<Item>(
  kept: readonly Item[] | undefined,
  counted: readonly Item[],
  rowKey: (item: Item) => string,
  add: (into: Item, more: Item) => void,
): Item[] {
  const all = new Map((kept ?? []).map((item) => [rowKey(item), item]));
  for (const item of counted) {
    const known = all.get(rowKey(item));
    if (known === undefined) all.set(rowKey(item), item);
    else add(known, item);
  }
  return [...all.values()];
}

function together(kept: TrafficReport | undefined, counted: CountedTraffic): CountedTraffic {
  if (kept === undefined) return counted;
  const rest = kept.rest ?? { requests: 0 };
  addTraffic(rest, counted.rest);
  return {
    rows: joined(kept.rows, counted.rows, rowKey, addTraffic),
    rest,
    callers: joined(kept.callers, counted.callers, callerKey, (into, { requests }) => {
      into.requests += requests;
    }),
    otherCallers: (kept.otherCallers ?? 0) + counted.otherCallers,
    nodes: joined(kept.nodes, counted.nodes, nodeKey, addTraffic),
  };
}

const mostFirst = (a: { readonly requests: number }, b: { readonly requests: number }): number =>
  b.requests - a.requests;

/** Builds a report of bounded size: keeps the rows with most requests, and adds up all others in one row. */
function bounded(
  span: Pick<TrafficReport, 'fromMs' | 'toMs' | 'inFlight'>,
  { rows, rest, callers, otherCallers, nodes }: CountedTraffic,
): TrafficReport {
  const largest = rows.toSorted(mostFirst);
  const frequent = callers.toSorted(mostFirst);
  const busiest = nodes.toSorted(mostFirst);
  for (let share = 1; ; share /= 2) {
    const rowsHere = Math.floor(trafficRowsMax * share);
    const callersHere = Math.floor(trafficCallersMax * share);
    const others = structuredClone(rest);
    for (const row of largest.slice(rowsHere)) addTraffic(others, row);
    const leftOut = frequent.slice(callersHere).reduce((sum, { requests }) => sum + requests, otherCallers);
    const report: TrafficReport = {
      ...{ v: 1, ...span, rows: largest.slice(0, rowsHere) },
      ...(others.requests > 0 && { rest: others }),
      ...(frequent.length > 0 && { callers: frequent.slice(0, callersHere) }),
      ...(leftOut > 0 && { otherCallers: leftOut }),
      ...(busiest.length > 0 && { nodes: busiest.slice(0, Math.floor(trafficNodesMax * share)) }),
    };
    if (rowsHere === 0 || JSON.stringify(report).length <= trafficBytesMax) return report;
  }
}
