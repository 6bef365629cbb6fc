/**
 * Forwards a routed, shaped request to a node, and the answer to the client. Another candidate is tried only while no byte of
 * the request has reached a node, and only within the capacity that routing chose. If a reused connection is lost without a
 * byte of the answer, the request goes to the same node once more, on a new connection; after any other failure it is not
 * sent again. Before the first byte of an answer every failure is a Refusal; after it the client's connection is destroyed.
 * An answer is completed if every choice has a legal finish, no error came, the terminator was seen, and all of it was
 * written to a client that is still connected. Only a completed answer may be billed (Events).
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
  /** Looking for a node that takes connections ends after this, however many candidates are left. */
  readonly searchMs: number;
}

export const defaultForwardSettings: ForwardSettings = {
  searchMs: waits.nodeSearch.ms,
  firstEventMs: waits.nodeFirstEvent.ms,
  betweenEventsMs: waits.nodeNextEvent.ms,
  // Balancers often close a connection after a silent minute, and some after 30 s.
  keepAliveMs: 20_000,
  wholeAnswerMs: waits.nodeWhole.ms,
  betweenBytesMs: waits.nodeNextBytes.ms,
  errorBodyMs: waits.nodeError.ms,
  answerBytesMax: 32 * 1024 * 1024,
};

/** What all requests share on their way to a node. */
export interface ForwardMeans {
  readonly forwarding: ForwardSettings;
  readonly pools: NodePools;
  readonly load: NodeLoad;
  /** Large answers are read on its thread. */
  readonly bodyWorker: BodyWorker;
  /** Streams that nodes and clients are busy with now, for metrics. */
  readonly streams: { open: number };
}

export interface ForwardRequest {
  readonly asked: AskedRequest;
  /** Of the answer to the client. */
  readonly form: AnswerForm;
  /** What is held of the request until a node has it. */
  readonly body: ReadableBody;
  /** Nodes of the one place that routing chose. */
  readonly candidates: readonly Route[];
  /** One of those that are left. */
  readonly choose: NodeChooser;
  /** The tier that a refusal of too long a request names. */
  readonly tier: string;
  /** Tokens of the answer at most, clamped to the window; at least 1. Asked for a chat only. */
  readonly maxTokensFor: (route: Route) => number;
  readonly client: ClientAnswer;
  /** Of the client's answer, next to those of its kind. */
  readonly fields: Fields;
  /** Of the answer; `unique` is the end of its id. */
  readonly ids: { readonly unique: string; readonly createdSeconds: number };
  /** When the request went out to a node, at the last try, and when the answer began; monotonic ms. */
  readonly at: { sent: number | undefined; begun: number | undefined };
  /** Of the tenant, where others share the nodes. */
  readonly cacheSalt?: string | undefined;
  /** Passed to the node. */
  readonly traceparent?: string | undefined;
  /** Who is charged for the answer, and takes turns with others. */
  readonly owner: string;
  /** The refusal of a node that failed before the first byte, as the host has it. `detail` is for the log. */
  readonly onNodeFailure: (detail: string) => Refusal;
  /** Called for an answer in an unusual, ambiguous or unknown form. The text contains nothing that the node wrote, except known names. */
  readonly onOddForm: (node: string, oddForm: string) => void;
}

/** Both are idempotent. */
export interface ReadableBody {
  /** The text is not needed any more: what a node gets is rendered. */
  discard(): void;
  /** Nothing of the body is held any more. */
  release(): void;
}

export type ForwardOutcome =
  | { readonly kind: 'completed'; readonly node: string; readonly usage: Usage }
  | {
      readonly kind: 'ended-early';
      readonly node: string;
      readonly by: Ender;
      /** For the log; holds nothing that node or client wrote. */
      readonly reason: string;
      /** Of a stream: what the node had read and written until then. */
      readonly spent?: Usage;
    };

/** Throws a Refusal where nothing of an answer went out. */
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
  // The clock of the waits for connections.
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
  // A node that might have carried the request may be back soon, so that comes before what others cannot carry.
  if (unreached === undefined && incompatible !== undefined) throw incompatible;
  throw request.onNodeFailure(unreached ?? 'no candidate');
}

/** The body for the node, or the refusal of a field that its dialect cannot carry. */
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

/** Waits longer between events, because some engines send a tool call only once it is whole and are silent meanwhile. */
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
