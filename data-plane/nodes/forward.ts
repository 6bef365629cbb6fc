/**
 * Forwards a routed request to a node, and the node's answer to the client. Another candidate is tried only while no byte of
 * the request has reached a node, and only within the capacity that routing chose. If a reused connection is lost without a
 * byte of the answer, the request goes to the same node once more, on a new connection. Before the first byte of an answer,
 * every failure is a Refusal; after it, the client's connection is destroyed. An answer is completed, and may be billed, only
 * if every choice has a legal finish, no error came, the terminator was seen, and all of it was written to a connected
 * client.
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
  /** Longest search for a node that accepts a connection, however many candidates remain. */
  readonly searchMs: number;
}

export const defaultForwardSettings: ForwardSettings = {
  searchMs: waits.nodeSearch.ms,
  firstEventMs: waits.nodeFirstEvent.ms,
  betweenEventsMs: waits.nodeNextEvent.ms,
  // Load balancers often close a connection after a silent minute, and some after 30 s.
  keepAliveMs: 20_000,
  wholeAnswerMs: waits.nodeWhole.ms,
  betweenBytesMs: waits.nodeNextBytes.ms,
  errorBodyMs: waits.nodeError.ms,
  answerBytesMax: 32 * 1024 * 1024,
};

/** Services that all requests share on their way to a node. */
export interface ForwardMeans {
  readonly forwarding: ForwardSettings;
  readonly pools: NodePools;
  readonly load: NodeLoad;
  /** Thread that parses large answers. */
  readonly bodyWorker: BodyWorker;
  /** Number of streams in progress, for metrics. */
  readonly streams: { open: number };
}

export interface ForwardRequest {
  readonly asked: AskedRequest;
  /** Form of the client's answer. */
  readonly form: AnswerForm;
  /** The request body held until a node has it. */
  readonly body: ReadableBody;
  /** Nodes in the one place that routing chose. */
  readonly candidates: readonly Route[];
  /** Selects one of the remaining candidates. */
  readonly choose: NodeChooser;
  /** Tier named in the refusal of a request that is too long. */
  readonly tier: string;
  /** Largest number of answer tokens, clamped to the context window; at least 1. Called for chats only. */
  readonly maxTokensFor: (route: Route) => number;
  readonly client: ClientAnswer;
  /** Header fields of the client's answer, in addition to those of its content type. */
  readonly fields: Fields;
  /** Identity of the answer. `unique` is the end of its id. */
  readonly ids: { readonly unique: string; readonly createdSeconds: number };
  /** When the request was last sent to a node, and when the answer began; monotonic ms. */
  readonly at: { sent: number | undefined; begun: number | undefined };
  /** The tenant's cache salt, if other tenants share the nodes. */
  readonly cacheSalt?: string | undefined;
  readonly traceparent?: string | undefined;
  /** Owner charged for the answer's memory, and scheduled fairly with other owners. */
  readonly owner: string;
  /** Creates the host's refusal for a node that failed before the first byte. `detail` is for the log. */
  readonly onNodeFailure: (detail: string) => Refusal;
  /** Called for an answer in an unusual, ambiguous or unknown form. The text contains nothing that the node wrote, except known names. */
  readonly onOddForm: (node: string, oddForm: string) => void;
}

/** The request body, of which parts can be freed early. Both methods are idempotent. */
export interface ReadableBody {
  /** Frees the text, which is no longer needed once the node's body has been rendered. */
  discard(): void;
  /** Releases everything that is still held. */
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
      /** Tokens that the node had read and written until then; streams only. */
      readonly spent?: Usage;
    };

/** Throws a Refusal if no byte of an answer was sent. */
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
  // Connection timeouts use the same clock.
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
  // An unreachable node may be back soon, so report it rather than a field that other nodes cannot carry.
  if (unreached === undefined && incompatible !== undefined) throw incompatible;
  throw request.onNodeFailure(unreached ?? 'no candidate');
}

/** Returns the body for the node, or a refusal if the node's dialect cannot carry a field. */
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

/** Allows longer silence between events, because some engines send nothing until a tool call is complete. */
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
