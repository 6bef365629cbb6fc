/**
 * Renders the body of a request to a node: here where the text is here, else on the body worker that retains it.
 */
import type { Dialect } from '../../schemas/names.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { tokenCountRequest } from '../../shared/engines/node-answers.ts';
import type { ChatRequest } from '../shape/openai.ts';
import type { AnyChat, AnyEmbeddings, CountRequest, NodeTarget } from '../shape/outline.ts';
import { toNodeBody } from './to-node-body.ts';

/** Throws UnsupportedShapeError where the dialect cannot carry a field of the request. */
export function renderBody(
  request: AnyChat | AnyEmbeddings,
  dialect: Dialect,
  target: NodeTarget,
): string | Promise<Uint8Array<ArrayBuffer>> {
  if (request.workerText !== undefined) return request.workerText.nodeBody(dialect, target);
  return JSON.stringify(toNodeBody(request, dialect, target));
}

/** The request that has a node count the tokens of the prompt; undefined where the node cannot. */
export function renderCount(
  chat: AnyChat,
  dialect: Dialect,
  servedName: string,
): CountRequest | undefined | Promise<CountRequest | undefined> {
  if (chat.workerText !== undefined) return chat.workerText.countRequest(dialect, servedName);
  return countRequest(chat, dialect, servedName);
}

function countRequest(chat: ChatRequest, dialect: Dialect, servedName: string): CountRequest | undefined {
  const body = undefinedIfRefused(() => toNodeBody(chat, dialect, { servedName, maxTokens: 1 }));
  const request = tokenCountRequest(dialect, body ?? {});
  if (request?.body['messages'] === undefined) return undefined;
  return { path: request.path, body: JSON.stringify(request.body) };
}

/** Counting does not refuse a request that the dialect cannot carry: forwarding does, after routing. */
function undefinedIfRefused<Value>(render: () => Value): Value | undefined {
  try {
    return render();
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}
