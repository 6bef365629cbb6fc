/**
 * The way of a request, top to bottom: host → authenticate → shape → limits → route → forward → meter.
 * This file has the phases in their order; what a phase waits or searches for is in its own file.
 * Whatever happens, the request is answered once or its connection destroyed, and its lease released once.
 * A phase that is done at once gives its value and no promise: to await one costs each request a turn of the microtasks.
 */
import { operations, surfaceOfPath } from '../../schemas/operations.ts';
import type { Capacity } from '../../schemas/usage.ts';
import { type Admitted, type AdmittedInference, admit } from '../../shared/decision/admission.ts';
import { sharerOf, subjectOf, unauthorized } from '../../shared/decision/authenticate.ts';
import type { Decision, RequestFacts } from '../../shared/decision/decide.ts';
import { cannotTakeNow, Refusal } from '../../shared/decision/refusal.ts';
import { nodeFailed, nodeOfStackFailed, type Target } from '../../shared/decision/route.ts';
import type { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import { type Body, ClientGone } from '../../shared/runtime/request-body.ts';
import { mintRequestId, mintUnique } from '../core/request-id.ts';
import { type ForwardOutcome, forward } from '../forward/forward.ts';
import {
  badHttp,
  credentialHeader,
  idFields,
  pathOf,
  refuseEncoded,
  sendJson,
  sendRefusal,
} from '../http/answers.ts';
import { readBody } from '../http/body.ts';
import type { Exchange } from '../http/exchange.ts';
import { type AskedRequest, leastTokensOf } from '../shape/asked.ts';
import { countTokensBody } from '../surfaces/messages/shape-messages.ts';
import type { AnswerForm } from '../surfaces/surfaces.ts';
import type { NodeChooser } from '../upstream/affinity.ts';
import { nodeChooser } from './choose-node.ts';
import { type Gateway, RequestRecord } from './gateway.ts';
import { SeenCounters } from './seen-counters.ts';
import { type ShapedBody, shapeBody } from './shape-body.ts';
import { answerTokens, type Measured, measure } from './token-budget.ts';
import { reserveOrWait } from './wait-for-room.ts';

/** Subjects by which a visitor and its network are counted in the periods of one moment. */
export interface Visitor {
  readonly id: string;
  readonly network: string;
}

/** How a request came in, where it did not come to the API itself. */
export interface Entry {
  readonly target: Target;
  /** The operation's path, in place of the request's own. */
  readonly path: string;
  /** Of a request without a key: the subjects of its visitor at a moment; undefined where it is none. */
  readonly visitorAt?: ((nowMs: number) => Visitor | undefined) | undefined;
  readonly bodyBytesMax: number;
  /** Throws the refusal of a body that may not come this way. */
  readonly checkBody: (body: ChunkBuffer) => void;
}

/** Handles one request to its end; never rejects. */
export async function handle(
  gateway: Gateway,
  exchange: Exchange,
  fixed: Target | undefined,
  entry?: Entry,
): Promise<void> {
  const { head } = exchange;
  const path = pathOf(head.url);
  const ids = { requestId: mintRequestId(), surface: surfaceOfPath(path) };
  const trace = gateway.trace(head.headers['traceparent']);
  const record = new RequestRecord(exchange, ids, path, trace);
  gateway.begin();
  try {
    await pass(gateway, exchange, record, fixed, entry);
  } catch (error) {
    refuse(gateway, exchange, record, error);
  }
  gateway.observe(record);
}

/** A key that was accepted longer ago is looked up again before the request is decided, ms. */
const acceptedMsMax = 1000;

/** Everything up to the answer; throws a Refusal where there is one. */
async function pass(
  gateway: Gateway,
  exchange: Exchange,
  record: RequestRecord,
  fixed: Target | undefined,
  entry: Entry | undefined,
): Promise<void> {
  const bad = badHttp(exchange);
  if (bad !== undefined) throw bad;
  const head = {
    host: exchange.head.headers.host,
    fixed: entry?.target ?? fixed,
    method: record.method,
    path: entry?.path ?? record.path,
    authorization: credentialHeader(exchange.head, 'authorization'),
    xApiKey: credentialHeader(exchange.head, 'x-api-key'),
  };
  const admitAt = (nowMs: number): Admitted => {
    const visitor = visitorAt(entry, nowMs);
    const asked = visitor === undefined ? head : { ...head, visitor: visitor.id, network: visitor.network };
    return admit(gateway.lookup, gateway.hosts, asked, { fenced: gateway.fenced(), nowMs }, record);
  };
  const proof = gateway.provenSoon();
  if (proof !== undefined) await proof;
  const acceptedMs = gateway.now();
  const admitted = admitAt(acceptedMs);
  record.at.accepted = performance.now();
  if (admitted.kind === 'listing') {
    record.position = gateway.lookup.position();
    record.decidedMs = acceptedMs;
    return sendJson(exchange, record.ids, admitted.body);
  }
  const { operation } = admitted;
  refuseEncoded(exchange.head);
  const owner = sharerOf(subjectOf(admitted.caller));
  const body = await readBody(exchange, gateway.bodies.of(owner), {
    bytesMax: entry?.bodyBytesMax ?? operations[operation.kind].bodyBytesMax,
  });
  checkOrRelease(body, entry);
  record.at.read = performance.now();
  const { bodyWorker, sealKeys } = gateway;
  const shaping = shapeBody(bodyWorker, { operation, body, owner, exchange, sealKeys });
  const shapedBody = shaping instanceof Promise ? await shaping : shaping;
  record.at.shaped = performance.now();
  try {
    const keepsUp = gateway.meter.keepsUp();
    if (keepsUp !== true) await keepsUp;
    const laterProof = gateway.provenSoon();
    if (laterProof !== undefined) await laterProof;
    const nowMs = gateway.now();
    // The larger of two clocks: one may be set back, and the other stops while the machine sleeps.
    const ageMs = Math.max(nowMs - acceptedMs, performance.now() - record.at.accepted);
    // A body may take minutes: meanwhile its key may be revoked or expire, and a visitor's month or day may end.
    const isOld = ageMs > acceptedMsMax || entry?.visitorAt !== undefined;
    const latest = isOld ? admitAt(nowMs) : admitted;
    if (latest.kind === 'inference') await serve(gateway, exchange, record, latest, shapedBody);
  } finally {
    shapedBody.release();
  }
}

/** Throws where there must be a visitor and is none. */
function visitorAt(entry: Entry | undefined, nowMs: number): Visitor | undefined {
  if (entry?.visitorAt === undefined) return undefined;
  const visitor = entry.visitorAt(nowMs);
  if (visitor === undefined) throw unauthorized('no visitor');
  return visitor;
}

function checkOrRelease(body: Body, entry: Entry | undefined): void {
  try {
    entry?.checkBody(body.bytes);
  } catch (error) {
    body.release();
    throw error;
  }
}

/** Limits, route, forward and meter of a shaped request. */
async function serve(
  gateway: Gateway,
  exchange: Exchange,
  record: RequestRecord,
  { target, caller }: AdmittedInference,
  { shaped, discard, release }: ShapedBody,
): Promise<void> {
  const { asked, form, surface } = shaped;
  const { model, stream, maxTokens } = asked;
  record.model = model;
  record.stream = stream;
  const facts: RequestFacts = {
    target,
    caller,
    model,
    surface,
    promptTokens: asked.promptBytes,
    maxTokens,
    onlyCounts: form === undefined,
    reranks: asked.kind === 'rerank',
    // Few requests need it, and it reads all text.
    promptTokensLeast: () => {
      record.promptLeast = leastTokensOf(asked);
      return record.promptLeast;
    },
  };
  record.facts = facts;
  record.seen = new SeenCounters(gateway.counters);
  const isLoaded = loadUsage(gateway, facts);
  if (isLoaded !== true && !(await isLoaded)) throw cannotTakeNow('usage unknown');
  const reserved = reserveOrWait(gateway, facts, exchange, record.seen);
  const reservation = reserved instanceof Promise ? await reserved : reserved;
  // A node may take seconds to count the prompt, and meanwhile the state changes.
  record.position = gateway.lookup.position();
  const { decision, lease } = reservation;
  const { placement } = decision;
  const choose = nodeChooser(gateway, facts, decision, asked);
  try {
    if (placement instanceof Refusal) {
      noteDecision(record, decision);
      throw placement;
    }
    const measuring = measure(gateway, reservation, shaped, placement, choose, record);
    const measured = measuring instanceof Promise ? await measuring : measuring;
    noteDecision(record, decision);
    if (form === undefined)
      return sendJson(exchange, record.ids, JSON.stringify(countTokensBody(measured.tokens)));
    const outcome = await send(gateway, exchange, record, {
      facts,
      asked,
      form,
      decision,
      measured,
      choose,
      cacheSalt: placement.capacity === 'pool' ? gateway.cacheSalts?.of(decision.subject) : undefined,
      discard,
      release,
    });
    record.outcome = outcome;
    const billed = { tier: decision.tier, total: decision.total, capacity: placement.capacity };
    meter(gateway, record, facts, billed, outcome);
  } finally {
    lease.release();
  }
}

function noteDecision(record: RequestRecord, decision: Decision): void {
  record.decision = decision;
  record.at.decided = performance.now();
}

/** The caller's usage must be known before the decision; only its first request in a while waits for it. */
function loadUsage({ meter, now }: Gateway, { caller, target }: RequestFacts): true | Promise<boolean> {
  // Only the pool draws on an allowance.
  if (target.kind === 'stack') return true;
  if (caller.kind === 'key') return meter.loadTotal(caller.owner, now());
  return meter.loadTotal(caller, caller.admittedMs ?? now());
}

interface PlacedRequest {
  readonly facts: RequestFacts;
  readonly asked: AskedRequest;
  readonly form: AnswerForm;
  readonly decision: Decision;
  readonly measured: Measured;
  readonly choose: NodeChooser;
  readonly cacheSalt: string | undefined;
  readonly discard: ShapedBody['discard'];
  readonly release: ShapedBody['release'];
}

async function send(
  gateway: Gateway,
  exchange: Exchange,
  record: RequestRecord,
  { facts, asked, form, decision, measured, choose, cacheSalt, discard, release }: PlacedRequest,
): Promise<ForwardOutcome> {
  const { answer: client } = exchange;
  if (asked.stream) gateway.streams.open++;
  try {
    return await forward({
      asked,
      form,
      candidates: measured.candidates,
      tier: decision.tier.id,
      maxTokensFor: (route) => answerTokens(measured.budgetFor(route)),
      client,
      fields: idFields(record.ids),
      onSent: () => {
        record.at.sent = performance.now();
        discard();
      },
      ids: { unique: mintUnique(), createdSeconds: Math.floor(gateway.now() / 1000) },
      settings: gateway.forwarding,
      pools: gateway.pools,
      load: gateway.load,
      choose,
      cacheSalt,
      traceparent: record.trace?.traceparent,
      bodyWorker: gateway.bodyWorker,
      owner: sharerOf(decision.subject),
      onTaken: release,
      onNodeFailure: facts.target.kind === 'stack' ? nodeOfStackFailed : nodeFailed,
    });
  } finally {
    record.at.begun = client.startedMs;
    if (asked.stream) gateway.streams.open--;
  }
}

type BilledDecision = Pick<Decision, 'tier' | 'total'> & { readonly capacity: Capacity };

/**
 * Usage is recorded only of what was completed (Events). What a node had done for a visitor who stopped it counts in what all
 * visitors may use, and is no usage. Times are from the arrival of the request to the first byte of its answer and to its end.
 */
function meter(
  gateway: Gateway,
  { ids, startMs, at }: RequestRecord,
  { caller, target, model }: RequestFacts,
  { tier, total, capacity }: BilledDecision,
  outcome: ForwardOutcome,
): void {
  const isVisitor = caller.kind === 'anonymous';
  const isCompleted = outcome.kind === 'completed';
  const used = isCompleted ? outcome.usage : isVisitor ? outcome.spent : undefined;
  if (used === undefined) return;
  gateway.meter.record({
    owner: isVisitor
      ? { visitor: caller.visitor, network: caller.network }
      : { organisation: caller.owner.organisation, anchor: caller.owner.anchor },
    admittedMs: isVisitor ? caller.admittedMs : undefined,
    unfinished: isCompleted ? undefined : true,
    capacity,
    model,
    stack: target.kind === 'stack' ? target.stack : undefined,
    promptTokens: used.promptTokens,
    completionTokens: used.completionTokens,
    estimated: used.estimated,
    requestId: ids.requestId,
    monthlyTokens: tier.monthlyTokens,
    tokensPerDay: total?.tokensPerDay ?? null,
    key: isVisitor ? undefined : caller.owner.keyId,
    ttftMs: at.begun === undefined ? undefined : at.begun - startMs,
    durationMs: performance.now() - startMs,
    atMs: gateway.now(),
  });
}

function refuse(gateway: Gateway, exchange: Exchange, record: RequestRecord, error: unknown): void {
  const { ids, path } = record;
  record.decidedMs = gateway.now();
  if (error instanceof ClientGone) {
    record.outcome = { kind: 'ended-early', node: '', by: 'client', reason: error.message };
    exchange.abort();
    return;
  }
  if (!(error instanceof Refusal))
    gateway.logger.error({ err: error, requestId: ids.requestId }, 'request failed');
  const refusal =
    error instanceof Refusal ? error : new Refusal('fault', 'The service failed to handle this request.');
  record.refusal = refusal;
  if (exchange.answer.startedMs !== undefined) {
    exchange.abort();
    return;
  }
  sendRefusal(exchange, ids, refusal, path);
  exchange.discardBody();
}
