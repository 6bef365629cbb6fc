/**
 * Handles one request, in phases: head, body, decision, node, answer, record. Each request is either answered exactly once or
 * its connection is destroyed, and its lease is released exactly once. A phase that can end at once must return a value and
 * not a promise, because each `await` delays the request.
 */
import { operations, pathSurface } from '../../schemas/api/operations.ts';
import type { Ender } from '../../schemas/records/verdict.ts';
import { type AdmittedInference, requestFacts } from '../../shared/decision/admission.ts';
import { limitSubject, memorySharer } from '../../shared/decision/authenticate.ts';
import type { Decision, RequestFacts } from '../../shared/decision/decide.ts';
import { cannotTakeNow, Refusal } from '../../shared/decision/refusal.ts';
import { nodeFailed, nodeOfStackFailed, type Placement, type Target } from '../../shared/decision/route.ts';
import { ClientGone } from '../../shared/runtime/body-pieces.ts';
import { idFields, refuseEncoded, sendJson, sendRefusal, targetPath } from '../http/answers.ts';
import type { Exchange } from '../http/exchange.ts';
import type { NodeChooser } from '../nodes/affinity.ts';
import { type ForwardOutcome, forward } from '../nodes/forward.ts';
import { type AskedRequest, lowerTokenBound } from '../surfaces/common/asked.ts';
import { mintRequestId, mintUnique } from '../surfaces/common/request-id.ts';
import { countTokensBody } from '../surfaces/messages/shape-messages.ts';
import { type Authenticator, authenticateByKey, type RequestAdmission } from './admission.ts';
import { nodeChooser } from './choose-node.ts';
import type { Gateway } from './gateway.ts';
import { loadUsage, type MeteredDecision, recordUsage } from './record-usage.ts';
import { RequestRecord } from './request-record.ts';
import { type Reservation, reserveOrWait } from './reserve.ts';
import { SeenCounters } from './seen-counters.ts';
import { type ShapedBody, shapeBody } from './shape-body.ts';
import { answerTokens, measure, type RequestMeasure } from './token-budget.ts';

/** Handles one request completely. Never rejects. */
export async function handle(
  gateway: Gateway,
  exchange: Exchange,
  target: Target | undefined,
  authenticate: Authenticator = authenticateByKey,
): Promise<void> {
  const { head } = exchange;
  const path = targetPath(head.url);
  const ids = { requestId: mintRequestId(), surface: pathSurface(path) };
  const trace = gateway.trace(head.headers['traceparent']);
  const record = new RequestRecord(exchange, ids, path, trace);
  gateway.begin();
  try {
    await pass(gateway, exchange, record, authenticate(gateway, exchange, record, target));
  } catch (error) {
    refuse(gateway, exchange, record, error);
  }
  gateway.observe(record);
}

/** Runs the phases of a request. Throws a `Refusal` if the request is refused. */
async function pass(
  gateway: Gateway,
  exchange: Exchange,
  record: RequestRecord,
  admission: RequestAdmission,
): Promise<void> {
  const proof = gateway.awaitFreshProof();
  if (proof !== undefined) await proof;
  const acceptedMs = gateway.now();
  const admitted = admission.admit(acceptedMs);
  if (admitted.kind === 'listing') {
    record.position = gateway.lookup.position();
    record.overlaid = gateway.lookup.overlaid();
    record.decidedMs = acceptedMs;
    return sendOwn(exchange, record, admitted.body);
  }
  refuseEncoded(exchange.head);

  const { operation } = admitted;
  const owner = memorySharer(limitSubject(admitted.caller));
  const body = await admission.readBody(gateway.bodies.of(owner), operations[operation.kind].bodyBytesMax);
  record.at.read = performance.now();
  const { bodyWorker, sealKeys } = gateway;
  const shaping = shapeBody(bodyWorker, { operation, body, owner, exchange, sealKeys });
  const shapedBody = shaping instanceof Promise ? await shaping : shaping;
  record.at.shaped = performance.now();
  try {
    const { asked } = shapedBody.shaped;
    const reservation = await decideAndReserve(gateway, exchange, record, asked, admission);
    const { facts, decision, lease } = reservation;
    try {
      const placement = recordPlacement(record, decision);
      const choose = nodeChooser(gateway, reservation, placement, asked);
      const measuring = measure(gateway, reservation, asked, placement, choose, record);
      const measured = measuring instanceof Promise ? await measuring : measuring;
      noteDecision(record, decision);

      if (facts.onlyCounts)
        return sendOwn(exchange, record, JSON.stringify(countTokensBody(measured.tokens)));
      const placed = { facts, decision, capacity: placement.capacity, measured, choose };
      const sent = await send(gateway, exchange, record, placed, shapedBody);
      const outcome = attributeEnd(exchange, sent);
      record.outcome = outcome;
      recordUsage(gateway, record, placed, outcome);
    } finally {
      lease.release();
    }
  } finally {
    shapedBody.release();
  }
}

/** Decides a request once all that the decision needs is known. If a limit has no room, the request may wait for it. */
async function decideAndReserve(
  gateway: Gateway,
  exchange: Exchange,
  record: RequestRecord,
  asked: AskedRequest,
  admission: RequestAdmission,
): Promise<Reservation> {
  const meterCapacity = gateway.meter.awaitMeterCapacity();
  if (meterCapacity !== true) await meterCapacity;
  const proof = gateway.awaitFreshProof();
  if (proof !== undefined) await proof;
  const facts = noteFacts(record, admission.again(gateway.now()), asked);
  const seen = new SeenCounters(gateway.counters);
  record.seen = seen;
  const isLoaded = loadUsage(gateway, facts);
  if (isLoaded !== true && !(await isLoaded)) throw cannotTakeNow('usage unknown');
  const reserving = reserveOrWait(gateway, facts, exchange, seen);
  const reservation = reserving instanceof Promise ? await reserving : reserving;
  // Store the position now, because the state may change while a node counts the prompt, which can take seconds.
  record.position = gateway.lookup.position();
  record.overlaid = gateway.lookup.overlaid();
  return reservation;
}

/** Collects the facts about the request that the decision depends on. */
function noteFacts(record: RequestRecord, admitted: AdmittedInference, asked: AskedRequest): RequestFacts {
  const facts = requestFacts(admitted, {
    model: asked.model,
    promptTokensMax: asked.promptBytes,
    maxTokens: asked.maxTokens,
    // Compute this bound only when needed: few requests need it, and it reads the whole prompt.
    promptTokensLeast: () => {
      record.promptLeast = lowerTokenBound(asked);
      return record.promptLeast;
    },
  });
  record.model = asked.model;
  record.stream = asked.stream;
  record.facts = facts;
  return facts;
}

function noteDecision(record: RequestRecord, decision: Decision): void {
  record.decision = decision;
  record.at.decided = performance.now();
}

/** Stores the decision and returns the placement. Throws the refusal if the request was not routed. */
function recordPlacement(record: RequestRecord, decision: Decision): Placement {
  const { placement } = decision;
  if (!(placement instanceof Refusal)) return placement;
  noteDecision(record, decision);
  throw placement;
}

interface PlacedRequest extends MeteredDecision {
  readonly measured: RequestMeasure;
  readonly choose: NodeChooser;
}

function send(
  gateway: Gateway,
  { answer: client }: Exchange,
  record: RequestRecord,
  { facts, decision, capacity, measured, choose }: PlacedRequest,
  body: ShapedBody,
): Promise<ForwardOutcome> {
  const { asked, form } = body.shaped;
  if (form === undefined) throw new Error('a request that only counts tokens has no answer of a node');
  return forward(gateway, {
    asked,
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
    owner: memorySharer(decision.subject),
    onNodeFailure: facts.target.kind === 'stack' ? nodeOfStackFailed : nodeFailed,
    onOddForm: (node, oddForm) => {
      record.oddForm = `${node} ${facts.model}: ${oddForm}`;
    },
  });
}

/** If the gateway itself cut off the request, blames the gateway, not the client. Throws if no response had begun. */
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

/** Sends a response that comes from the gateway itself, not from a node. */
function sendOwn(exchange: Exchange, { ids }: RequestRecord, body: string): void {
  if (exchange.isGone) throw new ClientGone('the client left before its answer');
  sendJson(exchange, ids, body);
}
