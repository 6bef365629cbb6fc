/**
 * Forwards a request to a node of the place that routing chose, and the node's response to the client. Another candidate is
 * tried only while no byte of the request has reached a node. If a reused connection is lost without a byte of the response,
 * the request goes to the same node once more, on a new connection.
 *
 * A failure before the first byte of a response becomes a `Refusal`. After the first byte, the client's connection is
 * destroyed instead. A response counts as completed, and may be billed, only if every choice has a legal finish reason, no
 * error occurred, the stream's terminator arrived, and all of the response was written to a connected client.
 */

import type { Ender } from '../../schemas/records/verdict.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { dialects } from '../../shared/engines/dialects.ts';
import { waits } from '../../shared/runtime/waits.ts';
import type { Route } from '../../shared/snapshot/lookup.ts';
import type { BodyWorker } from '../body-worker/body-worker.ts';
import type { ClientAnswer, Fields } from '../http/exchange.ts';
import { type AskedRequest, nodePaths } from '../surfaces/common/asked.ts';
import { answerFacts } from '../surfaces/common/chat-parts.ts';
import { renderBody } from '../surfaces/common/node-body.ts';
import { refusalOfError } from '../surfaces/common/node-errors.ts';
import type { Usage } from '../surfaces/common/usage.ts';
import { type AnswerForm, streamedAnswer } from '../surfaces/surfaces.ts';
import type { NodeChooser } from './affinity.ts';
import { type AnswerBounds, Attempt, type AttemptResult } from './attempt.ts';
import { BodyPieces } from './body-pieces.ts';
import type { NodeLoad, NodeOutcome } from './load.ts';
import type { NodeRequest } from './node-call.ts';
import type { NodePools } from './node-pools.ts';
import { WholeAnswer } from './whole-answer.ts';

export interface ForwardSettings extends AnswerBounds {
  /** Maximum time in ms to find a node that accepts a connection, however many candidates remain. */
  readonly searchMs: number;
}

export const defaultForwardSettings: ForwardSettings = {
  searchMs: waits.nodeSearch.ms,
  firstEventMs: waits.nodeFirstEvent.ms,
  betweenEventsMs: waits.nodeNextEvent.ms,
  // This is less than the 30 s of silence after which some load balancers close a connection. Many wait for a minute.
  keepAliveMs: 20_000,
  wholeAnswerMs: waits.nodeWhole.ms,
  betweenBytesMs: waits.nodeNextBytes.ms,
  errorBodyMs: waits.nodeError.ms,
  answerBytesMax: 32 * 1024 * 1024,
};

/** Services for reaching nodes, which all requests share. */
export interface ForwardMeans {
  readonly forwarding: ForwardSettings;
  readonly pools: NodePools;
  readonly load: NodeLoad;
  /** Converts large responses in another thread. */
  readonly bodyWorker: BodyWorker;
  /** Number of streams in progress, for metrics. */
  readonly streams: { open: number };
}

export interface ForwardRequest {
  readonly asked: AskedRequest;
  /** Form in which the client receives the response. */
  readonly form: AnswerForm;
  /** Body of the client's request, which is held until a node has received it. */
  readonly body: ReadableBody;
  /** Nodes of the place that routing chose. */
  readonly candidates: readonly Route[];
  /** Selects the next node to try among the candidates that remain. */
  readonly choose: NodeChooser;
  /** Name of the caller's tier, which is mentioned if the request is refused as too long. */
  readonly tier: string;
  /** Returns the answer's token limit (at least 1), reduced to what fits into the node's context window. For chats only. */
  readonly maxTokensFor: (route: Route) => number;
  readonly client: ClientAnswer;
  /** Header fields of the response to the client, without those that depend on the content type. */
  readonly fields: Fields;
  /** Last part of the response's id, and the time at which the response was created. */
  readonly ids: { readonly unique: string; readonly createdSeconds: number };
  /** Times at which the request was last sent to a node and its response began, in monotonic ms. Set while forwarding. */
  readonly at: { sent: number | undefined; begun: number | undefined };
  /** Cache salt of the organisation. Set only if other organisations use the same nodes. */
  readonly cacheSalt?: string | undefined;
  readonly traceparent?: string | undefined;
  /** Organisation to which the response's memory is charged. */
  readonly owner: string;
  /** Creates the refusal to send if no node has answered. `detail` is for the log. */
  readonly onNodeFailure: (detail: string) => Refusal;
  /** Called if a node's response has an unusual form. The text contains nothing that the node wrote, except known names. */
  readonly onOddForm: (node: string, oddForm: string) => void;
}

/** Body of a client's request. Its text can be freed before the rest. Both methods may be called more than once. */
export interface ReadableBody {
  /** Frees the text of the body, which is not needed once the body for the node has been written. */
  discard(): void;
  /** Releases all memory that the body still holds. */
  release(): void;
}

export type ForwardOutcome =
  | { readonly kind: 'completed'; readonly node: string; readonly usage: Usage }
  | {
      readonly kind: 'ended-early';
      readonly node: string;
      readonly by: Ender;
      /** Reason for the log. Contains no text from the node or the client. */
      readonly reason: string;
      /** Tokens that the node had read and written before the failure. Only known for streams. */
      readonly spent?: Usage;
    };

/** Forwards one request. Throws a `Refusal` if the client has not received any byte of a response. */
export async function forward(means: ForwardMeans, request: ForwardRequest): Promise<ForwardOutcome> {
  const { asked, client, at } = request;
  if (asked.stream) means.streams.open++;
  try {
    return await search(means, request);
  } finally {
    client.listen(undefined);
    at.begun = client.startedMs;
    if (asked.stream) means.streams.open--;
  }
}

async function search(means: ForwardMeans, request: ForwardRequest): Promise<ForwardOutcome> {
  // Use the ticker's clock, because the time-outs for connecting use it, too.
  const { ticker } = means.pools;
  const searchUntilMs = ticker.nowMs + means.forwarding.searchMs;
  let remaining = request.candidates;
  let incompatible: Refusal | undefined;
  let unreached: string | undefined;
  for (;;) {
    const route = request.choose(remaining);
    if (route === undefined || ticker.nowMs > searchUntilMs) break;
    const rendered = nodeBody(request, route);
    const body = rendered instanceof Promise ? await rendered : rendered;
    if (body instanceof Refusal) incompatible = body;
    else {
      const result = await attempt(means, request, route, body);
      if (result.kind !== 'unreached') return toOutcome(result, route, request);
      unreached = result.failure.reason;
    }
    remaining = remaining.filter((candidate) => candidate !== route);
  }
  // Prefer to report that a node was unreachable, which may soon change, over an unsupported field of another node.
  if (unreached === undefined && incompatible !== undefined) throw incompatible;
  throw request.onNodeFailure(unreached ?? 'no candidate');
}

/** Writes the body for the node. Returns a refusal if the node's dialect does not support a field. */
function nodeBody(
  { asked, maxTokensFor, cacheSalt }: ForwardRequest,
  route: Route,
): NodeBodyOrRefusal | Promise<NodeBodyOrRefusal> {
  const maxTokens = asked.kind === 'chat' ? maxTokensFor(route) : 1;
  try {
    const { served: servedName, takesImages: seesImages } = route;
    const body = renderBody(asked, route.dialect, { servedName, maxTokens, seesImages, cacheSalt });
    return typeof body === 'string' ? body : body.then((bytes) => new BodyPieces(bytes), unsupported);
  } catch (error) {
    return unsupported(error);
  }
}

type NodeBodyOrRefusal = NodeRequest['body'] | Refusal;

function unsupported(error: unknown): Refusal {
  if (error instanceof Refusal && error.type === 'UnsupportedShapeError') return error;
  throw error;
}

async function attempt(
  means: ForwardMeans,
  request: ForwardRequest,
  route: Route,
  body: NodeRequest['body'],
): Promise<AttemptResult> {
  const { client, asked, owner } = request;
  if (client.isGone) return { kind: 'client-gone' };
  const { load } = means;
  const { node, url, credential } = route;
  let outcome: NodeOutcome = 'neutral';
  load.begin(node);
  try {
    const result = await startAttempt(means, request, route).run({
      url,
      path: nodePaths[asked.kind],
      body,
      accept: asked.stream ? 'text/event-stream' : 'application/json',
      credential,
      traceparent: request.traceparent,
      isLastOnConnection: asked.stream && dialects[route.dialect].closesAfterStream,
    });
    outcome = toNodeOutcome(result);
    const { oddForm } = result.kind === 'completed' ? result : 'failure' in result ? result.failure : {};
    if (oddForm !== undefined) request.onOddForm(node, oddForm);
    return result;
  } finally {
    load.end(node, outcome, owner);
  }
}

function startAttempt(
  { forwarding, pools, bodyWorker, load }: ForwardMeans,
  { asked, form, ids, maxTokensFor, client, fields, owner, at, body: held }: ForwardRequest,
  route: Route,
): Attempt {
  const memory = pools.answerBytes.of(owner);
  const maxTokens = asked.kind === 'chat' ? maxTokensFor(route) : 0;
  const facts = answerFacts(asked, ids, { maxTokens, windowTokens: route.windowTokens });
  return new Attempt({
    client,
    fields,
    pools,
    memory,
    bounds: facts.tools ? patientBounds(forwarding) : forwarding,
    body: asked.stream
      ? streamedAnswer(facts, form, memory)
      : new WholeAnswer({ facts, form, bodyWorker, owner, memory, bytesMax: forwarding.answerBytesMax }),
    onSent: () => {
      at.sent = performance.now();
      held.discard();
    },
    onAnswer: () => load.answering(route.node),
    onTaken: () => held.release(),
  });
}

/** Gives events as much time as the first event, because some engines send nothing until a tool call is complete. */
function patientBounds(bounds: AnswerBounds): AnswerBounds {
  return { ...bounds, betweenEventsMs: Math.max(bounds.firstEventMs, bounds.betweenEventsMs) };
}

function toNodeOutcome(result: AttemptResult): NodeOutcome {
  switch (result.kind) {
    case 'completed':
      return 'answered';
    case 'client-gone':
      return 'neutral';
    case 'unreached':
    case 'aborted-after-start':
    case 'failed':
      return result.failure.outcome;
    default:
      return result satisfies never;
  }
}

function toOutcome(
  result: Exclude<AttemptResult, { readonly kind: 'unreached' }>,
  route: Route,
  { asked, tier, onNodeFailure }: ForwardRequest,
): ForwardOutcome {
  const { node } = route;
  switch (result.kind) {
    case 'completed':
      return { kind: 'completed', node, usage: result.usage };
    case 'client-gone':
      return { kind: 'ended-early', node, by: 'client', reason: 'the client left', ...pickSpent(result) };
    case 'aborted-after-start': {
      const { timedOut, reason, refusal } = result.failure;
      const by = timedOut ? 'deadline' : refusal === undefined ? 'node' : 'gateway';
      return { kind: 'ended-early', node, by, reason, ...pickSpent(result) };
    }
    case 'failed': {
      const { failure } = result;
      throw failure.refusal ?? refusalOfError(failure, asked, route, tier) ?? onNodeFailure(failure.reason);
    }
    default:
      return result satisfies never;
  }
}

function pickSpent({ spent }: { readonly spent?: Usage }): { readonly spent?: Usage } {
  return spent === undefined ? {} : { spent };
}
