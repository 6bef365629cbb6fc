/** Counts requests that have ended, for the next traffic report. Uses bounded memory, whatever callers send. */

import { operations, pathSurface } from '../../schemas/api/operations.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import {
  addRefused,
  firstTokenBounds,
  ownTimeBounds,
  type TrafficCaller,
  type TrafficNode,
  type TrafficRow,
  type TrafficSums,
} from '../../schemas/records/traffic.ts';
import type { Refusal } from '../../shared/decision/refusal.ts';
import { keptModel } from '../request/model-names.ts';
import type { RequestRecord } from '../request/request-record.ts';
import { NameTriples } from './name-triples.ts';

/** Maximum number of combinations of organisation, stack and model that are counted separately. Reports contain fewer. */
const rowsMax = 2000;
const callersMax = 2000;
const nodesMax = 1000;

/** A request that was refused before it could be handled. */
export interface RefusedRequest {
  readonly requestId: string;
  readonly refusal: Refusal;
}

export interface TrafficNames {
  /** Whether the name may be recorded even if the request was not routed to a node. */
  isKnown(model: string): boolean;
  isStack(id: string): boolean;
}

export interface CountedTraffic {
  /** Rows of the report, in the order in which they were first counted. */
  readonly rows: TrafficRow[];
  /** Sum of all requests that have no row of their own. */
  readonly rest: TrafficRow;
  readonly callers: TrafficCaller[];
  readonly otherCallers: number;
  readonly nodes: TrafficNode[];
}

export class TrafficCounts {
  readonly #names: TrafficNames;
  readonly #rowOf = new NameTriples<TrafficRow>(rowsMax);
  #rows: TrafficRow[] = [];
  #rest: TrafficRow = { requests: 0 };
  readonly #callerOf = new NameTriples<TrafficCaller>(callersMax);
  #callers: TrafficCaller[] = [];
  #otherCallers = 0;
  readonly #nodes = new Map<string, TrafficNode>();

  constructor(names: TrafficNames) {
    this.#names = names;
  }

  /** Counts a request that has ended. Allocates no memory unless it was refused or its names occur for the first time. */
  add(record: RequestRecord): void {
    const { outcome, refusal } = record;
    const row = this.#row(record);
    count(row, record);
    if (outcome?.node) this.#countNode(outcome.node, record);
    if (refusal !== undefined) refuse(row, { refusal, requestId: record.ids.requestId }, record.decidedMs);
    this.#addCaller(record);
  }

  /** Counts a request that was refused before it could be handled. */
  addEarly(refused: RefusedRequest, nowMs: number): void {
    const row = this.#rowOf.get('', '', '') ?? this.#newRow('', '', '');
    row.requests++;
    refuse(row, refused, nowMs);
  }

  /** Returns what was counted since the last call, and starts again at zero. */
  take(): CountedTraffic {
    const taken = {
      ...{ rows: this.#rows, rest: this.#rest, callers: this.#callers, otherCallers: this.#otherCallers },
      nodes: [...this.#nodes.values()],
    };
    this.#rowOf.clear();
    this.#rows = [];
    this.#rest = { requests: 0 };
    this.#callerOf.clear();
    this.#callers = [];
    this.#otherCallers = 0;
    this.#nodes.clear();
    return taken;
  }

  #row(record: RequestRecord): TrafficRow {
    const { caller, target, model = '', decision } = record;
    const organisation = organisationLabel(caller);
    const stack = target?.kind === 'stack' ? target.stack : '';
    const known = this.#rowOf.get(organisation, stack, model);
    if (known !== undefined) return known;
    // Keep names that the request contains only if they exist, because callers can make up any number of names.
    const modelName = keptModel(model, decision, this.#names);
    const stackName = stack !== '' && this.#names.isStack(stack) ? stack : '';
    return (
      this.#rowOf.get(organisation, stackName, modelName) ?? this.#newRow(organisation, stackName, modelName)
    );
  }

  #newRow(organisation: string, stack: string, model: string): TrafficRow {
    const row: TrafficRow = {
      ...(organisation !== '' && { organisation }),
      ...(stack !== '' && { stack }),
      ...(model !== '' && { model }),
      requests: 0,
    };
    if (!this.#rowOf.add(organisation, stack, model, row)) return this.#rest;
    this.#rows.push(row);
    return row;
  }

  #countNode(node: string, record: RequestRecord): void {
    let known = this.#nodes.get(node);
    if (known === undefined) {
      if (this.#nodes.size >= nodesMax) return;
      known = { node, requests: 0 };
      this.#nodes.set(node, known);
    }
    count(known, record);
  }

  /** Counts which key calls which stack. Ignores requests that are not meant for a node. */
  #addCaller({ caller, target, operation }: RequestRecord): void {
    if (target?.kind !== 'stack' || caller?.kind !== 'key' || operation === undefined) return;
    const { path, countsAs } = operations[operation.kind];
    if (countsAs === 'listing' || countsAs === 'nothing') return;
    const { keyId: key, organisation } = caller.owner;
    const { stack } = target;
    const surface = pathSurface(path);
    const known = this.#callerOf.get(stack, surface, key);
    if (known !== undefined) known.requests++;
    else if (this.#names.isStack(stack)) {
      const added = { organisation, stack, surface, key, requests: 1 };
      if (this.#callerOf.add(stack, surface, key, added)) this.#callers.push(added);
      else this.#otherCallers++;
    }
  }
}

function count(into: TrafficSums, { outcome, at, startMs, stream }: RequestRecord): void {
  into.requests++;
  if (outcome?.kind === 'ended-early') into.endedEarly = (into.endedEarly ?? 0) + 1;
  else if (outcome !== undefined) {
    const { promptTokens, completionTokens } = outcome.usage;
    if (promptTokens > 0) into.promptTokens = (into.promptTokens ?? 0) + promptTokens;
    if (completionTokens > 0) into.completionTokens = (into.completionTokens ?? 0) + completionTokens;
  }
  if (at.accepted !== undefined && at.read !== undefined && at.sent !== undefined)
    into.ownTime = observed(
      into.ownTime,
      ownTimeBounds,
      ((at.accepted - startMs + (at.sent - at.read)) * 10) | 0,
    );
  if (stream === true && at.begun !== undefined)
    into.firstToken = observed(into.firstToken, firstTokenBounds, ((at.begun - startMs) * 10) | 0);
}

/** Adds an observation, in tenths of a millisecond because whole numbers, unlike fractions, need no allocation. */
function observed(before: number[] | undefined, bounds: readonly number[], tenths: number): number[] {
  const counts = before ?? [];
  let bucket = 0;
  while (bucket < bounds.length && tenths > (bounds[bucket] as number) * 10) bucket++;
  while (counts.length <= bucket) counts.push(0);
  counts[bucket] = (counts[bucket] as number) + 1;
  return counts;
}

function refuse(row: TrafficRow, { refusal, requestId }: RefusedRequest, lastAtMs: number): void {
  const { type, status } = refusal;
  row.refused ??= {};
  row.refused[type] = addRefused(row.refused[type], {
    status,
    requests: 1,
    lastAtMs,
    lastRequest: requestId,
  });
}

function organisationLabel(caller: RequestRecord['caller']): string {
  if (caller?.kind === 'key') return caller.owner.organisation;
  return caller?.kind === 'anonymous' ? visitorsSubject : '';
}
