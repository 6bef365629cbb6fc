/**
 * Functions that chat completions and their streams share. They copy permitted parts of a node's answer one by one.
 * Everything else is dropped, because it would reveal the engine or the place, such as fingerprints, timings and ids.
 */

import type { AskedFacts } from './asked.ts';
import { NodeFailure } from './node-failure.ts';
import { integer, member, text } from './untrusted.ts';
import { type AnsweringNode, type UsageBounds, usageBounds } from './usage.ts';

/** Facts that every answer needs besides the node's output and the surface's context. They are plain values. */
export interface AnswerFacts {
  /** Letters and digits unique to the answer. Its id and those of its tool calls end in them. */
  readonly unique: string;
  /** Unix time in seconds. */
  readonly created: number;
  /** The model's name as requested. */
  readonly model: string;
  /** UTF-8 bytes of the prompt's texts, to estimate usage. */
  readonly promptTextBytes: number;
  readonly most: UsageBounds;
  /** Number of choices of a chat. Other operations have one choice and none of the following. */
  readonly choices: number;
  readonly logprobs: boolean;
  readonly tools: boolean;
  /** Whether the client allows only one tool call at a time. If an engine ignores that, its answer is trimmed. */
  readonly firstToolCallOnly: boolean;
}

/** Facts for an answer. `unique` and `createdSeconds` belong to the response to the client. */
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

/** Finish reasons that the API defines. */
const legalEnds = ['stop', 'length', 'tool_calls', 'content_filter', 'function_call'];
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

/** Maximum number of tool calls in one choice. */
export const toolCallsMax = 128;

/** Patterns of engine-specific finish reasons, by their meaning. */
const failedEnds =
  /abort|cancel|error|fail|time.?out|overload|unavailable|insufficient|interrupt|disconnect/i;
const cutEnds = /length|max.*token/i;
const filteredEnds = /filter|safety|sensitive/i;
/** Finish reasons that logs and reports may show. Any other text comes from the node and is untrusted. */
const shownEnds = ['repetition', 'eos', 'eos_token', 'end_turn', 'stop_sequence', 'max_tokens', 'tool_use'];

/**
 * Finish reason for the client. Engines disagree about choices with tool calls, so here the calls decide. An engine-specific
 * reason counts as `stop` unless its name says more. Throws NodeFailure if the node gave up, as with `abort`.
 */
export function finishReason(value: unknown, hasCalls: boolean): FinishReason {
  if (value === undefined) throw malformedAnswer('a choice has no finish reason');
  if (typeof value !== 'string' || failedEnds.test(value))
    throw new NodeFailure('aborted', 'the node gave up a choice');
  if (cutEnds.test(value)) return 'length';
  if (filteredEnds.test(value)) return 'content_filter';
  return hasCalls ? 'tool_calls' : 'stop';
}

/** The node's finish reason of a choice. undefined while the choice continues. Some engines then send an empty text. */
export function givenEnd(choice: unknown): unknown {
  const given = member(choice, 'finish_reason') ?? '';
  return given === '' || given === 'null' ? undefined : given;
}

/** Describes a finish reason that the API does not define. Returns undefined for any other. */
export function oddFinish(value: unknown): string | undefined {
  if (typeof value !== 'string' || legalEnds.includes(value)) return undefined;
  return `a finish reason of its own${shownEnds.includes(value) ? `, ${value}` : ''}`;
}

/** Arguments of a tool call without arguments. Never an empty text, because clients parse the arguments as JSON. */
export const noArguments = '{}';

/** Reads a text or list of text parts; undefined for null, an empty list or a missing value. Throws NodeFailure. */
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

/** Arguments of a complete tool call as JSON. Some engines send the object itself. Throws NodeFailure. */
export function callArguments(given: unknown): string {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return optionalText(given) ?? '';
  return JSON.stringify(given, (_name, value: unknown) => {
    // Parsing has rounded this number, and the client could not notice that.
    if (typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER)
      throw malformedAnswer('the arguments of a tool call are an object with a number that is too large');
    return value;
  });
}

/** Index of a choice. It may be missing if only one choice was requested. Throws NodeFailure. */
export function choiceIndex(choice: unknown, { choices }: Pick<AnswerFacts, 'choices'>): number {
  const given = member(choice, 'index') ?? (choices === 1 ? 0 : undefined);
  const index = integer(given);
  if (index === undefined || index >= choices) throw malformedAnswer('a choice was not asked for');
  return index;
}

/** Tool calls of a message or delta. Some engines send a single call without a list. Throws NodeFailure. */
export function readToolCalls(message: unknown): readonly object[] {
  const given = member(message, 'tool_calls') ?? [];
  const calls: readonly unknown[] = Array.isArray(given) ? given : [given];
  return calls.filter((call): call is object => {
    if (typeof call !== 'object') throw malformedAnswer('a tool call is not an object');
    return call !== null;
  });
}

/** Reasoning of the model, for which engines use one of two names. */
export function readReasoning(message: unknown): string | undefined {
  return optionalText(member(message, 'reasoning_content')) || optionalText(member(message, 'reasoning'));
}

/**
 * Tool call id for the client. The engine's ids would reveal it, so they are replaced, except those that the model itself
 * writes, such as `functions.name:0`, because it must find them in its next prompt.
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

/** Stands for minus infinity in this API. JSON cannot express it, so engines send null. */
const impossible = -9999;

/** Log probabilities with only the members that the API defines. */
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

/** Throws NodeFailure if the node answered with an error, in any of the formats that engines use. */
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
