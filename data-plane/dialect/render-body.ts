/**
 * The bytes that a node is sent for a request, wherever its text is held.
 */
import type { Dialect } from '../../schemas/names.ts';
import { tokenCountRequest } from '../../shared/dialect/node-answers.ts';
import type { AnyChat, AnyEmbeddings, CountQuestion } from '../request/outline.ts';
import { Refusal } from '../request/refusal.ts';
import type { ChatRequest } from '../request/shape.ts';
import { type NodeTarget, toNodeBody } from './to-node-body.ts';

/** Throws UnsupportedShapeError where the dialect cannot carry a field of the request. */
export function renderBody(
  request: AnyChat | AnyEmbeddings,
  dialect: Dialect,
  target: NodeTarget,
): string | Promise<Uint8Array<ArrayBuffer>> {
  if (request.held !== undefined) return request.held.nodeBody(dialect, target);
  return JSON.stringify(toNodeBody(request, dialect, target));
}

/** How a node is asked for the tokens of the prompt; undefined where it cannot be. */
export function renderCount(
  chat: AnyChat,
  dialect: Dialect,
  servedName: string,
): CountQuestion | undefined | Promise<CountQuestion | undefined> {
  if (chat.held !== undefined) return chat.held.countQuestion(dialect, servedName);
  return countQuestion(chat, dialect, servedName);
}

function countQuestion(chat: ChatRequest, dialect: Dialect, servedName: string): CountQuestion | undefined {
  const body = unlessRefused(() => toNodeBody(chat, dialect, { servedName, maxTokens: 1 }));
  const asked = tokenCountRequest(dialect, body ?? {});
  if (asked?.body['messages'] === undefined) return undefined;
  return { path: asked.path, body: JSON.stringify(asked.body) };
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
