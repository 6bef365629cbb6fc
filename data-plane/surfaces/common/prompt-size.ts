/**
 * How large a prompt can be, without a tokeniser: a byte-level vocabulary never needs more tokens than bytes.
 * The upper bound lets most requests pass the context limit uncounted (Limits 3); it is never what is billed.
 */

import type { ChatFields, EmbeddingsFields } from '../../../schemas/api/openai.ts';
import type { ChatMessage } from '../../../schemas/api/openai-messages.ts';

/** What a chat template may add to each message, and to the whole, in tokens. */
const tokensPerMessage = 32;
const tokensPerPrompt = 512;
/** The same for a query with one document. */
export const tokensPerPair = 256;
/** Taken for one image: what models that take images make of a large one, of an ordinary one, and of the smallest. */
const tokensPerImageMost = 4096;
const tokensPerImage = 1024;
const tokensPerImageLeast = 4;
/** Typical text has at least this many bytes a token. */
const bytesPerToken = 3;

export interface PromptSize {
  /** Upper bound of the prompt in tokens, found without counting any: at most one token a byte. */
  readonly promptBytes: number;
  /** Lower bound of the prompt in tokens. A chat's is worked out by `leastTokensOf`: few requests need it, and it reads all text. */
  readonly leastTokens?: number;
  /** An estimate between the two, rather too high. */
  readonly likelyTokens: number;
  /** UTF-8 bytes of the texts alone, for an estimate of usage where a node reports none. */
  readonly textBytes: number;
}

/** The fields of a chat that its prompt is made of. */
type ChatPromptFields = Readonly<Pick<ChatFields, 'messages' | 'tools' | 'response_format'>>;

export function chatPromptSize(body: ChatPromptFields): Omit<PromptSize, 'leastTokens'> {
  let textBytes = 0;
  let images = 0;
  for (const message of body.messages) {
    textBytes += bytesOf(message.name) + extrasBytes(message);
    if (!Array.isArray(message.content)) {
      textBytes += bytesOf(message.content);
      continue;
    }
    for (const part of message.content) {
      if (part.type === 'text') textBytes += bytesOf(part.text);
      else images += 1;
    }
  }
  const declared = jsonBytes(body.tools) + jsonBytes(body.response_format);
  textBytes += declared;
  // Counted twice: a template may indent the JSON of the tools.
  const frame = tokensPerMessage * body.messages.length + tokensPerPrompt;
  return {
    promptBytes: textBytes + declared + frame + images * tokensPerImageMost,
    likelyTokens: likelyOf(textBytes) + images * tokensPerImage,
    textBytes,
  };
}

/** Lower bound of a chat's prompt in tokens. */
export function leastChatTokens(body: ChatPromptFields): number {
  let least = 0;
  for (const message of body.messages) {
    if (!Array.isArray(message.content)) {
      least += leastOf(message, message.content ?? '');
      continue;
    }
    let parts = 0;
    for (const part of message.content) {
      // Parts may be joined without a space, so that one token holds the end of one and the start of the next.
      if (part.type === 'text') least += Math.max(0, leastOf(message, part.text) - Math.min(parts++, 1));
      else least += tokensPerImageLeast;
    }
  }
  return least;
}

/** Each input is a prompt of its own, so the sizes are those of the largest; the text is that of all. */
export function embeddingsPromptSize(input: EmbeddingsFields['input']): PromptSize {
  let largest = 0;
  let least = 0;
  let largestText = 0;
  let textBytes = 0;
  for (const one of typeof input === 'string' || typeof input[0] === 'number' ? [input] : input) {
    const isText = typeof one === 'string';
    const bound = isText ? bytesOf(one) : (one as number[]).length;
    // A token id is worth about four bytes of text.
    const text = isText ? bound : bound * 4;
    largest = Math.max(largest, bound);
    least = Math.max(least, isText ? leastTokens(one) : bound);
    largestText = Math.max(largestText, text);
    textBytes += text;
  }
  return {
    promptBytes: largest + tokensPerMessage,
    leastTokens: least,
    likelyTokens: likelyOf(largestText),
    textBytes,
  };
}

/** A query with each document is a prompt of its own, so the sizes are those of the largest; the text is that of all. */
export function rerankPromptSize(query: string, documents: readonly string[]): PromptSize {
  const queryBytes = bytesOf(query);
  const queryLeast = leastTokens(query);
  let largest = 0;
  let least = 0;
  let textBytes = 0;
  for (const document of documents) {
    const bytes = queryBytes + bytesOf(document);
    largest = Math.max(largest, bytes);
    // One token may hold the end of the query and the start of the document.
    least = Math.max(least, queryLeast + leastTokens(document) - 1);
    textBytes += bytes;
  }
  return {
    promptBytes: largest + tokensPerPair,
    leastTokens: Math.max(0, least),
    likelyTokens: likelyOf(largest),
    textBytes,
  };
}

function likelyOf(textBytes: number): number {
  return Math.ceil(textBytes / bytesPerToken) + 8;
}

/** Templates leave out what an earlier answer thought, and some cut its content at the end of the thoughts. */
function leastOf(message: ChatMessage, text: string): number {
  return message.role === 'assistant' && text.includes('</think>') ? 0 : leastTokens(text);
}

function extrasBytes(message: ChatMessage): number {
  if (message.role === 'tool') return bytesOf(message.tool_call_id);
  if (message.role !== 'assistant') return 0;
  let bytes = bytesOf(message.reasoning_content) + bytesOf(message.reasoning);
  // With what joins it to the content.
  if (message.refusal !== undefined) bytes += bytesOf(message.refusal) + 2;
  for (const call of message.tool_calls ?? []) {
    bytes += bytesOf(call.id) + bytesOf(call.function.name) + bytesOf(call.function.arguments) + 32;
  }
  return bytes;
}

function bytesOf(text: string | undefined): number {
  return text === undefined ? 0 : Buffer.byteLength(text);
}

function jsonBytes(value: unknown): number {
  return value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value));
}

/** The most that one token can contain, in the units below. */
const unitsPerToken = 72;
const unitsOfAscii = 1;
/** Scripts without spaces between words, from the kana to the end of the ideographs. */
const unitsOfHan = 4;
const unitsOfOther = 3;

/** Linear and cheap for each code unit, because it runs on every prompt. */
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

/** Controls, spaces, general punctuation and variation selectors count as zero: a tokeniser may drop them. */
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
