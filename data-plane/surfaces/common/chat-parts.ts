/**
 * Functions that whole and streamed chat completions share. They copy only permitted parts of a node's response and drop all
 * else, such as fingerprints, timings and ids, because it would reveal the engine or the place.
 */

import type { AskedFacts } from './asked.ts';
import { NodeFailure } from './node-failure.ts';
import { integer, member, text } from './untrusted.ts';
import { type AnsweringNode, type UsageBounds, usageBounds } from './usage.ts';

/** Facts about a request that its response needs on every surface. They are plain values, so a worker can receive them. */
export interface AnswerFacts {
  /** Letters and digits that are unique to this response. The response's id and the ids of its tool calls contain them. */
  readonly unique: string;
  /** Unix time in seconds at which the response was created. */
  readonly created: number;
  readonly model: string;
  /** Number of UTF-8 bytes in the prompt's texts, from which usage is estimated. */
  readonly promptTextBytes: number;
  readonly most: UsageBounds;
  /** Number of choices that a chat requests. 1 for other operations. */
  readonly choices: number;
  readonly logprobs: boolean;
  readonly tools: boolean;
  /** Whether the client allows only one tool call at a time. If an engine ignores this, its further calls are removed. */
  readonly firstToolCallOnly: boolean;
}

/** Collects the facts that a response needs. `unique` and `createdSeconds` become part of the response to the client. */
export function answerFacts(
  asked: AskedFacts,
  { unique, createdSeconds }: { readonly unique: string; readonly createdSeconds: number },
  node: AnsweringNode,
): AnswerFacts {
  const isChat = asked.kind === 'chat';
  return {
    unique,
    created: createdSeconds,
    model: asked.model,
    promptTextBytes: asked.textBytes,
    most: usageBounds(asked, node),
    choices: isChat ? asked.choices : 1,
    logprobs: isChat && asked.logprobs,
    tools: isChat && asked.needs.includes('tools'),
    firstToolCallOnly: isChat && asked.needs.includes('single_tool_call'),
  };
}

/** `id` of a chat completion and of each event of its stream. */
export function completionId({ unique }: Pick<AnswerFacts, 'unique'>): string {
  return `chatcmpl-${unique}`;
}

/** Finish reasons that the chat completions API defines. */
const legalEnds = ['stop', 'length', 'tool_calls', 'content_filter', 'function_call'];
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

export const toolCallsMax = 128;

/** Patterns that match engines' finish reasons: failed, cut off by the token limit, and filtered. */
const failedEnds =
  /abort|cancel|error|fail|time.?out|overload|unavailable|insufficient|interrupt|disconnect/i;
const cutEnds = /length|max.*token/i;
const filteredEnds = /filter|safety|sensitive/i;
/** Finish reasons outside the API that logs and reports may contain. Other texts from a node are not trusted. */
const shownEnds = ['repetition', 'eos', 'eos_token', 'end_turn', 'stop_sequence', 'max_tokens', 'tool_use'];

/**
 * Finish reason for the client. Engines disagree about choices with tool calls, so `tool_calls` is returned whenever there
 * are any. An engine's own reason counts as `stop`, unless its name says more. Throws `NodeFailure` if the node gave up, as
 * with `abort`.
 */
export function finishReason(value: unknown, hasCalls: boolean): FinishReason {
  if (value === undefined) throw malformedAnswer('a choice has no finish reason');
  if (typeof value !== 'string' || failedEnds.test(value))
    throw new NodeFailure('aborted', 'the node abandoned a choice');
  if (cutEnds.test(value)) return 'length';
  if (filteredEnds.test(value)) return 'content_filter';
  return hasCalls ? 'tool_calls' : 'stop';
}

/** Finish reason that the node gave a choice. Undefined while the choice continues, even if the node sends an empty text. */
export function givenEnd(choice: unknown): unknown {
  const given = member(choice, 'finish_reason') ?? '';
  return given === '' || given === 'null' ? undefined : given;
}

/** Description of a finish reason that the API does not define, or undefined if the API defines it. */
export function oddFinish(value: unknown): string | undefined {
  if (typeof value !== 'string' || legalEnds.includes(value)) return undefined;
  return `an unknown finish reason${shownEnds.includes(value) ? `, ${value}` : ''}`;
}

/** Arguments of a tool call that has none. Clients parse arguments as JSON, so an empty string would be wrong. */
export const noArguments = '{}';

/** Returns a text, or the joined texts of a list of parts. Undefined if there is none. Throws `NodeFailure` if invalid. */
export function optionalText(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) throw malformedAnswer('a text is neither a string nor a list of parts');
  return value.length === 0 ? undefined : value.map(partText).join('');
}

function partText(part: unknown): string {
  const text = member(part, 'text');
  if (member(part, 'type') !== 'text' || typeof text !== 'string')
    throw malformedAnswer('a list of text parts contains something else');
  return text;
}

/** Arguments of a complete tool call as JSON text. Some engines send an object instead. Throws `NodeFailure` if invalid. */
export function callArguments(given: unknown): string {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return optionalText(given) ?? '';
  return JSON.stringify(given, (_name, value: unknown) => {
    // The client would not notice that parsing JSON has rounded this number.
    if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER)
      throw malformedAnswer('the arguments of a tool call are an object with a number that is too large');
    return value;
  });
}

/** Index of a choice in a node's response, 0 if absent and only one choice was requested. Throws `NodeFailure` if invalid. */
export function choiceIndex(choice: unknown, { choices }: Pick<AnswerFacts, 'choices'>): number {
  const given = member(choice, 'index') ?? (choices === 1 ? 0 : undefined);
  const index = integer(given);
  if (index === undefined || index >= choices) throw malformedAnswer('a choice was not requested');
  return index;
}

/** Tool calls in a message or delta from a node. Some engines send a single call, not a list. Throws `NodeFailure`. */
export function readToolCalls(message: unknown): readonly object[] {
  const given = member(message, 'tool_calls') ?? [];
  const calls: readonly unknown[] = Array.isArray(given) ? given : [given];
  return calls.filter((call): call is object => {
    if (typeof call !== 'object') throw malformedAnswer('a tool call is not an object');
    return call !== null;
  });
}

/** The model's reasoning, which engines send under one of two names. */
export function readReasoning(message: unknown): string | undefined {
  return optionalText(member(message, 'reasoning_content')) || optionalText(member(message, 'reasoning'));
}

/**
 * Id of a tool call for the client. An engine's own ids would reveal the engine, so they are replaced. Ids that the model
 * itself writes, such as `functions.name:0`, are kept, because the model must find them in its next prompt.
 */
export function toolCallId(facts: AnswerFacts, choice: number, call: number, given: unknown): string {
  const id = text(given);
  if (id !== undefined && /^functions\.[A-Za-z0-9_.-]{1,80}:\d{1,3}$/.test(id)) return id;
  return `call_${facts.unique}${base36(choice)}${base36(call)}`;
}

function base36(value: number): string {
  return value.toString(36).padStart(2, '0');
}

export interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[] | null;
}

export interface ChatLogprobs {
  readonly content: readonly (TokenLogprob & { readonly top_logprobs: readonly TokenLogprob[] })[];
  readonly refusal: null;
}

/** Log probability that the API uses for an impossible token. JSON has no minus infinity, so engines send null. */
const impossible = -9999;

/** Copies log probabilities, with only the members that the API defines. */
export function rebuildLogprobs(value: unknown): ChatLogprobs | null {
  const content = member(value, 'content');
  if (!Array.isArray(content) || content.length === 0) return null;
  return {
    content: content.map((entry: unknown) => {
      const top = member(entry, 'top_logprobs');
      return { ...tokenLogprob(entry), top_logprobs: Array.isArray(top) ? top.map(tokenLogprob) : [] };
    }),
    refusal: null,
  };
}

function tokenLogprob(entry: unknown): TokenLogprob {
  const token = member(entry, 'token');
  const logprob = member(entry, 'logprob') ?? impossible;
  if (typeof token !== 'string' || typeof logprob !== 'number')
    throw malformedAnswer('a log probability has no token');
  const bytes = member(entry, 'bytes');
  return {
    token,
    logprob: Number.isFinite(logprob) ? logprob : impossible,
    bytes: Array.isArray(bytes) ? bytes.filter((byte) => Number.isInteger(byte)) : null,
  };
}

/** Throws `NodeFailure` if the node answered with an error, in any of the formats that engines use. */
export function refuseError(answer: unknown): void {
  const error = member(answer, 'error') ?? '';
  if ((error !== '' && error !== false) || member(answer, 'object') === 'error') {
    throw new NodeFailure('error', 'the node answered with an error', answer);
  }
}

export function tooManyCalls(): NodeFailure {
  return new NodeFailure('too_large', 'the answer of the node has too many tool calls');
}

export function malformedAnswer(what: string): NodeFailure {
  return new NodeFailure('malformed', `the node's answer is malformed: ${what}`);
}
