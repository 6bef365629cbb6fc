/** Divides a validated request into an outline, which goes to the main thread, and its text, which the worker keeps. */

import type { AskedFacts, ChatFacts, WholeChat, WorkerText } from '../surfaces/common/asked.ts';
import { pathOfImage } from '../surfaces/common/node-body.ts';
import { hashPrefixes } from '../surfaces/common/prompt-prefix.ts';
import { leastChatTokens } from '../surfaces/common/prompt-size.ts';
import type { ValidRequest, WholeValidRequest } from '../surfaces/surfaces.ts';

/** Part of a request that is sent to the main thread: plain values whose size does not depend on the body. */
export interface RequestOutline extends Omit<ValidRequest, 'asked'> {
  readonly asked: AskedFacts;
}

/** Creates the outline of a request, on the worker. */
export function toOutline({ asked, form }: WholeValidRequest): RequestOutline {
  if (asked.kind === 'chat') return { asked: chatFacts(asked), form };
  const { body: _body, workerText: _text, ...facts } = asked;
  return { asked: facts, form };
}

/** Combines an outline with a reference to the request's text, on the main thread. */
export function withText({ asked, form }: RequestOutline, workerText: WorkerText): ValidRequest {
  return { asked: { ...asked, workerText }, form };
}

function chatFacts({ body, cacheKey, workerText: _, source: __, ...facts }: WholeChat): ChatFacts {
  const images = facts.needs.includes('images') ? { images: pathOfImage(body) } : {};
  return {
    ...facts,
    leastTokens: leastChatTokens(body),
    prefixes: hashPrefixes(body, cacheKey),
    paths: { ...images, ...facts.paths },
  };
}
