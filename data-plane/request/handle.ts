/**
 * The way of a request, top to bottom: host → authenticate → shape → limits → route → forward → meter.
 * This file holds all of its control flow; the phases beside it are small and never call each other.
 * Whatever happens, the request is answered once or its connection destroyed, and its lease released once.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
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
import { ClientResponse } from './client-response.ts';
import { answerTokens, estimateTokens, promptTokens, smallerOf } from './context.ts';
import { decide, type RequestFacts, type Verdict } from './decide.ts';
import { type ForwardOutcome, forward } from './forward.ts';
import type { Gateway } from './gateway.ts';
import { resolveHost, type Target } from './host.ts';
import { listModels } from './models.ts';
import { type Operation, resolveOperation } from './operation.ts';
import { Refusal } from './refusal.ts';
import { mintCompletionId, mintRequestId } from './request-id.ts';
import { type Placement, targetNotServing, unavailable } from './route.ts';
import { type ChatRequest, type EmbeddingsRequest, shapeChat, shapeEmbeddings } from './shape.ts';

/** What is known of an exchange as it goes on; the access log and the metrics are made of it. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly ids: AnswerIds;
  readonly path: string;
  readonly startMs: number;
  target?: Target;
  operation?: Operation;
  caller?: Caller;
  model?: string;
  stream?: boolean;
  verdict?: Verdict;
  outcome?: ForwardOutcome;
  refusal?: Refusal;
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
  const exchange: Exchange = { request, response, ids, path, startMs: performance.now() };
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
  if (operation.kind === 'unknown') throw new Refusal('NotFoundError', 'There is nothing at this path.');
  if (operation.kind === 'models' || operation.kind === 'model') {
    exchange.position = gateway.lookup.position();
    return sendJson(response, exchange.ids, 200, listModels(gateway.lookup, target, caller, operation));
  }
  if (caller.kind === 'nobody') throw unauthorized('missing');
  const body = await readBody(request, gateway.bodies, () => askForBody(request, response));
  try {
    const shaped = shape(operation, body.bytes, request.headers['content-type']);
    await serve(gateway, exchange, caller, shaped);
  } finally {
    body.release();
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

function shape(
  operation: Operation,
  bytes: Buffer,
  contentType: string | undefined,
): ChatRequest | EmbeddingsRequest {
  if (operation.kind === 'chat') return shapeChat(bytes, contentType);
  if (operation.kind === 'embeddings') return shapeEmbeddings(bytes, contentType);
  throw new Refusal('UnsupportedShapeError', 'This host does not serve this API shape.', {
    reason: 'wrong surface',
  });
}

/** Limits, route, forward and meter of a shaped request. */
async function serve(
  gateway: Gateway,
  exchange: Exchange,
  caller: RequestFacts['caller'],
  shaped: ChatRequest | EmbeddingsRequest,
): Promise<void> {
  const target = exchange.target as Target;
  exchange.model = shaped.model;
  exchange.stream = shaped.kind === 'chat' && shaped.stream;
  const asked = shaped.kind === 'chat' ? shaped.maxTokens : 0;
  const facts: RequestFacts = {
    target,
    caller,
    model: shaped.model,
    path: shaped.kind === 'chat' ? 'openai' : 'every',
    promptTokens: shaped.promptBytes,
    maxTokens: asked,
  };
  const verdict = await judge(gateway, facts, shaped);
  exchange.verdict = verdict;
  exchange.position = gateway.lookup.position();
  const lease = gateway.counters.take(verdict.subject, verdict.weight, gateway.now());
  try {
    if (verdict.placement instanceof Refusal) throw verdict.placement;
    exchange.outcome = await send(gateway, exchange, shaped, verdict, verdict.placement);
    meter(gateway, exchange, verdict.placement);
  } finally {
    lease.release();
  }
}

/** The verdict; where the bound of the prompt does not fit the tier, it is counted before it is refused. */
async function judge(
  gateway: Gateway,
  facts: RequestFacts,
  shaped: ChatRequest | EmbeddingsRequest,
): Promise<Verdict> {
  try {
    return verdictNow(gateway, facts);
  } catch (error) {
    if (!(error instanceof Refusal && error.type === 'ContextWindowExceededError')) throw error;
    const counted = await promptTokens(gateway.lookup, facts, shaped, gateway.countTokens);
    return verdictNow(gateway, { ...facts, promptTokens: counted });
  }
}

function verdictNow(gateway: Gateway, facts: RequestFacts): Verdict {
  // Asked again: a body may have taken long, and a frozen process wakes up with an old snapshot.
  if (gateway.fenced()) throw unavailable('fenced');
  if (gateway.meter.isFull) throw unavailable('outbox full');
  return decide(gateway.lookup, gateway.counters, facts, gateway.now());
}

function send(
  gateway: Gateway,
  exchange: Exchange,
  shaped: ChatRequest | EmbeddingsRequest,
  verdict: Verdict,
  placement: Placement,
): Promise<ForwardOutcome> {
  const asked = shaped.kind === 'chat' ? shaped.maxTokens : 0;
  const prompt = { promptBound: shaped.promptBytes, promptEstimate: estimateTokens(shaped) };
  return forward({
    request: shaped,
    candidates: placement.candidates,
    maxTokensFor: (route) =>
      answerTokens({
        asked,
        windowTokens: smallerOf(verdict.tier.contextTokens, route.windowTokens),
        ...prompt,
      }),
    client: new ClientResponse(exchange.response, { headers: answerHeaders(exchange.ids) }),
    ids: { responseId: mintCompletionId(), createdSeconds: Math.floor(gateway.now() / 1000) },
    settings: gateway.forwarding,
    pools: gateway.pools,
    load: gateway.load,
    onNodeFailure: (reason: string) =>
      exchange.target?.kind === 'stack' ? targetNotServing(reason) : unavailable(reason),
  });
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

/** Reads and drops what is left of a refused request's body, so that the client gets to read the refusal; bounded. */
function discardRest(request: IncomingMessage): void {
  if (request.complete) return;
  const restBytesMax = 64 * 1024 * 1024;
  let bytes = 0;
  request.on('error', () => undefined);
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > restBytesMax) request.destroy();
  });
  request.resume();
}

/** A client that waits with its body is told to send it, once its key was accepted and its size is known to fit. */
function askForBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.headers.expect !== undefined && request.httpVersion === '1.1') response.writeContinue();
}

/** HTTP that could be read in two ways is refused before anything else (RFC 9112, 3.2). */
function checkHttp(request: IncomingMessage): void {
  const bad = (message: string): Refusal =>
    new Refusal('UnsupportedShapeError', message, { reason: 'bad http' });
  if (!request.url?.startsWith('/')) throw bad('The request target must be a path.');
  let hosts = 0;
  for (let i = 0; i < request.rawHeaders.length; i += 2)
    if (request.rawHeaders[i]?.toLowerCase() === 'host') hosts++;
  if (hosts > 1) throw bad('The request has more than one Host header.');
  const version = request.httpVersion;
  if (version !== '1.1' && version !== '1.0') throw bad('This version of HTTP is not spoken here.');
  if (version === '1.1' && hosts === 0) throw bad('The request has no Host header.');
  const expect = request.headers.expect;
  if (expect !== undefined && expect.toLowerCase() !== '100-continue')
    throw bad('The Expect header asks for what is not offered.');
}

function pathOf(url: string | undefined): string {
  if (!url?.startsWith('/')) return '/';
  const query = url.indexOf('?');
  return query === -1 ? url : url.slice(0, query);
}

function oneHeader(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}
