/**
 * From a routed, shaped request to a node and back to the client.
 * Another candidate is tried only while no byte of the request has reached a node, and only within the capacity that
 * routing chose. Before the first byte of an answer every failure is a Refusal; after it the connection is destroyed.
 * Completed means: every choice has a legal finish, no error came, the terminator was seen, and it was written to a
 * client still connected. Only that may be billed (Events).
 */

import { Refusal } from '../../shared/decision/refusal.ts';
import { dialects } from '../../shared/engines/dialects.ts';
import { contextErrorOf } from '../../shared/engines/node-answers.ts';
import type { MemoryBudget } from '../../shared/runtime/byte-budget.ts';
import { waits } from '../../shared/runtime/waits.ts';
import type { Route } from '../../shared/snapshot/lookup.ts';
import { answerFacts } from '../answer/chat-parts.ts';
import type { SurfaceStream } from '../answer/surface.ts';
import type { Usage } from '../answer/usage.ts';
import type { BodyWorker } from '../body-worker/body-worker.ts';
import { renderBody } from '../dialect/node-body.ts';
import { inabilityRefusal, rejectionRefusal } from '../dialect/node-errors.ts';
import type { ClientAnswer, Fields } from '../http/exchange.ts';
import { type AskedRequest, nodePaths } from '../shape/asked.ts';
import { type AnswerForm, streamedAnswer } from '../surfaces/surfaces.ts';
import type { NodeChooser } from '../upstream/affinity.ts';
import { BodyPieces } from '../upstream/body-pieces.ts';
import type { NodeLoad, NodeOutcome } from '../upstream/load.ts';
import type { NodeRequest } from '../upstream/node-call.ts';
import type { NodePools } from '../upstream/node-pools.ts';
import { type AnswerBounds, Attempt, type AttemptFailure, type AttemptResult } from './attempt.ts';
import { WholeAnswer } from './whole-answer.ts';

export interface ForwardSettings extends AnswerBounds {
  /** Looking for a node that takes connections ends after this, however many candidates are left. */
  readonly searchMs: number;
}

export const defaultForwardSettings: ForwardSettings = {
  searchMs: waits.nodeSearch.ms,
  firstEventMs: waits.nodeFirstEvent.ms,
  betweenEventsMs: waits.nodeNextEvent.ms,
  wholeAnswerMs: waits.nodeWhole.ms,
  betweenBytesMs: waits.nodeNextBytes.ms,
  errorBodyMs: waits.nodeError.ms,
  answerBytesMax: 32 * 1024 * 1024,
};

export interface ForwardOptions {
  readonly asked: AskedRequest;
  /** Of the answer to the client. */
  readonly form: AnswerForm;
  /** Nodes of the one place that routing chose. */
  readonly candidates: readonly Route[];
  /** The tier that a refusal of too long a request names. */
  readonly tier: string;
  /** Tokens of the answer at most, clamped to the window; at least 1. Asked for a chat only. */
  readonly maxTokensFor: (route: Route) => number;
  readonly client: ClientAnswer;
  /** Of the client's answer, next to those of its kind. */
  readonly fields: Fields;
  /** Of the answer; `unique` is the end of its id. */
  readonly ids: { readonly unique: string; readonly createdSeconds: number };
  readonly settings: ForwardSettings;
  readonly pools: NodePools;
  readonly load: NodeLoad;
  /** One of those that are left. */
  readonly choose: NodeChooser;
  /** Of the tenant, where others share the nodes. */
  readonly cacheSalt?: string | undefined;
  /** Passed to the node. */
  readonly traceparent?: string | undefined;
  /** Large answers are read on its thread. */
  readonly bodyWorker: BodyWorker;
  /** Who is charged for the answer, and takes turns with others. */
  readonly owner: string;
  /** The request goes out to a node, and no other will be asked. */
  readonly onSent?: () => void;
  /** Nothing of the request is held here any more. Called for a body in pieces only. */
  readonly onTaken?: () => void;
  /** The refusal of a node that failed before the first byte, as the host has it. `detail` is for the log. */
  readonly onNodeFailure: (detail: string) => Refusal;
}

export type ForwardOutcome =
  | { readonly kind: 'completed'; readonly node: string; readonly usage: Usage }
  | {
      readonly kind: 'ended-early';
      readonly node: string;
      readonly by: 'client' | 'node' | 'deadline';
      /** For the log; holds nothing that node or client wrote. */
      readonly reason: string;
      /** Of a stream: what the node had read and written until then. */
      readonly spent?: Usage;
    };

/** Throws a Refusal where nothing of an answer went out. */
export async function forward(options: ForwardOptions): Promise<ForwardOutcome> {
  try {
    return await search(options);
  } finally {
    options.client.listen(undefined);
  }
}

async function search(options: ForwardOptions): Promise<ForwardOutcome> {
  // The clock of the waits for connections.
  const { ticker } = options.pools;
  const searchUntilMs = ticker.nowMs + options.settings.searchMs;
  let remaining = options.candidates;
  let incompatible: Refusal | undefined;
  let unreached: string | undefined;
  for (;;) {
    const route = options.choose(remaining);
    if (route === undefined || ticker.nowMs > searchUntilMs) break;
    const rendered = nodeBody(options, route);
    const body = rendered instanceof Promise ? await rendered : rendered;
    if (body instanceof Refusal) incompatible = body;
    else {
      const result = await attempt(options, route, body);
      if (result.kind !== 'unreached') return outcomeOf(result, route, options);
      unreached = result.failure.reason;
    }
    remaining = remaining.filter((candidate) => candidate !== route);
  }
  // A node that might have carried the request may be back soon, so that comes before what others cannot carry.
  if (unreached === undefined && incompatible !== undefined) throw incompatible;
  throw options.onNodeFailure(unreached ?? 'no candidate');
}

/** The body for the node, or the refusal of a field that its dialect cannot carry. */
function nodeBody(
  { asked, maxTokensFor, cacheSalt }: ForwardOptions,
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
  options: ForwardOptions,
  route: Route,
  sent: NodeRequest['body'],
): Promise<AttemptResult> {
  const { client, fields, load, pools, settings, asked, traceparent, onSent, onTaken } = options;
  if (client.isGone) return { kind: 'client-gone' };
  const { node, url, credential } = route;
  const isStream = asked.stream;
  const path = nodePaths[asked.kind];
  const accept = isStream ? 'text/event-stream' : 'application/json';
  let outcome: NodeOutcome = 'neutral';
  load.begin(node);
  try {
    const memory = pools.answerBytes.of(options.owner);
    const body = answerOf(options, route, memory);
    const one = new Attempt({ client, fields, pools, memory, bounds: settings, body, onSent, onTaken });
    const isLastOnConnection = isStream && dialects[route.dialect].closesAfterStream;
    const request: NodeRequest = {
      url,
      path,
      body: sent,
      accept,
      credential,
      traceparent,
      isLastOnConnection,
    };
    const result = await one.run(request);
    outcome = nodeOutcomeOf(result);
    return result;
  } finally {
    load.end(node, outcome, options.owner);
  }
}

/** Converts the node's answer for the client. */
function answerOf(
  { asked, form, ids, bodyWorker, owner, settings, maxTokensFor }: ForwardOptions,
  route: Route,
  memory: MemoryBudget,
): SurfaceStream | WholeAnswer {
  const maxTokens = asked.kind === 'chat' ? maxTokensFor(route) : 0;
  const facts = answerFacts(asked, ids, { maxTokens, windowTokens: route.windowTokens });
  if (asked.stream) return streamedAnswer(facts, form, memory);
  return new WholeAnswer({ facts, form, bodyWorker, owner, memory, bytesMax: settings.answerBytesMax });
}

function nodeOutcomeOf(result: AttemptResult): NodeOutcome {
  switch (result.kind) {
    case 'completed':
      return 'answered';
    case 'client-gone':
      return 'neutral';
    case 'unreached':
      return result.failure.outcome === 'neutral' ? 'neutral' : 'unreached';
    case 'aborted-after-start':
    case 'failed':
      return result.failure.outcome;
    default:
      return result satisfies never;
  }
}

function outcomeOf(
  result: Exclude<AttemptResult, { readonly kind: 'unreached' }>,
  route: Route,
  { asked, tier, onNodeFailure }: ForwardOptions,
): ForwardOutcome {
  const { node } = route;
  switch (result.kind) {
    case 'completed':
      return { kind: 'completed', node, usage: result.usage };
    case 'client-gone':
      return { kind: 'ended-early', node, by: 'client', reason: 'the client left', ...spentOf(result) };
    case 'aborted-after-start': {
      const { timedOut, reason } = result.failure;
      return { kind: 'ended-early', node, by: timedOut ? 'deadline' : 'node', reason, ...spentOf(result) };
    }
    case 'failed':
      throw (
        result.failure.refusal ??
        contextRefusal(result.failure, route, tier) ??
        inabilityRefusal(asked, route.dialect, result.failure.detail) ??
        rejectionRefusal(result.failure) ??
        onNodeFailure(result.failure.reason)
      );
    default:
      return result satisfies never;
  }
}

function spentOf({ spent }: { readonly spent?: Usage }): { readonly spent?: Usage } {
  return spent === undefined ? {} : { spent };
}

/** A node's own error of context is a property of the request, so it is no failure of the node. */
function contextRefusal({ detail, reason }: AttemptFailure, route: Route, tier: string): Refusal | undefined {
  const found = contextErrorOf(route.dialect, detail);
  if (found === undefined) return undefined;
  const windowTokens = found.windowTokens ?? route.windowTokens;
  const window = windowTokens === null ? '' : `, which is ${windowTokens} tokens`;
  return new Refusal(
    'window',
    `On the ${tier} tier, this request needs more context than the window of this model${window}.`,
    { detail: reason },
  );
}
