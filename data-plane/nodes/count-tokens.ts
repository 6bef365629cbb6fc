/**
 * Asks a node how many tokens a prompt has. The result is undefined if the node cannot count or does not answer in time. A
 * count must never fail a request, so nothing is thrown, and the node's health is not affected.
 */

import type { Dialect } from '../../schemas/names.ts';
import { readTokenCount } from '../../shared/engines/node-answers.ts';
import { waits } from '../../shared/runtime/waits.ts';
import type { Route } from '../../shared/snapshot/lookup.ts';
import type { BodyWorker } from '../body-worker/body-worker.ts';
import { mayBeSmall, parseSmallAnswer } from '../surfaces/common/answer-json.ts';
import type { AskedRequest } from '../surfaces/common/asked.ts';
import { renderCount } from '../surfaces/common/node-body.ts';
import { BodyPieces } from './body-pieces.ts';
import { ByteCollector, isJsonType } from './byte-collector.ts';
import { CallFailure, type CallReader, NodeCall, type NodeRequest } from './node-call.ts';
import type { NodePools } from './node-pools.ts';

/** Callbacks that tell what happens to the connection to the node that counts. */
export interface CountWatch {
  /** Called when the prompt is being sent to the node. */
  readonly onSent?: () => void;
  /** Called if no connection to the node could be obtained. */
  readonly onUnreached?: () => void;
}

/** Makes a node count a prompt's tokens. Undefined if the node cannot. Memory for the response is charged to `owner`. */
export type PromptCounter = (
  route: Route,
  asked: AskedRequest,
  owner: string,
  watch?: CountWatch,
) => Promise<number | undefined>;

export interface PromptCounterOptions {
  readonly countMs?: number;
}

/** Maximum size of the node's response. Some engines list all tokens in addition to their number. */
const countBytesMax = 4 * 1024 * 1024;
/** Time-out in ms for parsing a large response. */
const countReadMs = 2000;

export function createPromptCounter(
  pools: NodePools,
  bodyWorker: BodyWorker,
  { countMs = waits.nodeCount.ms }: PromptCounterOptions = {},
): PromptCounter {
  return async (route, asked, owner, watch = {}) => {
    if (asked.kind !== 'chat') return undefined;
    const { node, dialect, served, url, credential } = route;
    const rendered = await renderCount(asked, dialect, served);
    if (rendered === undefined) return undefined;
    const { path, body: text } = rendered;
    const body = typeof text === 'string' ? text : new BodyPieces(text);
    const request: NodeRequest = { url, path, body, accept: 'application/json', credential };
    const collector = new ByteCollector(pools.answerBytes.of(owner), countBytesMax);
    const answer = await ask(pools, request, collector, { ...watch, ms: countMs });
    try {
      return answer && (await countBody(answer, dialect, { bodyWorker, node }));
    } finally {
      answer?.release();
    }
  };
}

/** Parses the node's response. The body worker parses large ones, because some engines list every token. */
async function countBody(
  answer: ByteCollector,
  dialect: Dialect,
  { bodyWorker, node }: { readonly bodyWorker: BodyWorker; readonly node: string },
): Promise<number | undefined> {
  const small = mayBeSmall(answer.length) ? parseSmallAnswer(answer.whole()) : 'large';
  if (small !== 'large') return readTokenCount(dialect, small.value);
  const job = { kind: 'parse-count', dialect, blocks: answer.takeChunks() } as const;
  const options = { owner: `node:${node}`, signal: AbortSignal.timeout(countReadMs) };
  return bodyWorker.run(job, 'count', options).then(
    ({ tokens }) => tokens,
    () => undefined,
  );
}

/** Sends the request. Returns the response's body, which the caller must release, or undefined if it is not usable. */
function ask(
  pools: NodePools,
  request: NodeRequest,
  collector: ByteCollector,
  { ms, ...watch }: CountWatch & { readonly ms: number },
): Promise<ByteCollector | undefined> {
  return new Promise((resolve) => {
    const fail = (): void => {
      call.abort();
      collector.release();
      resolve(undefined);
    };
    const reader: CallReader = {
      onSent: () => watch.onSent?.(),
      onHead: (status, contentType) => {
        if (status !== 200 || !isJsonType(contentType)) fail();
      },
      onData: (chunk) => {
        if (!collector.add(chunk)) fail();
      },
      onEnd: () => resolve(collector),
      onFailure: (error) => {
        if (error instanceof CallFailure && error.kind === 'unreached') watch.onUnreached?.();
        fail();
      },
    };
    const call = new NodeCall(pools.ticker, reader);
    call.setDeadline(ms, 'its count');
    call.start(pools, request);
  });
}
