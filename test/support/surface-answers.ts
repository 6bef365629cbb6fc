/** The APIs that answer chats, with one way to call, run and read them all, for tests of properties that they share. */
import { readFileSync } from 'node:fs';
import { type AnswerFacts, answerFacts } from '../../data-plane/surfaces/common/chat-parts.ts';
import { SseReader } from '../../data-plane/surfaces/common/sse-reader.ts';
import type { RebuiltBody } from '../../data-plane/surfaces/common/surface.ts';
import type { SurfaceStream } from '../../data-plane/surfaces/common/surface-stream.ts';
import {
  type AnswerForm,
  shapeOperation,
  streamedAnswer,
  wholeAnswer,
} from '../../data-plane/surfaces/surfaces.ts';
import { BodyBudget, type MemoryBudget } from '../../shared/runtime/byte-budget.ts';
import { readMessageEvents } from './message-events.ts';
import { readResponseEvents } from './response-events.ts';

type Fields = Readonly<Record<string, unknown>>;

/** An answer in a form that does not depend on the API. */
export interface ReadAnswer {
  readonly text: string;
  readonly thoughts: string;
  readonly calls: readonly (readonly [name: string, input: string])[];
  readonly ids: readonly string[];
  /** Reason why the model stopped, in the words of the API. */
  readonly finish: unknown;
  /** True if the stream reached its end. */
  readonly isComplete: boolean;
  readonly promptTokens: number | undefined;
  readonly completionTokens: number | undefined;
}

export interface Setup {
  readonly tools?: boolean;
  readonly oneCall?: boolean;
  readonly fields?: object;
}

export interface AnswerSurface {
  readonly name: 'chat' | 'messages' | 'responses';
  readonly body: (wanted: Setup) => object;
  readonly readStream: (wire: string) => ReadAnswer;
  readonly readWhole: (body: object) => ReadAnswer;
}

const question = { model: 'asked', max_tokens: 50, messages: [{ role: 'user', content: 'hi' }] };
const toolNames = ['set_unit', 'f', 'g'];

interface ChatMessage {
  readonly content?: string | null;
  readonly refusal?: string | null;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly {
    readonly index?: number;
    readonly id?: string;
    readonly function: { readonly name?: string; readonly arguments: string };
  }[];
}

interface ChatAnswer {
  readonly choices: readonly {
    readonly message?: ChatMessage;
    readonly delta?: ChatMessage;
    readonly finish_reason: string | null;
  }[];
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } | null;
}

function readChat(answers: readonly ChatAnswer[], isComplete: boolean): ReadAnswer {
  const messages = answers.flatMap(({ choices }) =>
    choices.map(({ message, delta }) => message ?? delta ?? {}),
  );
  const joined = (field: 'content' | 'refusal' | 'reasoning_content') =>
    messages.map((message) => message[field] ?? '').join('');
  const calls: [string, string][] = [];
  const ids: string[] = [];
  for (const { tool_calls = [] } of messages)
    for (const [at, { index = at, id, function: called }] of tool_calls.entries()) {
      if (id !== undefined) ids.push(id);
      const [name, input] = calls[index] ?? ['', ''];
      calls[index] = [name + (called.name ?? ''), input + called.arguments];
    }
  const usage = answers.at(-1)?.usage;
  return {
    text: joined('content') + joined('refusal'),
    thoughts: joined('reasoning_content'),
    calls,
    ids,
    finish: answers.flatMap(({ choices }) => choices).at(-1)?.finish_reason,
    isComplete,
    promptTokens: usage?.prompt_tokens,
    completionTokens: usage?.completion_tokens,
  };
}

function readMessage(
  content: readonly Fields[],
  { usage, finish }: { usage: unknown; finish: unknown },
  isComplete: boolean,
): ReadAnswer {
  const joined = (field: string) => content.map((block) => String(block[field] ?? '')).join('');
  const calls = content.filter(({ type }) => type === 'tool_use');
  const counts = usage as Readonly<Record<string, number>> | undefined;
  return {
    text: joined('text'),
    thoughts: joined('thinking'),
    calls: calls.map(({ name, input }) => [
      String(name),
      typeof input === 'string' ? input : JSON.stringify(input),
    ]),
    ids: calls.map(({ id }) => String(id)),
    finish,
    isComplete,
    promptTokens: counts && (counts['input_tokens'] ?? 0) + (counts['cache_read_input_tokens'] ?? 0),
    completionTokens: counts?.['output_tokens'],
  };
}

export const chatSurface: AnswerSurface = {
  name: 'chat',
  body: ({ tools = false, oneCall = false }) => ({
    ...question,
    ...(tools && { tools: toolNames.map((name) => ({ type: 'function', function: { name } })) }),
    ...(oneCall && { parallel_tool_calls: false }),
  }),
  readStream: (wire) => {
    const frames = wire.split('\n\n').filter((frame) => frame !== '');
    const isComplete = frames.at(-1) === 'data: [DONE]';
    const chunks = frames.slice(0, isComplete ? -1 : undefined);
    return readChat(
      chunks.map((frame) => JSON.parse(frame.slice('data: '.length)) as ChatAnswer),
      isComplete,
    );
  },
  readWhole: (body) => readChat([body as ChatAnswer], true),
};

export const messagesSurface: AnswerSurface = {
  name: 'messages',
  body: ({ tools = false, oneCall = false }) => ({
    ...question,
    ...(tools && { tools: toolNames.map((name) => ({ name, input_schema: { type: 'object' } })) }),
    ...(oneCall && { tool_choice: { type: 'any', disable_parallel_tool_use: true } }),
  }),
  readStream: (wire) => {
    const { content, end, isComplete } = readMessageEvents(wire);
    const finish = (end?.['delta'] as Fields | undefined)?.['stop_reason'];
    return readMessage(content, { usage: end?.['usage'], finish }, isComplete);
  },
  readWhole: (body) => {
    const { content, usage, stop_reason: finish } = body as { content: Fields[] } & Fields;
    return readMessage(content, { usage, finish }, true);
  },
};

function readItems(items: readonly Fields[], end: Fields | undefined): ReadAnswer {
  const texts = (type: string, member: string): string =>
    items
      .filter((item) => item['type'] === type)
      .flatMap((item) => item[member] as readonly Fields[])
      .map((part) => String(part['text'] ?? part['refusal']))
      .join('');
  const calls = items.filter((item) => 'call_id' in item);
  const usage = end?.['usage'] as Readonly<Record<string, number>> | undefined;
  const details = end?.['incomplete_details'] as Fields | null | undefined;
  return {
    text: texts('message', 'content'),
    thoughts: texts('reasoning', 'summary'),
    calls: calls.map((call) => [String(call['name']), String(call['arguments'] ?? call['input'])]),
    ids: calls.map((call) => String(call['call_id'])),
    finish: details?.['reason'] ?? end?.['status'],
    isComplete: end !== undefined,
    promptTokens: usage?.['input_tokens'],
    completionTokens: usage?.['output_tokens'],
  };
}

export const responsesSurface: AnswerSurface = {
  name: 'responses',
  body: ({ tools = false, oneCall = false }) => ({
    ...{ model: 'asked', max_output_tokens: 50, input: 'hi' },
    ...(tools && { tools: toolNames.map((name) => ({ type: 'function', name })) }),
    ...(oneCall && { parallel_tool_calls: false }),
  }),
  readStream: (wire) => {
    const { soFar, end } = readResponseEvents(wire);
    return readItems(soFar, end);
  },
  readWhole: (body) => {
    const end = body as { readonly output: readonly Fields[] };
    return readItems(end.output, end as unknown as Fields);
  },
};

export const answerSurfaces: readonly AnswerSurface[] = [chatSurface, messagesSurface, responsesSurface];

type RequestForm = { readonly facts: AnswerFacts; readonly form: AnswerForm };
const known = new Map<string, RequestForm>();

/** Returns facts about a request. They are computed once per request, because property tests need them in every run. */
function knownOf({ name, body }: AnswerSurface, wanted: Setup, stream: boolean): RequestForm {
  const usage = name === 'chat' && stream ? { stream_options: { include_usage: true } } : {};
  const text = JSON.stringify({ ...body(wanted), stream, ...usage, ...wanted.fields });
  const before = known.get(name + text);
  if (before !== undefined) return before;
  const headers = { contentType: 'application/json', version: undefined };
  const { asked, form } = shapeOperation({ kind: name }, Buffer.from(text), headers);
  if (form === undefined) throw new Error('has no answer');
  const ids = { unique: '0123456789abcdef', createdSeconds: 1_800_000_000 };
  const found = { facts: answerFacts(asked, ids, { maxTokens: 50, windowTokens: null }), form };
  known.set(name + text, found);
  return found;
}

/** Rebuilds a node's parsed answer in the form of the API. */
export function rebuiltBy(surface: AnswerSurface, answer: unknown, wanted: Setup = {}): RebuiltBody {
  const { facts, form } = knownOf(surface, wanted, false);
  const { body, ...rest } = wholeAnswer(answer, facts, form);
  return { body: JSON.parse(body), ...rest };
}

export function streamOf(
  surface: AnswerSurface,
  wanted: Setup = {},
  memory: MemoryBudget = new BodyBudget(),
): SurfaceStream {
  const { facts, form } = knownOf(surface, wanted, true);
  return streamedAnswer(facts, form, memory);
}

export interface RanStream {
  readonly stream: SurfaceStream;
  /** The stream's bytes as sent to the client. */
  readonly wire: string;
  readonly read: ReadAnswer;
}

/**
 * Passes the bytes through the reader and the stream, then ends the body as a node does that closes its connection cleanly.
 */
export function ranBy(surface: AnswerSurface, pieces: readonly Uint8Array[], wanted: Setup = {}): RanStream {
  const stream = streamOf(surface, wanted);
  let wire = '';
  const reader = new SseReader({
    onData: (data) => {
      wire += stream.push(data).join('');
    },
    onFailure: (failure) => stream.fail(failure),
  });
  for (const piece of pieces) reader.push(piece);
  reader.end();
  stream.end();
  return { stream, wire, read: surface.readStream(wire) };
}

/** An event that a node sends. A string is the raw data of an event. */
export type NodeEvent = object | string;

export function bytesOf(events: readonly NodeEvent[]): Buffer {
  const texts = events.map((event) => (typeof event === 'string' ? event : JSON.stringify(event)));
  return Buffer.from(texts.map((text) => `data: ${text}\n\n`).join(''));
}

export const chunk = (delta: object, finish: string | null = null, more: object = {}) => ({
  id: 'x',
  model: 'm',
  choices: [{ index: 0, delta, finish_reason: finish, ...more }],
});

const fixture = (name: string) => readFileSync(new URL(`../fixtures/captures/${name}`, import.meta.url));
/** Returns an engine's event stream, as it was captured. */
export const captured = (name: string): Buffer => fixture(`${name}.sse`);
export const capturedJson = (name: string): Record<string, unknown> =>
  JSON.parse(fixture(`${name}.json`).toString());
