/** Counts requests as they end, for the next traffic report. Whatever callers send, its memory is bounded. */
import { visitorsSubject } from '../../schemas/limits.ts';
import { operations, surfaceOfPath } from '../../schemas/operations.ts';
import {
  addRefused,
  firstTokenBounds,
  ownTimeBounds,
  type Refused,
  type TrafficCaller,
  type TrafficRow,
} from '../../schemas/traffic.ts';
import type { Refusal } from '../../shared/decision/refusal.ts';
import { keptModel, type RequestRecord } from '../request/gateway.ts';
import { NameTriples } from './name-triples.ts';

/** Triples of organisation, stack and model that are counted apart; a report has fewer. */
const rowsMax = 2000;
const callersMax = 2000;

/** Cells of a row. */
const cells = { requests: 0, endedEarly: 1, promptTokens: 2, completionTokens: 3 } as const;
const ownTimeAt = Object.keys(cells).length;
const firstTokenAt = ownTimeAt + ownTimeBounds.length + 1;
const cellsOfRow = firstTokenAt + firstTokenBounds.length + 1;

/** A refusal before there was a request has no more. */
export interface RefusedRequest {
  readonly requestId: string;
  readonly refusal: Refusal;
}

export interface TrafficNames {
  /** May the name of a model be kept that no node was asked for? */
  isKnown(model: string): boolean;
  isStack(id: string): boolean;
}

export interface CountedTraffic {
  /** In the order in which they came. */
  readonly rows: TrafficRow[];
  /** What came when there was room for no more rows. */
  readonly rest: TrafficRow;
  readonly callers: TrafficCaller[];
  readonly otherCallers: number;
}

type Names = Pick<TrafficRow, 'organisation' | 'stack' | 'model'>;

export class TrafficCounts {
  readonly #names: TrafficNames;
  /** Its number. */
  readonly #rowOf = new NameTriples<number>(rowsMax);
  readonly #rowNames: Names[] = [{}];
  /** Row 0 has what fits into no other. */
  readonly #cells = new Float64Array((rowsMax + 1) * cellsOfRow);
  readonly #refused = new Map<number, Record<string, Refused>>();
  readonly #callerOf = new NameTriples<TrafficCaller>(callersMax);
  #callers: TrafficCaller[] = [];
  #otherCallers = 0;

  constructor(names: TrafficNames) {
    this.#names = names;
  }

  /** Of a request that has ended. Allocates nothing where its names are known and it is not refused. */
  add(record: RequestRecord): void {
    const { outcome, refusal, at, startMs } = record;
    const row = this.#row(record);
    const start = row * cellsOfRow;
    this.#count(start + cells.requests, 1);
    if (outcome?.kind === 'ended-early') this.#count(start + cells.endedEarly, 1);
    else if (outcome !== undefined) {
      this.#count(start + cells.promptTokens, outcome.usage.promptTokens);
      this.#count(start + cells.completionTokens, outcome.usage.completionTokens);
    }
    if (at.accepted !== undefined && at.read !== undefined && at.sent !== undefined)
      this.#observe(
        start + ownTimeAt,
        ownTimeBounds,
        ((at.accepted - startMs + (at.sent - at.read)) * 10) | 0,
      );
    if (record.stream === true && at.begun !== undefined)
      this.#observe(start + firstTokenAt, firstTokenBounds, ((at.begun - startMs) * 10) | 0);
    if (refusal !== undefined)
      this.#refuse(row, { refusal, requestId: record.ids.requestId }, record.decidedMs);
    this.#addCaller(record);
  }

  /** Of a refusal before there was a request. */
  addEarly(refused: RefusedRequest, nowMs: number): void {
    const row = this.#rowOf.get('', '', '') ?? this.#newRow('', '', '');
    this.#count(row * cellsOfRow + cells.requests, 1);
    this.#refuse(row, refused, nowMs);
  }

  /** What was counted since the last call. */
  take(): CountedTraffic {
    const [rest = { requests: 0 }, ...rows] = this.#rowNames.map((names, row) => this.#read(names, row));
    const taken = { rows, rest, callers: this.#callers, otherCallers: this.#otherCallers };
    this.#rowOf.clear();
    this.#cells.fill(0, 0, this.#rowNames.length * cellsOfRow);
    this.#rowNames.length = 1;
    this.#refused.clear();
    this.#callerOf.clear();
    this.#callers = [];
    this.#otherCallers = 0;
    return taken;
  }

  #row(record: RequestRecord): number {
    const { caller, target, model = '', decision } = record;
    const organisation = organisationOf(caller);
    const stack = target?.kind === 'stack' ? target.stack : '';
    const known = this.#rowOf.get(organisation, stack, model);
    if (known !== undefined) return known;
    // Names from the request are kept only where they are those of something.
    const modelName = keptModel(model, decision, this.#names);
    const stackName = stack !== '' && this.#names.isStack(stack) ? stack : '';
    return (
      this.#rowOf.get(organisation, stackName, modelName) ?? this.#newRow(organisation, stackName, modelName)
    );
  }

  #newRow(organisation: string, stack: string, model: string): number {
    const row = this.#rowNames.length;
    if (!this.#rowOf.add(organisation, stack, model, row)) return 0;
    this.#rowNames.push({
      ...(organisation !== '' && { organisation }),
      ...(stack !== '' && { stack }),
      ...(model !== '' && { model }),
    });
    return row;
  }

  #count(cell: number, more: number): void {
    this.#cells[cell] = (this.#cells[cell] as number) + more;
  }

  /** In tenths of a millisecond: each fraction that is passed on would be an object. */
  #observe(firstCell: number, bounds: readonly number[], tenths: number): void {
    let bucket = 0;
    while (bucket < bounds.length && tenths > (bounds[bucket] as number) * 10) bucket++;
    this.#count(firstCell + bucket, 1);
  }

  #refuse(row: number, { refusal, requestId }: RefusedRequest, lastAtMs: number): void {
    const { type, status } = refusal;
    const ofRow = this.#refused.get(row) ?? {};
    this.#refused.set(row, ofRow);
    ofRow[type] = addRefused(ofRow[type], { status, requests: 1, lastAtMs, lastRequest: requestId });
  }

  /** Which keys call a stack, of what a node would answer. */
  #addCaller({ caller, target, operation }: RequestRecord): void {
    if (target?.kind !== 'stack' || caller?.kind !== 'key' || operation === undefined) return;
    const { path, countsAs } = operations[operation.kind];
    if (countsAs === 'listing' || countsAs === 'nothing') return;
    const { keyId: key, organisation } = caller.owner;
    const { stack } = target;
    const surface = surfaceOfPath(path);
    const known = this.#callerOf.get(stack, surface, key);
    if (known !== undefined) known.requests++;
    else if (this.#names.isStack(stack)) {
      const added = { organisation, stack, surface, key, requests: 1 };
      if (this.#callerOf.add(stack, surface, key, added)) this.#callers.push(added);
      else this.#otherCallers++;
    }
  }

  #read(names: Names, row: number): TrafficRow {
    const cellsHere = this.#cells.subarray(row * cellsOfRow, (row + 1) * cellsOfRow);
    const cell = (name: keyof typeof cells): number => cellsHere[cells[name]] as number;
    const [endedEarly, promptTokens] = [cell('endedEarly'), cell('promptTokens')];
    const completionTokens = cell('completionTokens');
    const ownTime = histogramOf(cellsHere.subarray(ownTimeAt, firstTokenAt));
    const firstToken = histogramOf(cellsHere.subarray(firstTokenAt));
    const refused = this.#refused.get(row);
    return {
      ...names,
      requests: cell('requests'),
      ...(endedEarly > 0 && { endedEarly }),
      ...(promptTokens > 0 && { promptTokens }),
      ...(completionTokens > 0 && { completionTokens }),
      ...(refused && { refused }),
      ...(ownTime.length > 0 && { ownTime }),
      ...(firstToken.length > 0 && { firstToken }),
    };
  }
}

function organisationOf(caller: RequestRecord['caller']): string {
  if (caller?.kind === 'key') return caller.owner.organisation;
  return caller?.kind === 'anonymous' ? visitorsSubject : '';
}

/** Without its last buckets, where they are empty. */
function histogramOf(counts: Float64Array): number[] {
  const last = counts.findLastIndex((requests) => requests > 0);
  return [...counts.subarray(0, last + 1)];
}
