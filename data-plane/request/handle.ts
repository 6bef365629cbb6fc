/**
 * The way of a request, top to bottom: host → authenticate → shape → limits → route → forward → meter.
 * This file holds all of its control flow; the phases beside it are small and never call each other.
 * Whatever happens, the request is answered once or its connection destroyed, and its lease released once.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Target } from '../../shared/decision/address.ts';
import { type Admitted, admit } from '../../shared/decision/admission.ts';
import type { Decision, RequestFacts } from '../../shared/decision/decide.ts';
import { cannotTakeNow, Refusal } from '../../shared/decision/refusal.ts';
import { type Placement, targetNotServing, unavailable } from '../../shared/decision/route.ts';
import { mintMessageId } from '../answer/message-parts.ts';
import { ownerOf } from '../core/byte-budget.ts';
import { mintCompletionId, mintRequestId } from '../core/request-id.ts';
import { ClientResponse } from '../forward/client-response.ts';
import { type Forwarded, type ForwardOutcome, forward } from '../forward/forward.ts';
import { countTokensBody } from '../shape/anthropic.ts';
import type { Shaped } from '../shape/shape-operation.ts';
import { ClientGone, readBody } from './body.ts';
import type { Exchange, Gateway } from './gateway.ts';
import {
  answerHeaders,
  askForBody,
  checkHttp,
  discardRest,
  oneHeader,
  pathOf,
  refuseEncoded,
  sendJson,
  sendRefusal,
} from './http.ts';
import { answerTokens, type Measured, measure, reserve } from './reserve.ts';
import { shapeBody } from './shape-body.ts';

/** Handles one exchange to its end; never rejects. */
export async function handle(
  gateway: Gateway,
  request: IncomingMessage,
  response: ServerResponse,
  fixed: Target | undefined,
): Promise<void> {
  const path = pathOf(request.url);
  const ids = { requestId: mintRequestId(), anthropicPath: path.startsWith('/v1/messages') };
  const exchange: Exchange = { request, response, ids, path, startMs: performance.now(), at: {} };
  gateway.begin();
  try {
    await pass(gateway, exchange, fixed);
  } catch (error) {
    refuse(gateway, exchange, error);
  }
  gateway.observe(exchange);
}

/** A key that was accepted longer ago is looked up again before the request is decided, ms. */
const acceptedMsMax = 1000;

/** Everything up to the answer; throws a Refusal where there is one. */
async function pass(gateway: Gateway, exchange: Exchange, fixed: Target | undefined): Promise<void> {
  const { request, response } = exchange;
  checkHttp(request);
  const head = {
    host: request.headers.host,
    fixed,
    method: request.method ?? '',
    path: exchange.path,
    authorization: request.headers.authorization,
    xApiKey: oneHeader(request, 'x-api-key'),
  };
  const admitAt = (nowMs: number): Admitted =>
    admit(gateway.lookup, gateway.hosts, head, { fenced: gateway.fenced(), nowMs }, exchange);
  const acceptedMs = gateway.now();
  const admitted = admitAt(acceptedMs);
  exchange.at.accepted = performance.now();
  if (admitted.kind === 'listing') {
    exchange.position = gateway.lookup.position();
    return sendJson(response, exchange.ids, 200, admitted.body);
  }
  const { operation } = admitted;
  refuseEncoded(request);
  const owner = ownerOf(admitted.caller);
  const body = await readBody(request, gateway.bodies.of(owner), () => askForBody(request, response));
  exchange.at.read = performance.now();
  const { shaped, release } = await shapeBody(gateway.bodyWorker, { operation, body, owner, response });
  exchange.at.shaped = performance.now();
  exchange.releaseText = release;
  try {
    const nowMs = gateway.now();
    // The larger of two clocks: one may be set back, and the other stands still while the machine sleeps.
    const ageMs = Math.max(nowMs - acceptedMs, exchange.at.shaped - exchange.at.accepted);
    // A body may take minutes, and its key may be revoked or expire meanwhile.
    const latest = ageMs > acceptedMsMax ? admitAt(nowMs) : admitted;
    if (latest.kind === 'inference') await serve(gateway, exchange, latest.caller, shaped);
  } finally {
    release();
  }
}

/** Limits, route, forward and meter of a shaped request. */
async function serve(
  gateway: Gateway,
  exchange: Exchange,
  caller: RequestFacts['caller'],
  shaped: Shaped,
): Promise<void> {
  const { model, stream, surface, maxTokens, inner } = shaped;
  exchange.model = model;
  exchange.stream = stream;
  const target = exchange.target as Target;
  const facts: RequestFacts = {
    ...{ target, caller, model, surface, promptTokens: inner.promptBytes, maxTokens },
    get promptTokensLeast() {
      return inner.leastTokens;
    },
  };
  const known = knowsUsage(gateway, facts);
  if (known !== true && !(await known)) throw cannotTakeNow('usage unknown');
  const reservation = reserve(gateway, facts);
  const { decision, lease } = reservation;
  const { placement } = decision;
  try {
    const measured =
      placement instanceof Refusal ? undefined : await measure(gateway, reservation, shaped, placement);
    exchange.decision = decision;
    exchange.at.decided = performance.now();
    exchange.position = gateway.lookup.position();
    if (placement instanceof Refusal) throw placement;
    if (measured === undefined) return;
    if (shaped.forwarded === undefined)
      return sendJson(exchange.response, exchange.ids, 200, JSON.stringify(countTokensBody(measured.tokens)));
    exchange.outcome = await send(gateway, exchange, shaped, shaped.forwarded, decision, measured);
    meter(gateway, exchange, placement);
  } finally {
    lease.release();
  }
}

/** What the caller has used has to be at hand before it is decided on; only its first request in a while waits for it. */
function knowsUsage({ meter, now }: Gateway, { caller, target }: RequestFacts): true | Promise<boolean> {
  // Only the pool draws on an allowance.
  if (target.kind === 'stack') return true;
  return meter.loadTotal(caller.kind === 'key' ? caller.owner : caller, now());
}

async function send(
  gateway: Gateway,
  exchange: Exchange,
  { surface }: Shaped,
  forwarded: Forwarded,
  decision: Decision,
  { candidates, budgetFor }: Measured,
): Promise<ForwardOutcome> {
  const client = new ClientResponse(exchange.response, { headers: answerHeaders(exchange.ids) });
  if (exchange.stream) gateway.streams.open++;
  try {
    return await forward({
      request: forwarded,
      candidates,
      tier: decision.tier.id,
      maxTokensFor: (route) => answerTokens(budgetFor(route)),
      client,
      onSent: () => {
        exchange.at.sent = performance.now();
      },
      ids: {
        responseId: surface === 'anthropic' ? mintMessageId() : mintCompletionId(),
        createdSeconds: Math.floor(gateway.now() / 1000),
      },
      settings: gateway.forwarding,
      pools: gateway.pools,
      load: gateway.load,
      bodyWorker: gateway.bodyWorker,
      owner: ownerOf(exchange.caller as RequestFacts['caller']),
      onAnswer: () => exchange.releaseText?.(),
      onNodeFailure: (reason: string) =>
        exchange.target?.kind === 'stack' ? targetNotServing(reason) : unavailable(reason),
    });
  } finally {
    exchange.at.begun = client.startedMs;
    if (exchange.stream) gateway.streams.open--;
  }
}

/** Usage is recorded only of what was completed (Events). */
function meter(gateway: Gateway, exchange: Exchange, placement: Placement): void {
  const { outcome, caller, target, ids } = exchange;
  if (outcome?.kind !== 'completed' || !caller || caller.kind === 'nobody') return;
  const { promptTokens: prompt, completionTokens, estimated } = outcome.usage;
  gateway.meter.recordCompleted({
    owner:
      caller.kind === 'key'
        ? { organisation: caller.owner.organisation, anchor: caller.owner.anchor }
        : { visitor: caller.visitor },
    draw: placement.capacity,
    model: exchange.model ?? '',
    ...(target?.kind === 'stack' && { stack: target.stack }),
    promptTokens: prompt,
    completionTokens,
    ...(estimated && { estimated }),
    requestId: ids.requestId,
    atMs: gateway.now(),
  });
}

function refuse(gateway: Gateway, exchange: Exchange, error: unknown): void {
  const { request, response, ids, path } = exchange;
  if (error instanceof ClientGone) {
    exchange.outcome = { kind: 'ended-early', node: '', by: 'client', reason: error.message };
    response.destroy();
    return;
  }
  if (!(error instanceof Refusal))
    gateway.logger.error({ err: error, requestId: ids.requestId }, 'request failed');
  const refusal =
    error instanceof Refusal
      ? error
      : new Refusal('InternalError', 'The service failed to handle this request.');
  exchange.refusal = refusal;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  sendRefusal(response, ids, refusal, path);
  discardRest(request);
}
