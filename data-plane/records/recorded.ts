/**
 * Collects the facts that are recorded about a request when it ends. Copies numbers and ids, but no text from the caller
 * except the names of known models. Every log line and decision record is built from these facts (project.ts).
 */
import { keyFaults } from '../../schemas/records/decisions.ts';
import {
  type RecordedName,
  type RecordedRequest,
  type RecordedValue,
  recordedNames,
} from '../../schemas/records/request-record.ts';
import { causes } from '../../shared/decision/causes.ts';
import type { Refusal } from '../../shared/decision/refusal.ts';
import { anonymousTier } from '../../shared/snapshot/effect.ts';
import type { OpenOverlay } from '../../shared/snapshot/waves.ts';
import type { EarlyRefusal } from '../http/early-refusal.ts';
import { keptModel } from '../request/model-names.ts';
import { outcomeOf, type RequestRecord, recordedOutcome } from '../request/request-record.ts';

/** State of the gateway and its clocks when a request ends. */
export interface RequestEnd {
  /** Time by the wall clock, in ms since 1970. */
  readonly nowMs: number;
  /** Time by the monotonic clock, in ms. */
  readonly endMs: number;
  readonly position: number;
  /** Staged change whose rows this gateway currently reads instead of the committed ones. */
  readonly overlaid?: OpenOverlay | undefined;
  /** Whether the name belongs to a model in the catalog or the pool, so that it may be recorded. */
  isKnown(model: string): boolean;
}

/** Maximum length of a refusal's message in a record. It is cut because it may quote the caller's text. */
const messageCharactersMax = 300;
const causeCharactersMax = 200;
const faults: readonly unknown[] = keyFaults;

type Reader<Name extends RecordedName> = (record: RequestRecord, moment: RequestEnd) => RecordedValue<Name>;

const readers: { readonly [Name in RecordedName]: Reader<Name> } = {
  request: ({ ids }) => ids.requestId,
  atMs: ({ seen, decidedMs }, { nowMs }) => seen?.atMs || decidedMs || nowMs,
  position: (record, { position }) => record.position ?? position,
  host: ({ target }) => target?.kind,
  stack: ({ target }) => (target?.kind === 'stack' ? target.stack : undefined),
  method: ({ method }) => method,
  operation: ({ operation }) => operation?.kind,
  status: ({ status }) => status,
  served: (record) => outcomeOf(record) === 'served',
  result: (record) => record.refusal?.type ?? (outcomeOf(record) === 'ended' ? 'aborted' : 'ok'),
  type: ({ refusal }) => refusal?.type,
  stage: ({ refusal }) => refusal && causes[refusal.cause].stage,
  cause: ({ refusal }) => refusal && refusalCause(refusal),
  message: ({ refusal }) => refusal && refusalMessage(refusal),
  retryAfterSeconds: ({ refusal }) => refusal?.retryAfterSeconds,
  organisation: ({ caller }) => (caller?.kind === 'key' ? caller.owner.organisation : undefined),
  key: findKey,
  header: (record) => (findKey(record) === undefined ? undefined : record.keyHeader),
  fault: findFault,
  carried: ({ refusal }) => refusal?.cause === 'fenced' || undefined,
  fenced: ({ refusal }) => (refusal && causes[refusal.cause].step === 'fresh') || undefined,
  outboxFull: ({ refusal }) => refusal?.cause === 'outbox full' || undefined,
  visitor: ({ caller }) => (caller?.kind === 'anonymous' ? caller.visitor : undefined),
  model: recordableModel,
  stream: ({ stream }) => stream,
  promptBound: ({ promptCounted, facts }) => promptCounted ?? facts?.promptTokensMax,
  promptLeast: ({ promptCounted, promptLeast }) => (promptCounted === undefined ? promptLeast : undefined),
  counted: ({ promptCounted }) => (promptCounted === undefined ? undefined : 'node'),
  maxTokens: ({ facts }) => facts?.maxTokens,
  promptTokens: ({ outcome }) => (outcome?.kind === 'completed' ? outcome.usage.promptTokens : undefined),
  completionTokens: ({ outcome }) =>
    outcome?.kind === 'completed' ? outcome.usage.completionTokens : undefined,
  capacity: ({ decision }) =>
    decision !== undefined && 'capacity' in decision.placement ? decision.placement.capacity : undefined,
  node: ({ outcome }) => outcome?.node || undefined,
  outcome: recordedOutcome,
  finish: ({ outcome }) =>
    outcome?.kind === 'ended-early' ? `${outcome.by}: ${outcome.reason}` : outcome?.kind,
  accepted: ({ at, startMs }) => tenths(at.accepted, startMs),
  read: ({ at, startMs }) => tenths(at.read, startMs),
  shaped: ({ at, startMs }) => tenths(at.shaped, startMs),
  decided: ({ at, startMs }) => tenths(at.decided, startMs),
  sent: ({ at, startMs }) => tenths(at.sent, startMs),
  begun: ({ at, startMs }) => tenths(at.begun, startMs),
  end: ({ startMs }, { endMs }) => tenths(endMs, startMs),
  windowUsed: ({ seen }) => seen?.windowUsed,
  inFlight: ({ seen }) => seen?.unitsInFlight,
  poolTokens: ({ seen }) => seen?.tokensUsed,
  freeTurns: ({ seen }) => seen?.turnsUsed,
  requests: ({ seen }) => seen?.requests,
  concurrency: ({ seen }) => seen?.concurrency,
  networkTurns: ({ seen }) => seen?.networkTurnsUsed,
  visitorWindow: ({ seen }) => seen?.visitors?.windowUsed,
  visitorsInFlight: ({ seen }) => seen?.visitors?.inFlight,
  visitorTokens: ({ seen }) => seen?.visitors?.tokens,
  visitorRequests: ({ seen }) => seen?.visitors?.requests,
  visitorConcurrency: ({ seen }) => seen?.visitors?.concurrency,
  change: findChange,
};

const inOrder = recordedNames.map((name) => readers[name]);

export function toRecordedRequest(record: RequestRecord, moment: RequestEnd): RecordedRequest {
  const recorded: RecordedRequest[number][] = [];
  // Do not use `map`. V8 treats its result as an array with holes, which takes 50 % longer to write as JSON.
  for (const read of inOrder) recorded.push(read(record, moment));
  // Leave out undefined values at the end, because only few requests have values in the last fields.
  while (recorded.at(-1) === undefined) recorded.pop();
  return recorded;
}

/** Facts about a request that was refused before it was handled. Little is known about it except the refusal. */
export function recordedEarly(
  { requestId, refusal, target }: EarlyRefusal,
  { nowMs, position }: Pick<RequestEnd, 'nowMs' | 'position'>,
): RecordedRequest {
  const known: { readonly [Name in RecordedName]?: RecordedValue<Name> } = {
    request: requestId,
    atMs: nowMs,
    position,
    host: target?.kind,
    stack: target?.kind === 'stack' ? target.stack : undefined,
    status: refusal.status,
    served: false,
    result: refusal.type,
    type: refusal.type,
    stage: 'http',
    cause: refusalCause(refusal),
    message: refusalMessage(refusal),
    retryAfterSeconds: refusal.retryAfterSeconds,
    key: refusal.keyId,
    header: refusal.keyId === undefined ? undefined : 'authorization',
  };
  return recordedNames.map((name) => known[name]);
}

/** Staged change that was tried on this request, if the decision read any of the change's rows. */
function findChange(record: RequestRecord, end: RequestEnd): string | undefined {
  const overlaid = record.position === undefined ? end.overlaid : record.overlaid;
  if (overlaid === undefined) return undefined;
  const { caller, operation, target, refusal } = record;
  const tier = caller?.kind === 'key' ? caller.owner.tier?.id : caller && anonymousTier;
  const model = operation?.kind === 'model' ? operation.model : record.model;
  const stack = target?.kind === 'stack' ? target.stack : undefined;
  const namesTiers = refusal?.type === 'InferenceUpsellError';
  return overlaid.decided({ tier, model, stack, namesTiers }) ? overlaid.change : undefined;
}

function findKey({ caller, refusal }: RequestRecord): string | undefined {
  return caller?.kind === 'key' ? caller.owner.keyId : refusal?.keyId;
}

function findFault({ refusal, caller }: RequestRecord): string | undefined {
  if (refusal?.type !== 'Unauthorized' || caller !== undefined) return undefined;
  // If two different keys were sent, one of them may be known, but the record must not blame that key for the refusal.
  if (refusal.keyId !== undefined && refusal.cause !== 'two different keys') return undefined;
  return faults.includes(refusal.cause) ? refusal.cause : 'missing';
}

function recordableModel(
  { operation, model: asked, decision }: RequestRecord,
  end: RequestEnd,
): string | undefined {
  const model = operation?.kind === 'model' ? operation.model : asked;
  return model === undefined ? undefined : keptModel(model, decision, end);
}

function refusalCause({ reason }: Refusal): string {
  return reason.slice(0, causeCharactersMax);
}

function refusalMessage({ message }: Refusal): string {
  return message.slice(0, messageCharactersMax);
}

function tenths(ms: number | undefined, startMs: number): number | undefined {
  return ms === undefined ? undefined : Math.round((ms - startMs) * 10);
}
