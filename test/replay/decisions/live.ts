/**
 * Runs the code of live serving on the corpus, with the look-up, counters and clock of a golden decision. Stops before a node
 * would be called, so that the decision can be compared with that of replay.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { BodyWorker } from '../../../data-plane/body-worker/body-worker.ts';
import { Affinity } from '../../../data-plane/nodes/affinity.ts';
import { NodeLoad } from '../../../data-plane/nodes/load.ts';
import type { Gateway } from '../../../data-plane/request/gateway.ts';
import { handle } from '../../../data-plane/request/handle.ts';
import type { RequestRecord } from '../../../data-plane/request/request-record.ts';
import { TenantSecrets } from '../../../data-plane/surfaces/common/tenant-secrets.ts';
import { fieldSeparator } from '../../../shared/decision/authenticate.ts';
import { windowMs, windowStartMs } from '../../../shared/decision/decide.ts';
import { Refusal } from '../../../shared/decision/refusal.ts';
import { BodyBudget } from '../../../shared/runtime/byte-budget.ts';
import type { Lookup } from '../../../shared/snapshot/lookup.ts';
import { serveExchanges } from '../../support/exchange-server.ts';
import { rawRequest, requestText } from '../../support/raw-http.ts';
import { corpusHosts } from './corpus.ts';
import type { ReplayedDecision, ReplayFacts } from './replay.ts';

export interface LiveOptions {
  /** Whether the caller's usage can be loaded. */
  readonly knowsUsage?: boolean;
  /** A body to send instead of the one that the facts imply. */
  readonly body?: string;
}

type LiveGatewayOptions = Pick<LiveOptions, 'knowsUsage'> & {
  readonly observe: (record: RequestRecord) => void;
};

function gatewayOf(
  lookup: Lookup,
  facts: ReplayFacts,
  { observe, knowsUsage = true }: LiveGatewayOptions,
): Gateway {
  const { counters } = facts;
  // Usage is 0 until it has been loaded. If live serving does not wait for it, the decision is therefore different.
  let used = { poolTokens: 0, freeTurns: 0 };
  const loadTotal = async (): Promise<boolean> => {
    await nextTurn();
    used = counters;
    return knowsUsage;
  };
  const load = new NodeLoad();
  const parts = {
    hosts: corpusHosts,
    lookup,
    counters: {
      window: (subject: string, nowMs: number) => ({
        used: counters.windowUsed,
        endsAtMs: windowStartMs(subject, nowMs) + windowMs,
      }),
      inFlight: () => counters.inFlight,
      poolTokens: () => used.poolTokens,
      freeTurns: () => used.freeTurns,
      networkTurns: () => 0,
      visitorTokens: () => 0,
      // No other gateway holds capacity, so there is nothing to wait for.
      waitForRoom: () => undefined,
      reserve: () => ({ release: () => undefined, cancel: () => undefined }),
    } satisfies Partial<Gateway['counters']>,
    bodies: new BodyBudget(),
    bodyWorker: new BodyWorker(),
    sealKeys: new TenantSecrets('gateway-token-of-the-tests', 'sealed thoughts'),
    meter: {
      isFull: facts.outboxFull === true,
      awaitMeterCapacity: () => true,
      loadTotal,
    } satisfies Partial<Gateway['meter']>,
    load,
    affinity: new Affinity({ load, secret: 'gateway-token-of-the-tests' }),
    streams: { open: 0 },
    countTokens: async () => undefined,
    logger: { error: () => undefined },
    fenced: () => facts.fenced === true,
    awaitFreshProof: () => undefined,
    now: () => facts.nowMs,
    logNow: () => facts.nowMs,
    trace: () => undefined,
    begin: () => undefined,
    observe,
  };
  return parts as unknown as Gateway;
}

function bodyOf({ path, model }: ReplayFacts): string {
  if (path === '/v1/embeddings' || path === '/v1/responses') return JSON.stringify({ model, input: 'a' });
  if (path.endsWith('/rerank')) return JSON.stringify({ model, query: 'a', documents: ['b'] });
  const messages = [{ role: 'user', content: 'a' }];
  return JSON.stringify({ model, messages, ...(path === '/v1/messages' && { max_tokens: 1 }) });
}

/**
 * Returns the decision of live serving. Live serving counts the prompt itself, so the facts must not set the number of its
 * tokens.
 */
export async function serveLive(
  lookup: Lookup,
  facts: ReplayFacts,
  options: LiveOptions = {},
): Promise<ReplayedDecision> {
  const { record, body } = await recordLive(lookup, facts, options);
  return decisionOf(record, body);
}

/** Returns the record that live serving writes for a request with these facts, and the body of the response. */
export async function recordLive(
  lookup: Lookup,
  facts: ReplayFacts,
  { knowsUsage = true, body: asked = bodyOf(facts) }: LiveOptions = {},
): Promise<{ readonly record: RequestRecord; readonly body: string }> {
  let observed: RequestRecord | undefined;
  const observe = (record: RequestRecord): void => {
    observed = record;
  };
  const gateway = gatewayOf(lookup, facts, { knowsUsage, observe });
  const { port, destroy } = await serveExchanges((exchange) => handle(gateway, exchange, undefined));
  const { host, method, path, authorization, xApiKey } = facts;
  const headers = {
    'anthropic-version': '2023-06-01',
    ...(authorization !== undefined && {
      Authorization: authorization.replaceAll(fieldSeparator, '\r\nAuthorization: '),
    }),
    ...(xApiKey !== undefined && { 'x-api-key': xApiKey }),
  };
  const body = method === 'POST' ? asked : undefined;
  const text = requestText({ method, path, host: host ?? '', headers, ...(body !== undefined && { body }) });
  const answer = await rawRequest(port, text);
  destroy();
  return { record: observed as RequestRecord, body: answer.body };
}

function decisionOf({ decision, refusal }: RequestRecord, body: string): ReplayedDecision {
  if (decision && !(decision.placement instanceof Refusal)) {
    const { placement, tier, subject, weight } = decision;
    const nodes = placement.candidates.map(({ node }) => node).sort();
    return { kind: 'placed', capacity: placement.capacity, nodes, tier: tier.id, subject, weight };
  }
  if (!refusal) return { kind: 'listed', body };
  const { type, status, reason, message, retryAfterSeconds } = refusal;
  const retry = retryAfterSeconds === undefined ? {} : { retryAfterSeconds };
  return { kind: 'refused', type, status, reason, message, ...retry, counted: decision !== undefined };
}
