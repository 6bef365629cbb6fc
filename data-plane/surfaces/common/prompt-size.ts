/**
 * Estimates the size of a prompt without a tokeniser. No byte-level vocabulary needs more tokens than bytes, so most requests
 * pass the context limit without a count (specification, Limits 3). Estimates of prompt size are never billed.
 */

import type { ChatFields, EmbeddingsFields } from '../../../schemas/api/openai.ts';
import type { ChatMessage } from '../../../schemas/api/openai-messages.ts';

/** Maximum number of tokens that a chat template adds to each message and to the whole prompt. */
const tokensPerMessage = 32;
const tokensPerPrompt = 512;
/** Maximum number of tokens that a template adds to one query and document. */
export const tokensPerPair = 256;
/** Number of tokens in one image: the upper bound for a large image, a typical value, and the lower bound for a small one. */
const tokensPerImageMost = 4096;
const tokensPerImage = 1024;
const tokensPerImageLeast = 4;
/** Bytes per token in typical text. This is on the low side, so that the number of tokens is not underestimated. */
const bytesPerToken = 3;

export interface PromptSize {
  /** Upper bound on the number of tokens in the prompt, because a token has at least one byte. */
  readonly promptBytes: number;
  /** Lower bound on the number of tokens in the prompt. Chats compute it on demand, because few requests need it. */
  readonly leastTokens?: number;
  /** Likely number of tokens, between the two bounds. If in doubt, this is too high rather than too low. */
  readonly likelyTokens: number;
  /** Number of UTF-8 bytes in the texts alone. Usage is estimated from this number if the node does not report usage. */
  readonly textBytes: number;
}

type ChatPromptFields = Readonly<Pick<ChatFields, 'messages' | 'tools' | 'response_format'>>;

export function chatPromptSize(body: ChatPromptFields): Omit<PromptSize, 'leastTokens'> {
  let textBytes = 0;
  let images = 0;
  for (const message of body.messages) {
    textBytes += byteLength(message.name) + extrasBytes(message);
    if (!Array.isArray(message.content)) {
      textBytes += byteLength(message.content);
      continue;
    }
    for (const part of message.content) {
      if (part.type === 'text') textBytes += byteLength(part.text);
      else images += 1;
    }
  }
  const declared = jsonBytes(body.tools) + jsonBytes(body.response_format);
  textBytes += declared;
  // Count tools and the response format twice, because a template may indent their JSON.
  const frame = tokensPerMessage * body.messages.length + tokensPerPrompt;
  return {
    promptBytes: textBytes + declared + frame + images * tokensPerImageMost,
    likelyTokens: estimateTokens(textBytes) + images * tokensPerImage,
    textBytes,
  };
}

/** Lower bound on the number of tokens in a chat's prompt. */
export function leastChatTokens(body: ChatPromptFields): number {
  let least = 0;
  for (const message of body.messages) {
    if (!Array.isArray(message.content)) {
      least += leastMessageTokens(message, message.content ?? '');
      continue;
    }
    let parts = 0;
    for (const part of message.content) {
      // Subtract one token per further part, because one token may contain the end of a part and the start of the next.
      if (part.type === 'text')
        least += Math.max(0, leastMessageTokens(message, part.text) - Math.min(parts++, 1));
      else least += tokensPerImageLeast;
    }
  }
  return least;
}

/** Size of an embeddings request. Each input is a prompt: the bounds are those of the largest, `textBytes` is the sum. */
export function embeddingsPromptSize(input: EmbeddingsFields['input']): PromptSize {
  let largest = 0;
  let least = 0;
  let largestText = 0;
  let textBytes = 0;
  for (const one of typeof input === 'string' || typeof input[0] === 'number' ? [input] : input) {
    const isText = typeof one === 'string';
    const bound = isText ? byteLength(one) : (one as number[]).length;
    // Count a token id in the input as four bytes of text.
    const text = isText ? bound : bound * 4;
    largest = Math.max(largest, bound);
    least = Math.max(least, isText ? leastTokens(one) : bound);
    largestText = Math.max(largestText, text);
    textBytes += text;
  }
  return {
    promptBytes: largest + tokensPerMessage,
    leastTokens: least,
    likelyTokens: estimateTokens(largestText),
    textBytes,
  };
}

/** Size of a rerank request. The bounds are those of the query and the largest document. `textBytes` is the sum of all. */
export function rerankPromptSize(query: string, documents: readonly string[]): PromptSize {
  const queryBytes = byteLength(query);
  const queryLeast = leastTokens(query);
  let largest = 0;
  let least = 0;
  let textBytes = 0;
  for (const document of documents) {
    const bytes = queryBytes + byteLength(document);
    largest = Math.max(largest, bytes);
    // Subtract one token, which may contain both the end of the query and the start of the document.
    least = Math.max(least, queryLeast + leastTokens(document) - 1);
    textBytes += bytes;
  }
  return {
    promptBytes: largest + tokensPerPair,
    leastTokens: Math.max(0, least),
    likelyTokens: estimateTokens(largest),
    textBytes,
  };
}

function estimateTokens(textBytes: number): number {
  return Math.ceil(textBytes / bytesPerToken) + 8;
}

/** Lower bound on a message's tokens. 0 if the message contains reasoning, because templates may leave it out. */
function leastMessageTokens(message: ChatMessage, text: string): number {
  return message.role === 'assistant' && text.includes('</think>') ? 0 : leastTokens(text);
}

function extrasBytes(message: ChatMessage): number {
  if (message.role === 'tool') return byteLength(message.tool_call_id);
  if (message.role !== 'assistant') return 0;
  let bytes = byteLength(message.reasoning_content) + byteLength(message.reasoning);
  // Also count the separator that is written between content and refusal.
  if (message.refusal !== undefined) bytes += byteLength(message.refusal) + 2;
  for (const call of message.tool_calls ?? []) {
    bytes += byteLength(call.id) + byteLength(call.function.name) + byteLength(call.function.arguments) + 32;
  }
  return bytes;
}

function byteLength(text: string | undefined): number {
  return text === undefined ? 0 : Buffer.byteLength(text);
}

function jsonBytes(value: unknown): number {
  return value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value));
}

/** Maximum number of units in one token. A character has a number of units that depends on its script. */
const unitsPerToken = 72;
const unitsOfAscii = 1;
/** Number of units of a character in scripts without spaces between words, from kana to the last ideograph. */
const unitsOfHan = 4;
const unitsOfOther = 3;

/** Lower bound on the number of tokens in a text. Must be cheap, because it reads every character of a prompt. */
export function leastTokens(text: string): number {
  let tokens = 0;
  let units = 0;
  let previous = -1;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === previous) continue;
    previous = code;
    if (isSpace(code)) {
      if (units > 0) tokens += Math.ceil(units / unitsPerToken);
      units = 0;
    } else units += code < 0x80 ? asciiUnits(code) : otherUnits(code);
  }
  return tokens + Math.ceil(units / unitsPerToken);
}

function isSpace(code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d);
}

function asciiUnits(code: number): number {
  const letter = code | 0x20;
  const isAlphanumeric = (letter >= 0x61 && letter <= 0x7a) || (code >= 0x30 && code <= 0x39);
  return isAlphanumeric ? unitsOfAscii : 0;
}

/** Number of units of a character outside ASCII. 0 for spaces, controls and punctuation, which a tokeniser may drop. */
function otherUnits(code: number): number {
  if (code >= 0x3040 && code <= 0x9fff) return unitsOfHan;
  const isZero =
    code < 0xc0 ||
    (code >= 0x2000 && code <= 0x2bff) ||
    (code >= 0x3000 && code <= 0x303f) ||
    (code >= 0xfe00 && code <= 0xfe0f) ||
    code === 0xfeff;
  return isZero ? 0 : unitsOfOther;
}
