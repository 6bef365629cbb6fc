/**
 * Asks a node how many tokens a prompt has: a number, or undefined where it cannot or does not tell in time.
 * A count is never worth a failure, so nothing is thrown and nothing is held against the node.
 */
import { tokenCountOf, tokenCountRequest } from '../../shared/dialect/node-answers.ts';
import { toNodeBody } from '../dialect/to-node-body.ts';
import type { CountWatch, TokenCounter } from '../request/context.ts';
import { Refusal } from '../request/refusal.ts';
import { ByteCollector, isJsonType } from './byte-collector.ts';
import { CallFailure, type CallReader, NodeCall, type NodeRequest } from './node-call.ts';
import type { NodePools } from './node-pools.ts';

export interface TokenCounterOptions {
  readonly countMs?: number;
}

/** The answer to a count holds a number, and with some engines the tokens themselves. */
const countBytesMax = 4 * 1024 * 1024;

export function createTokenCounter(
  pools: NodePools,
  { countMs = 2000 }: TokenCounterOptions = {},
): TokenCounter {
  return async (route, shaped, watch = {}) => {
    if (shaped.kind !== 'chat') return undefined;
    const { dialect, served: servedName, url, credential } = route;
    const asked = tokenCountRequest(
      dialect,
      unlessRefused(() => toNodeBody(shaped, dialect, { servedName, maxTokens: 1 })) ?? {},
    );
    if (asked?.body['messages'] === undefined) return undefined;
    const { path, body } = asked;
    const request: NodeRequest = {
      url,
      path,
      body: JSON.stringify(body),
      accept: 'application/json',
      credential,
    };
    return tokenCountOf(dialect, await ask(pools, request, countMs, watch));
  };
}

/** What the dialect cannot carry is refused after routing, by the one that forwards. */
function unlessRefused<Value>(make: () => Value): Value | undefined {
  try {
    return make();
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

/** The node's JSON; undefined where no such answer came. */
function ask(pools: NodePools, request: NodeRequest, ms: number, watch: CountWatch): Promise<unknown> {
  const collector = new ByteCollector(pools.answerBytes, countBytesMax);
  return new Promise((resolve) => {
    const end = (answer: unknown): void => {
      call.abort();
      collector.release();
      resolve(answer);
    };
    const reader: CallReader = {
      onSent: () => watch.onSent?.(),
      onHead: (status, contentType) => {
        if (status !== 200 || !isJsonType(contentType)) end(undefined);
      },
      onData: (chunk) => {
        if (!collector.add(chunk)) end(undefined);
      },
      onEnd: () => end(collector.json()),
      onFailure: (error) => {
        if (error instanceof CallFailure && error.kind === 'unreached') watch.onUnreached?.();
        end(undefined);
      },
    };
    const call = new NodeCall(pools.ticker, reader);
    call.waitAtMost(ms, 'its count');
    call.start(pools, request);
  });
}
