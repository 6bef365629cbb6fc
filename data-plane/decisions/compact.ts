/**
 * A decision as it is kept: a list without names, a quarter of the bytes of a record, and cheap to make. Made on the
 * request's thread of what the request's record holds, so it copies numbers and ids, and no text of a caller but the name
 * of a model that the state knows.
 */
import type { DecisionRecord } from '../../schemas/decisions.ts';
import { operationKinds, operations } from '../../schemas/operations.ts';
import { type Cause, causeOf, causes, type Stage } from '../../shared/decision/causes.ts';
import type { EarlyRefusal } from '../http/node-listener.ts';
import type { Milestones, RequestRecord } from '../request/gateway.ts';
import type { UseCells } from '../request/seen-counters.ts';

export type CompactCell = string | number | null | UseCells;
export type CompactDecision = readonly CompactCell[];

/** Of a caller's text that stays out: the message of a refusal, from this on. */
const messageCharactersMax = 300;
const reasonCharactersMax = 100;
const version = 1;

const hosts = ['shared', 'stack', 'unknown'] as const;
const faults: readonly Cause[] = ['missing', 'malformed', 'unknown', 'two different keys'];
const stages: readonly Stage[] = ['admission', 'http', 'body', 'shape', 'usage', 'answer'];

export interface DecisionMoment {
  /** Wall clock, ms since 1970. */
  readonly nowMs: number;
  readonly position: number;
  /** May the name of the model be kept? */
  isKnown(model: string): boolean;
}

/** The names of the cells, in their order. */
const names = [
  ...['v', 'req', 'at', 'position', 'host', 'stack', 'operation'],
  ...['organisation', 'key', 'header', 'fault', 'carried', 'visitor'],
  ...['model', 'promptTokens', 'promptTokensLeast', 'counted', 'maxTokens'],
  ...['windowUsed', 'inFlight', 'poolTokens', 'freeTurns'],
  ...['status', 'type', 'stage', 'reason', 'message', 'retryAfterSeconds', 'capacity', 'node', 'outcome'],
  ...['accepted', 'read', 'shaped', 'decided', 'sent', 'begun', 'end'],
  // Only decisions about visitors have these.
  ...['networkTurns', 'visitorWindow', 'visitorsInFlight', 'visitorTokens'],
  // Only where there were limits: their numbers.
  ...['requests', 'concurrency', 'visitorRequests', 'visitorConcurrency'],
] as const;

export function compact(record: RequestRecord, moment: DecisionMoment): CompactDecision {
  const { target } = record;
  // One list that grows: lists that are copied into it would cost as much again.
  const cells: CompactCell[] = [
    version,
    record.ids.requestId.slice('req_'.length),
    record.seen?.atMs || record.decidedMs || moment.nowMs,
    record.position ?? moment.position,
    hosts.indexOf(target?.kind ?? 'unknown'),
    target?.kind === 'stack' ? target.stack : null,
    operations[record.operation?.kind ?? 'unknown'].code,
  ];
  addCaller(cells, record);
  addAsked(cells, record, moment);
  addAnswer(cells, record);
  addMilestones(cells, record.at, record.startMs);
  addVisitors(cells, record);
  return cells;
}

/** Of a refusal before there was a request, its answer is known and little else. */
export function compactEarly(
  { requestId, refusal, target }: EarlyRefusal,
  { nowMs, position }: DecisionMoment,
): CompactDecision {
  const known: { readonly [Name in (typeof names)[number]]?: CompactCell } = {
    ...{ v: version, req: requestId.slice('req_'.length), at: nowMs, position },
    host: hosts.indexOf(target?.kind ?? 'unknown'),
    stack: target?.kind === 'stack' ? target.stack : null,
    operation: operations.unknown.code,
    ...{ key: refusal.keyId ?? null, header: 0, carried: 0, promptTokens: 0, counted: 0 },
    ...{ windowUsed: 0, inFlight: 0, poolTokens: 0, freeTurns: 0 },
    ...{ status: refusal.status, type: refusal.type, stage: stages.indexOf('http') },
    reason: refusal.reason.slice(0, reasonCharactersMax),
    message: refusal.message.slice(0, messageCharactersMax),
    retryAfterSeconds: refusal.retryAfterSeconds ?? null,
    end: 0,
  };
  return names.slice(0, names.indexOf('end') + 1).map((name) => known[name] ?? null);
}

function addVisitors(cells: CompactCell[], { seen }: RequestRecord): void {
  if (seen === undefined) return;
  const { networkTurnsUsed, visitors, requests, concurrency } = seen;
  const isLimited = requests !== undefined || concurrency !== undefined;
  if (networkTurnsUsed === undefined && visitors === undefined && !isLimited) return;
  if (visitors === undefined) cells.push(networkTurnsUsed ?? null, null, null, null);
  else cells.push(networkTurnsUsed ?? null, visitors.windowUsed, visitors.inFlight, visitors.tokens);
  cells.push(requests ?? null, concurrency ?? null);
  if (visitors !== undefined) cells.push(visitors.requests ?? null, visitors.concurrency ?? null);
}

const useFields = ['here', 'room', 'elsewhere', 'held'] as const;

/** An earlier version kept the numbers as one text. */
function useOf(cell: CompactCell | undefined): object | undefined {
  if (cell === undefined || typeof cell === 'number' || cell === null) return undefined;
  const parts = typeof cell === 'string' ? cell.split(' ') : cell;
  return Object.fromEntries(parts.map((part, at) => [useFields[at], Number(part)]));
}

function addCaller(cells: CompactCell[], record: RequestRecord): void {
  const { caller, refusal } = record;
  const isKey = caller?.kind === 'key';
  cells.push(
    isKey ? caller.owner.organisation : null,
    isKey ? caller.owner.keyId : (refusal?.keyId ?? null),
    record.keyHeader === 'x-api-key' ? 1 : 0,
    faultOf(record),
    refusal?.cause === 'fenced' ? 1 : 0,
    caller?.kind === 'anonymous' ? caller.visitor : null,
  );
}

function addAsked(cells: CompactCell[], record: RequestRecord, moment: DecisionMoment): void {
  const { facts, promptCounted, promptLeast = null } = record;
  const isBound = promptCounted === undefined;
  cells.push(
    modelOf(record, moment),
    promptCounted ?? facts?.promptTokens ?? 0,
    isBound ? promptLeast : null,
    isBound ? 0 : 1,
    facts?.maxTokens ?? null,
  );
  addCounters(cells, record);
}

function addCounters(cells: CompactCell[], { seen }: RequestRecord): void {
  if (seen === undefined) cells.push(0, 0, 0, 0);
  else cells.push(seen.windowUsed, seen.unitsInFlight, seen.tokensUsed, seen.turnsUsed);
}

function addAnswer(cells: CompactCell[], record: RequestRecord): void {
  const { refusal, outcome } = record;
  if (refusal === undefined) cells.push(record.status, null, 0, null, null, null);
  else
    cells.push(
      refusal.status,
      refusal.type,
      stages.indexOf(causes[refusal.cause].stage),
      refusal.reason.slice(0, reasonCharactersMax),
      refusal.message.slice(0, messageCharactersMax),
      refusal.retryAfterSeconds ?? null,
    );
  const ended = outcome?.kind === 'ended-early' ? `ended by ${outcome.by}` : (outcome?.kind ?? null);
  cells.push(capacityOf(record), outcome?.node || null, ended);
}

function faultOf({ refusal, caller }: RequestRecord): number | null {
  if (refusal?.type !== 'Unauthorized' || caller !== undefined) return null;
  // One of two keys is known, and neither is what the refusal is for.
  if (refusal.keyId !== undefined && refusal.cause !== 'two different keys') return null;
  const index = faults.indexOf(refusal.cause);
  return index === -1 ? 0 : index;
}

function modelOf(record: RequestRecord, moment: DecisionMoment): string | null {
  const { operation, decision } = record;
  const model = operation?.kind === 'model' ? operation.model : record.model;
  if (model === undefined) return null;
  const isServed = decision !== undefined && 'capacity' in decision.placement;
  return isServed || moment.isKnown(model) ? model : null;
}

function capacityOf({ decision }: RequestRecord): string | null {
  return decision !== undefined && 'capacity' in decision.placement ? decision.placement.capacity : null;
}

/** Tenths of a millisecond since the request line. */
function addMilestones(cells: CompactCell[], at: Milestones, startMs: number): void {
  const since = (ms: number | undefined): CompactCell =>
    ms === undefined ? null : Math.round((ms - startMs) * 10);
  cells.push(
    since(at.accepted),
    since(at.read),
    since(at.shaped),
    since(at.decided),
    since(at.sent),
    since(at.begun),
    since(performance.now()),
  );
}

type Named = Readonly<Record<(typeof names)[number], CompactCell | undefined>>;

/** The record with its names. What was not known is left out. */
export function expand(cells: CompactDecision, gateway: string): DecisionRecord {
  const named = Object.fromEntries(names.map((name, at) => [name, cells[at] ?? undefined])) as Named;
  const { at, position, stack, organisation, key, visitor, model, promptTokens, promptTokensLeast } = named;
  const { maxTokens, status, type, reason, message, retryAfterSeconds, capacity, node, outcome } = named;
  const stage = stages[Number(named.stage)];
  const cause = causeOf({ stage, type, reason } as Pick<DecisionRecord, 'stage' | 'type' | 'reason'>);
  const record = {
    ...{ v: 1, req: `req_${named.req}`, gateway, at, position, host: hosts[Number(named.host)], stack },
    operation: operationKinds.find((kind) => operations[kind].code === named.operation),
    ...{ organisation, key, visitor, model, promptTokens, promptTokensLeast, maxTokens },
    header: key === undefined ? undefined : named.header === 1 ? 'x-api-key' : 'authorization',
    fault: named.fault === undefined ? undefined : faults[Number(named.fault)],
    carried: named.carried === 1 || undefined,
    counted: named.counted === 1 ? 'node' : 'bound',
    counters: countersOf(named),
    ...(cause !== undefined && causes[cause].step === 'fresh' && { fenced: true }),
    ...(cause === 'outbox full' && { outboxFull: true }),
    ...{ stage, served: type === undefined, status, type, reason, message },
    ...{ retryAfterSeconds, capacity, node, outcome },
    ms: sinceRequestLine(named),
  };
  return withoutUndefined(record) as unknown as DecisionRecord;
}

function countersOf(named: Named): object {
  const { windowUsed, inFlight, poolTokens, freeTurns, networkTurns } = named;
  const { visitorWindow, visitorsInFlight, visitorTokens } = named;
  return {
    ...{ windowUsed, inFlight, poolTokens, freeTurns },
    ...usesOf(named.requests, named.concurrency),
    ...(networkTurns !== undefined && { networkTurns }),
    ...(visitorWindow !== undefined && {
      visitors: {
        ...{ windowUsed: visitorWindow, inFlight: visitorsInFlight, tokens: visitorTokens },
        ...usesOf(named.visitorRequests, named.visitorConcurrency),
      },
    }),
  };
}

function usesOf(requests: CompactCell | undefined, concurrency: CompactCell | undefined): object {
  return withoutUndefined({ requests: useOf(requests), concurrency: useOf(concurrency) });
}

function sinceRequestLine(named: Named): object {
  const { accepted, read, shaped, decided, sent, begun, end } = named;
  const tenths = { accepted, read, shaped, decided, sent, begun, end };
  const ms = Object.entries(tenths).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, Number(value) / 10]],
  );
  return Object.fromEntries(ms);
}

function withoutUndefined(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
