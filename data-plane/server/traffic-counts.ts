/** Counts requests as they end, for the next traffic report. Whatever callers send, its memory is bounded. */
import { visitorsSubject } from '../../schemas/limits.ts';
import { operations, surfaceOfPath } from '../../schemas/operations.ts';
import {
  addRefused,
  type Refused,
  type TrafficCaller,
  type TrafficNode,
  type TrafficRow,
} from '../../schemas/traffic.ts';
import type { Refusal } from '../../shared/decision/refusal.ts';
import { keptModel, type RequestRecord } from '../request/gateway.ts';
import { NameTriples } from './name-triples.ts';
import { TrafficCells } from './traffic-cells.ts';

/** Triples of organisation, stack and model that are counted apart; a report has fewer. */
const rowsMax = 2000;
const callersMax = 2000;
const nodesMax = 1000;

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
  readonly nodes: TrafficNode[];
}

type Names = Pick<TrafficRow, 'organisation' | 'stack' | 'model'>;

export class TrafficCounts {
  readonly #names: TrafficNames;
  /** Its number. */
  readonly #rowOf = new NameTriples<number>(rowsMax);
  readonly #rowNames: Names[] = [{}];
  readonly #cells = new TrafficCells(rowsMax);
  readonly #refused = new Map<number, Record<string, Refused>>();
  readonly #callerOf = new NameTriples<TrafficCaller>(callersMax);
  #callers: TrafficCaller[] = [];
  #otherCallers = 0;
  /** Its row; in row 0 is what came when there were too many. */
  readonly #nodeOf = new Map<string, number>();
  readonly #nodeCells = new TrafficCells(nodesMax);

  constructor(names: TrafficNames) {
    this.#names = names;
  }

  /** Of a request that has ended. Allocates nothing where its names are known and it is not refused. */
  add(record: RequestRecord): void {
    const { outcome, refusal } = record;
    const row = this.#row(record);
    this.#cells.add(row, record);
    if (outcome !== undefined) this.#nodeCells.add(this.#nodeRow(outcome.node), record);
    if (refusal !== undefined)
      this.#refuse(row, { refusal, requestId: record.ids.requestId }, record.decidedMs);
    this.#addCaller(record);
  }

  /** Of a refusal before there was a request. */
  addEarly(refused: RefusedRequest, nowMs: number): void {
    const row = this.#rowOf.get('', '', '') ?? this.#newRow('', '', '');
    this.#cells.addRequest(row);
    this.#refuse(row, refused, nowMs);
  }

  /** What was counted since the last call. */
  take(): CountedTraffic {
    const [rest = { requests: 0 }, ...rows] = this.#rowNames.map((names, row) => this.#read(names, row));
    const nodes = [...this.#nodeOf].map(([node, row]) => ({ node, ...this.#nodeCells.read(row) }));
    const taken = { rows, rest, callers: this.#callers, otherCallers: this.#otherCallers, nodes };
    this.#rowOf.clear();
    this.#cells.clear(this.#rowNames.length);
    this.#rowNames.length = 1;
    this.#refused.clear();
    this.#callerOf.clear();
    this.#callers = [];
    this.#otherCallers = 0;
    this.#nodeCells.clear(this.#nodeOf.size + 1);
    this.#nodeOf.clear();
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

  #nodeRow(node: string): number {
    const known = this.#nodeOf.get(node);
    if (known !== undefined) return known;
    if (this.#nodeOf.size >= nodesMax) return 0;
    const row = this.#nodeOf.size + 1;
    this.#nodeOf.set(node, row);
    return row;
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
    const refused = this.#refused.get(row);
    return { ...names, ...this.#cells.read(row), ...(refused && { refused }) };
  }
}

function organisationOf(caller: RequestRecord['caller']): string {
  if (caller?.kind === 'key') return caller.owner.organisation;
  return caller?.kind === 'anonymous' ? visitorsSubject : '';
}
