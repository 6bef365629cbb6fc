/**
 * The way of one request, top to bottom: head → body → decision → node → answer → record. `pass` has all phases in their
 * order; what a phase waits or searches for is below it or in its own file.
 * Whatever happens, the request is answered once or its connection destroyed, and its lease released once.
 * A phase that is done at once gives its value and no promise: to await one costs each request a turn of the microtasks.
 */
import { operations, surfaceOfPath } from '../../schemas/api/operations.ts';
import type { Capacity } from '../../schemas/records/usage.ts';
import type { Ender } from '../../schemas/records/verdict.ts';
import { type Admitted, admit } from '../../shared/decision/admission.ts';
import { sharerOf, subjectOf, unauthorized } from '../../shared/decision/authenticate.ts';
import type { Decision, RequestFacts } from '../../shared/decision/decide.ts';
import { cannotTakeNow, Refusal } from '../../shared/decision/refusal.ts';
import { nodeFailed, nodeOfStackFailed, type Placement, type Target } from '../../shared/decision/route.ts';
import type { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import { type Body, ClientGone } from '../../shared/runtime/request-body.ts';
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
import type { NodeChooser } from '../nodes/affinity.ts';
import { type ForwardOutcome, forward } from '../nodes/forward.ts';
import { leastTokensOf } from '../surfaces/common/asked.ts';
import { mintRequestId, mintUnique } from '../surfaces/common/request-id.ts';
import { countTokensBody } from '../surfaces/messages/shape-messages.ts';
import type { AnswerForm, Shaped } from '../surfaces/surfaces.ts';
import { nodeChooser } from './choose-node.ts';
import { type Gateway, RequestRecord } from './gateway.ts';
import { type Reservation, reserveOrWait } from './reserve.ts';
import { SeenCounters } from './seen-counters.ts';
import { type ShapedBody, shapeBody } from './shape-body.ts';
import { answerTokens, type Measured, measure } from './token-budget.ts';

/** Subjects by which a visitor and its network are counted in the periods of one moment. */
export interface Visitor {
  readonly id: string;
  readonly network: string;
}

/** How a request came in; all but the target only where it did not come to the API itself. */
export interface Entry {
  /** Undefined: the host selects it. */
  readonly target: Target | undefined;
  /** The operation's path, in place of the request's own. */
  readonly path?: string;
  /** Of a request without a key: the subjects of its visitor at a moment; undefined where it is none. */
  readonly visitorAt?: ((nowMs: number) => Visitor | undefined) | undefined;
  readonly bodyBytesMax?: number;
  /** Throws the refusal of a body that may not come this way. */
  readonly checkBody?: (body: ChunkBuffer) => void;
}

/** Handles one request to its end; never rejects. */
export async function handle(
  gateway: Gateway,
  exchange: Exchange,
  fixed: Target | undefined,
  entry: Entry = { target: fixed },
): Promise<void> {
  const { head } = exchange;
  const path = pathOf(head.url);
  const ids = { requestId: mintRequestId(), surface: surfaceOfPath(path) };
  const trace = gateway.trace(head.headers['traceparent']);
  const record = new RequestRecord(exchange, ids, path, trace);
  gateway.begin();
  try {
    await pass(gateway, exchange, record, entry);
  } catch (error) {
    refuse(gateway, exchange, record, error);
  }
  gateway.observe(record);
}

/** The whole way of a request that is answered; throws a Refusal where it is refused. */
async function pass(
  gateway: Gateway,
  exchange: Exchange,
  record: RequestRecord,
  entry: Entry,
): Promise<void> {
  // The head: who asks, and for which operation.
  const admitAt = admission(gateway, exchange, record, entry);
  const proof = gateway.provenSoon();
  if (proof !== undefined) await proof;
  const acceptedMs = gateway.now();
  const admitted = admitAt(acceptedMs);
  record.at.accepted = performance.now();
  if (admitted.kind === 'listing') {
    record.position = gateway.lookup.position();
    record.overlaid = gateway.lookup.overlaid();
    record.decidedMs = acceptedMs;
    return sendOwn(exchange, record, admitted.body);
  }
  refuseEncoded(exchange.head);

  // The body: what is asked.
  const { operation } = admitted;
  const owner = sharerOf(subjectOf(admitted.caller));
  const bytesMax = entry.bodyBytesMax ?? operations[operation.kind].bodyBytesMax;
  const body = await readBody(exchange, gateway.bodies.of(owner), { bytesMax });
  checkOrRelease(body, entry);
  record.at.read = performance.now();
  const { bodyWorker, sealKeys } = gateway;
  const shaping = shapeBody(bodyWorker, { operation, body, owner, exchange, sealKeys });
  const shapedBody = shaping instanceof Promise ? await shaping : shaping;
  record.at.shaped = performance.now();
  try {
    // The decision: a place in the limits, and the nodes that may be asked.
    const { shaped } = shapedBody;
    const admittedAt = (nowMs: number): Admitted =>
      isOld(record, entry, nowMs - acceptedMs) ? admitAt(nowMs) : admitted;
    const reservation = await decided(gateway, exchange, record, shaped, admittedAt);
    const { facts, decision, lease } = reservation;
    try {
      // The node: which of them, and how long its answer may be.
      const placement = placementOf(record, decision);
      const choose = nodeChooser(gateway, reservation, placement, shaped.asked);
      const measuring = measure(gateway, reservation, shaped, placement, choose, record);
      const measured = measuring instanceof Promise ? await measuring : measuring;
      noteDecision(record, decision);

      // The answer, and the record of what it used.
      if (shaped.form === undefined)
        return sendOwn(exchange, record, JSON.stringify(countTokensBody(measured.tokens)));
      const placed = { facts, decision, capacity: placement.capacity, measured, choose };
      const sent = await send(gateway, exchange, record, placed, shapedBody, shaped.form);
      const outcome = attributeEnd(exchange, sent);
      record.outcome = outcome;
      meter(gateway, record, placed, outcome);
    } finally {
      lease.release();
    }
  } finally {
    shapedBody.release();
  }
}

/** Admits the head at a moment, as often as it is asked to. Throws where the head is no HTTP that can be read in one way. */
function admission(
  gateway: Gateway,
  exchange: Exchange,
  record: RequestRecord,
  entry: Entry,
): (nowMs: number) => Admitted {
  const bad = badHttp(exchange);
  if (bad !== undefined) throw bad;
  const head = {
    host: exchange.head.headers.host,
    fixed: entry.target,
    method: record.method,
    path: entry.path ?? record.path,
    authorization: credentialHeader(exchange.head, 'authorization'),
    xApiKey: credentialHeader(exchange.head, 'x-api-key'),
  };
  const { visitorAt } = entry;
  return (nowMs) => {
    const fenced = gateway.fenced();
    if (visitorAt === undefined) return admit(gateway.lookup, gateway.hosts, head, { fenced, nowMs }, record);
    // Visitors have no key that could expire, and their days and months follow the log's time.
    const logMs = gateway.logNow();
    const visitor = visitorAt(logMs);
    if (visitor === undefined) throw unauthorized('no visitor');
    const asked = { ...head, visitor: visitor.id, network: visitor.network };
    return admit(gateway.lookup, gateway.hosts, asked, { fenced, nowMs: logMs }, record);
  };
}

function checkOrRelease(body: Body, { checkBody }: Entry): void {
  try {
    checkBody?.(body.bytes);
  } catch (error) {
    body.release();
    throw error;
  }
}

/** A key that was accepted longer ago is looked up again before the request is decided, ms. */
const acceptedMsMax = 1000;

/** A body may take minutes: meanwhile its key may be revoked or expire, and a visitor's month or day may end. */
function isOld({ at }: RequestRecord, { visitorAt }: Entry, wallMs: number): boolean {
  // The larger of two clocks: one may be set back, and the other stops while the machine sleeps.
  const ageMs = Math.max(wallMs, performance.now() - (at.accepted ?? 0));
  return ageMs > acceptedMsMax || visitorAt !== undefined;
}

/** Decides as soon as all is known that the decision depends on. A request that finds no room may wait for it. */
async function decided(
  gateway: Gateway,
  exchange: Exchange,
  record: RequestRecord,
  { asked, form, surface }: Shaped,
  admittedAt: (nowMs: number) => Admitted,
): Promise<Reservation> {
  const keepsUp = gateway.meter.keepsUp();
  if (keepsUp !== true) await keepsUp;
  const proof = gateway.provenSoon();
  if (proof !== undefined) await proof;
  const admitted = admittedAt(gateway.now());
  if (admitted.kind === 'listing') throw new Error('a listing has no body');
  const { model, stream, maxTokens } = asked;
  const facts: RequestFacts = {
    target: admitted.target,
    caller: admitted.caller,
    model,
    surface,
    promptTokensMax: asked.promptBytes,
    maxTokens,
    onlyCounts: form === undefined,
    reranks: asked.kind === 'rerank',
    // Few requests need it, and it reads all text.
    promptTokensLeast: () => {
      record.promptLeast = leastTokensOf(asked);
      return record.promptLeast;
    },
  };
  const seen = new SeenCounters(gateway.counters);
  record.model = model;
  record.stream = stream;
  record.facts = facts;
  record.seen = seen;
  const isLoaded = loadUsage(gateway, facts);
  if (isLoaded !== true && !(await isLoaded)) throw cannotTakeNow('usage unknown');
  const reserving = reserveOrWait(gateway, facts, exchange, seen);
  const reservation = reserving instanceof Promise ? await reserving : reserving;
  // A node may take seconds to count the prompt, and meanwhile the state changes.
  record.position = gateway.lookup.position();
  record.overlaid = gateway.lookup.overlaid();
  return reservation;
}

/** The caller's usage must be known before the decision; only its first request in a while waits for it. */
function loadUsage({ meter, logNow }: Gateway, { caller, target }: RequestFacts): true | Promise<boolean> {
  // Only the pool draws on an allowance.
  if (target.kind === 'stack') return true;
  if (caller.kind === 'key') return meter.loadTotal(caller.owner, logNow());
  return meter.loadTotal(caller, caller.admittedMs ?? logNow());
}

function noteDecision(record: RequestRecord, decision: Decision): void {
  record.decision = decision;
  record.at.decided = performance.now();
}

/** Throws the router's refusal, where that is what was decided. */
function placementOf(record: RequestRecord, decision: Decision): Placement {
  const { placement } = decision;
  if (!(placement instanceof Refusal)) return placement;
  noteDecision(record, decision);
  throw placement;
}

interface PlacedRequest {
  readonly facts: RequestFacts;
  readonly decision: Decision;
  readonly capacity: Capacity;
  readonly measured: Measured;
  readonly choose: NodeChooser;
}

function send(
  gateway: Gateway,
  { answer: client }: Exchange,
  record: RequestRecord,
  { facts, decision, capacity, measured, choose }: PlacedRequest,
  body: ShapedBody,
  form: AnswerForm,
): Promise<ForwardOutcome> {
  return forward(gateway, {
    asked: body.shaped.asked,
    form,
    body,
    candidates: measured.candidates,
    tier: decision.tier.id,
    maxTokensFor: (route) => answerTokens(measured.budgetFor(route)),
    client,
    fields: idFields(record.ids),
    ids: { unique: mintUnique(), createdSeconds: Math.floor(gateway.now() / 1000) },
    at: record.at,
    choose,
    cacheSalt: capacity === 'pool' ? gateway.cacheSalts?.of(decision.subject) : undefined,
    traceparent: record.trace?.traceparent,
    owner: sharerOf(decision.subject),
    onNodeFailure: facts.target.kind === 'stack' ? nodeOfStackFailed : nodeFailed,
    onOddForm: (node, oddForm) => {
      record.oddForm = `${node} ${facts.model}: ${oddForm}`;
    },
  });
}

/**
 * Usage is recorded only of what was completed (Events). What a node had done for a visitor who stopped it counts in what all
 * visitors may use, and is no usage. Times are from the arrival of the request to the first byte of its answer and to its end.
 */
function meter(
  gateway: Gateway,
  { ids, startMs, at }: RequestRecord,
  { facts: { caller, target, model }, decision: { tier, total }, capacity }: PlacedRequest,
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
    atMs: gateway.logNow(),
  });
}

/** Attributes a request that the gateway cut off to the gateway, not to the client. Throws the refusal if the answer had not begun. */
function attributeEnd({ cut, startedMs }: Exchange, outcome: ForwardOutcome): ForwardOutcome {
  if (cut === undefined || outcome.kind === 'completed') return outcome;
  if (startedMs === undefined) throw cut;
  return { ...outcome, by: 'gateway', reason: cut.reason };
}

function refuse(gateway: Gateway, exchange: Exchange, record: RequestRecord, thrown: unknown): void {
  const error = thrown instanceof ClientGone ? (exchange.cut ?? thrown) : thrown;
  const { ids, path } = record;
  record.decidedMs = gateway.now();
  if (error instanceof ClientGone) {
    endEarly(exchange, record, 'client', error.message);
    return;
  }
  if (!(error instanceof Refusal))
    gateway.logger.error({ err: error, requestId: ids.requestId }, 'request failed');
  const refusal =
    error instanceof Refusal ? error : new Refusal('fault', 'The service failed to handle this request.');
  record.refusal = refusal;
  if (exchange.answer.startedMs !== undefined) {
    endEarly(exchange, record, 'gateway', 'the gateway failed within the answer');
    return;
  }
  sendRefusal(exchange, ids, refusal, path);
  exchange.discardBody();
}

function endEarly(exchange: Exchange, record: RequestRecord, by: Ender, reason: string): void {
  record.outcome = { kind: 'ended-early', node: '', by, reason };
  exchange.abort();
}

/** Sends an answer that the gateway itself makes. */
function sendOwn(exchange: Exchange, { ids }: RequestRecord, body: string): void {
  if (exchange.isGone) throw new ClientGone('the client left before its answer');
  sendJson(exchange, ids, body);
}
