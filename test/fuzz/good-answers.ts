/** Checks the gateway's good answers as strictly as a client of each API would: complete JSON, or a valid stream. */
import type { InferenceKind } from '../../schemas/api/operations.ts';
import { readMessageEvents } from '../support/message-events.ts';
import { readResponseEvents } from '../support/response-events.ts';
import type { ClientAnswer } from './client.ts';
import { refusalFault } from './raw-answers.ts';

/** Content type of an event stream. If it did not name the charset, some clients would read the text as Latin-1. */
export const eventStreamType = 'text/event-stream; charset=utf-8';

type Fields = Readonly<Record<string, unknown>>;

export interface AnswerKind {
  readonly operation: InferenceKind;
  readonly stream: boolean;
}

/**
 * Describes what is wrong with an answer, or returns undefined. A missing head or a cut stream is accepted here, but callers
 * may be stricter.
 */
export function faultOf(answer: ClientAnswer, expected: AnswerKind): string | undefined {
  const { status, fields, body, whole } = answer;
  if (status === 0) return undefined;
  if (status === 500) return `answered 500: ${body.slice(0, 300)}`;
  if (status !== 200)
    return whole ? refusalFault(status, fields, Buffer.from(body).toString('latin1')) : 'a cut refusal';
  if (expected.stream) return streamFault(answer, expected.operation);
  if (!whole) return 'a cut answer that is no stream';
  if (fields['content-type'] !== 'application/json') return `a good answer of type ${fields['content-type']}`;
  return wholeFault(body, expected.operation);
}

function wholeFault(body: string, operation: InferenceKind): string | undefined {
  try {
    const answer = JSON.parse(body) as Fields;
    const right = {
      chat: () =>
        answer['object'] === 'chat.completion' &&
        isList(answer['choices']) &&
        hasNumber(answer, 'prompt_tokens'),
      embeddings: () => answer['object'] === 'list' && isList(answer['data']),
      rerank: () =>
        answer['object'] === 'list' && isList(answer['results']) && hasNumber(answer, 'prompt_tokens'),
      responses: () =>
        answer['object'] === 'response' && isList(answer['output']) && hasNumber(answer, 'total_tokens'),
      messages: () =>
        answer['type'] === 'message' && Array.isArray(answer['content']) && hasNumber(answer, 'input_tokens'),
      'count-tokens': () => Number.isInteger(answer['input_tokens']),
    }[operation]();
    return right ? undefined : `a good answer of another shape: ${body.slice(0, 200)}`;
  } catch {
    return `a good answer that is no JSON: ${body.slice(0, 200)}`;
  }
}

function isList(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0;
}

function hasNumber(answer: Fields, member: string): boolean {
  return Number.isInteger((answer['usage'] as Fields | undefined)?.[member]);
}

/**
 * Checks of a stream, by operation. Each returns whether the terminating event arrived, and throws at the first violation.
 */
const isCompleteBy: Readonly<Partial<Record<InferenceKind, (wire: string) => boolean>>> = {
  chat: readChatEvents,
  messages: (wire) => readMessageEvents(wire).isComplete,
  responses: (wire) => readResponseEvents(wire).end !== undefined,
};

/** Checks every frame of a stream. A complete body must contain the terminating event, and a cut body must not. */
function streamFault({ fields, body, whole }: ClientAnswer, operation: InferenceKind): string | undefined {
  if (fields['content-type'] !== eventStreamType) return `a stream of type ${fields['content-type']}`;
  // Ignores the last frame of a cut stream, because it may be incomplete.
  const wire = whole ? body : body.slice(0, body.lastIndexOf('\n\n') + 2);
  try {
    const isComplete = isCompleteBy[operation]?.(wire) === true;
    if (isComplete === whole) return undefined;
    return whole ? 'a stream ended cleanly without its terminator' : 'a stream was cut behind its terminator';
  } catch (error) {
    return `a stream is not legal: ${(error as Error).message}`.slice(0, 300);
  }
}

/** Returns whether the terminating event arrived, and throws at the first violation. */
function readChatEvents(wire: string): boolean {
  if (wire !== '' && !wire.endsWith('\n\n')) throw new Error('it does not end with a frame');
  let id: unknown;
  let isComplete = false;
  for (const frame of wire.split('\n\n').slice(0, -1)) {
    if (isComplete) throw new Error('a frame behind the terminator');
    const data = /^data: ([^\r\n]+)$/.exec(frame)?.[1];
    if (data === undefined) throw new Error(`no frame: ${JSON.stringify(frame.slice(0, 100))}`);
    if (data === '[DONE]') {
      isComplete = true;
      continue;
    }
    const chunk = JSON.parse(data) as Fields;
    id ??= chunk['id'];
    if (chunk['object'] !== 'chat.completion.chunk' || chunk['id'] !== id || !Array.isArray(chunk['choices']))
      throw new Error(`no chunk: ${data.slice(0, 100)}`);
    if ('error' in chunk) throw new Error('an error in a stream');
  }
  return isComplete;
}
