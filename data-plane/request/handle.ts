/**
 * The way of a request, top to bottom: host → authenticate → shape → limits → route → forward → meter.
 * This file holds all of its control flow; the phases beside it are small and never call each other.
 * Whatever happens, the request is answered once or its connection destroyed, and its lease released once.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Route } from '../../shared/snapshot/lookup.ts';
import { mintMessageId } from '../anthropic/message-parts.ts';
import { countTokensBody } from '../anthropic/shape.ts';
import { shapeBody } from '../shaping/shape-body.ts';
import { type AnswerIds, answerHeaders, sendJson, sendRefusal } from './answer.ts';
import {
  authenticate,
  type Caller,
  type Credentials,
  carriesWellFormedKey,
  needsKey,
  unauthorized,
} from './authenticate.ts';
import { ClientGone, readBody } from './body.ts';
import { ownerOf } from './body-budget.ts';
import { ClientResponse } from './client-response.ts';
import {
  type AnswerRoom,
  answerTokens,
  estimateTokens,
  isTight,
  promptTokens,
  smallerOf,
} from './context.ts';
import type { Lease } from './counters.ts';
import { decide, type RequestFacts, type Verdict } from './decide.ts';
import { type Forwarded, type ForwardOutcome, forward } from './forward.ts';
import type { Gateway } from './gateway.ts';
import { resolveHost, type Target } from './host.ts';
import { askForBody, checkHttp, discardRest, oneHeader, pathOf, refuseEncoded } from './http-request.ts';
import { listModels } from './models.ts';
import { type Operation, resolveOperation } from './operation.ts';
import { Refusal } from './refusal.ts';
import { mintCompletionId, mintRequestId } from './request-id.ts';
import { type Placement, targetNotServing, unavailable } from './route.ts';
import type { Shaped } from './shape-operation.ts';

/** When a step of the way was done, monotonic ms. */
export interface Milestones {
  /** The key was accepted, or none was needed. */
  accepted?: number;
  /** The body was there. */
  read?: number;
  /** It was understood. */
  shaped?: number;
  /** Limits and routing had their say. */
  decided?: number;
  /** The request went out to a node, at the last try. */
  sent?: number;
  /** The answer began. */
  begun?: number | undefined;
}

/** What is known of an exchange as it goes on; the access log and the metrics are made of it. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly ids: AnswerIds;
  readonly path: string;
  readonly startMs: number;
  readonly at: Milestones;
  target?: Target;
  operation?: Operation;
  caller?: Caller;
  model?: string;
  stream?: boolean;
  verdict?: Verdict;
  outcome?: ForwardOutcome;
  refusal?: Refusal;
  /** The node has the request's text, so it need not be held here. */
  releaseText?: () => void;
  /** `seq` of the commit the decision was made at. */
  position?: number;
}

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

/** Everything up to the answer; throws a Refusal where there is one. */
async function pass(gateway: Gateway, exchange: Exchange, fixed: Target | undefined): Promise<void> {
  const { request, response } = exchange;
  checkHttp(request);
  const target = fixed ?? resolveHost(request.headers.host, gateway.hosts);
  exchange.target = target;
  const operation = resolveOperation(request.method ?? '', exchange.path);
  exchange.operation = operation;
  const caller = identify(gateway, target, operation, request);
  exchange.caller = caller;
  exchange.at.accepted = performance.now();
  if (operation.kind === 'unknown') throw new Refusal('NotFoundError', 'There is nothing at this path.');
  if (operation.kind === 'models' || operation.kind === 'model') {
    exchange.position = gateway.lookup.position();
    return sendJson(response, exchange.ids, 200, listModels(gateway.lookup, target, caller, operation));
  }
  if (caller.kind === 'nobody') throw unauthorized('missing');
  refuseEncoded(request);
  const owner = ownerOf(caller);
  const body = await readBody(request, gateway.bodies.of(owner), () => askForBody(request, response));
  exchange.at.read = performance.now();
  const { shaped, release } = await shapeBody(gateway.shaping, { operation, body, owner, response });
  exchange.at.shaped = performance.now();
  exchange.releaseText = release;
  try {
    await serve(gateway, exchange, caller, shaped);
  } finally {
    release();
  }
}

function identify(gateway: Gateway, target: Target, operation: Operation, request: IncomingMessage): Caller {
  if (!needsKey(target, operation)) return { kind: 'nobody' };
  const credentials: Credentials = {
    authorization: request.headers.authorization,
    xApiKey: oneHeader(request, 'x-api-key'),
  };
  if (gateway.fenced()) {
    // A snapshot this old proves nothing of a key; a missing or malformed one needs no snapshot to be refused.
    if (carriesWellFormedKey(target, credentials)) throw unavailable('fenced');
    throw unauthorized('fenced');
  }
  return authenticate(gateway.lookup, target, credentials, gateway.now());
}

/** Limits, route, forward and meter of a shaped request. */
async function serve(
  gateway: Gateway,
  exchange: Exchange,
  caller: RequestFacts['caller'],
  shaped: Shaped,
): Promise<void> {
  const { model, stream, path, maxTokens, inner } = shaped;
  exchange.model = model;
  exchange.stream = stream;
  const target = exchange.target as Target;
  const facts = { target, caller, model, path, promptTokens: inner.promptBytes, maxTokens };
  const known = knowsUsage(gateway, facts);
  if (known !== true && !(await known)) throw unavailable('usage unknown');
  const { verdict, lease } = await admit(gateway, facts, inner);
  exchange.verdict = verdict;
  exchange.at.decided = performance.now();
  exchange.position = gateway.lookup.position();
  try {
    if (verdict.placement instanceof Refusal) throw verdict.placement;
    if (shaped.forwarded === undefined) {
      const tokens = await promptTokens(gateway.lookup, facts, inner, gateway.countTokens);
      return sendJson(exchange.response, exchange.ids, 200, JSON.stringify(countTokensBody(tokens)));
    }
    exchange.outcome = await send(gateway, exchange, shaped, shaped.forwarded, verdict, verdict.placement);
    meter(gateway, exchange, verdict.placement);
  } finally {
    lease.release();
  }
}

/** What the caller has used has to be at hand before it is decided on; only its first request in a while waits for it. */
function knowsUsage({ meter, now }: Gateway, { caller, target }: RequestFacts): true | Promise<boolean> {
  // Only the pool draws on an allowance.
  if (target.kind === 'stack') return true;
  return meter.knows(caller.kind === 'key' ? caller.owner : caller, now());
}

interface Admitted {
  readonly verdict: Verdict;
  readonly lease: Lease;
}

/** The verdict, and the place it gives; where the bound of the prompt does not fit the tier, it is counted before it is refused. */
async function admit(gateway: Gateway, facts: RequestFacts, inner: Shaped['inner']): Promise<Admitted> {
  try {
    return admitNow(gateway, facts);
  } catch (error) {
    if (!(error instanceof Refusal && error.type === 'ContextWindowExceededError')) throw error;
    const counted = await promptTokens(gateway.lookup, facts, inner, gateway.countTokens);
    return admitNow(gateway, { ...facts, promptTokens: counted });
  }
}

/** Decides and counts in one turn of the event loop, so that no other request comes between the two. */
function admitNow(gateway: Gateway, facts: RequestFacts): Admitted {
  // Asked again: a body may have taken long, and a frozen process wakes up with an old snapshot.
  if (gateway.fenced()) throw unavailable('fenced');
  if (gateway.meter.isFull) throw unavailable('outbox full');
  const nowMs = gateway.now();
  const verdict = decide(gateway.lookup, gateway.counters, facts, nowMs);
  return { verdict, lease: gateway.counters.take(verdict.subject, verdict.weight, nowMs) };
}

async function send(
  gateway: Gateway,
  exchange: Exchange,
  { inner, maxTokens, path }: Shaped,
  forwarded: Forwarded,
  verdict: Verdict,
  placement: Placement,
): Promise<ForwardOutcome> {
  let prompt = { promptBound: inner.promptBytes, promptEstimate: estimateTokens(inner) };
  const room = (route: Route): AnswerRoom => ({
    asked: maxTokens,
    windowTokens: smallerOf(verdict.tier.contextTokens, route.windowTokens),
    ...prompt,
  });
  // Engines refuse a limit that does not fit beside the prompt, and an estimate may be too low.
  const tight = placement.candidates.find((route) => isTight(room(route)));
  const counted = tight && (await gateway.countTokens(tight, inner));
  if (counted !== undefined) prompt = { promptBound: counted, promptEstimate: counted };
  const client = new ClientResponse(exchange.response, { headers: answerHeaders(exchange.ids) });
  if (exchange.stream) gateway.streams.open++;
  try {
    return await forward({
      request: forwarded,
      candidates: placement.candidates,
      maxTokensFor: (route) => answerTokens(room(route)),
      client,
      onSent: () => {
        exchange.at.sent = performance.now();
      },
      ids: {
        responseId: path === 'anthropic' ? mintMessageId() : mintCompletionId(),
        createdSeconds: Math.floor(gateway.now() / 1000),
      },
      settings: gateway.forwarding,
      pools: gateway.pools,
      load: gateway.load,
      shaping: gateway.shaping,
      owner: ownerOf(exchange.caller as RequestFacts['caller']),
      onTaken: () => exchange.releaseText?.(),
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
    draw: placement.draw,
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
