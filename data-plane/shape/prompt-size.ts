/**
 * How large a prompt can be, without a tokeniser: a byte-level vocabulary never needs more tokens than bytes.
 * The bound lets most requests pass the context limit uncounted (Limits 3); it is never what is billed.
 */
import type { ChatFields, EmbeddingsFields } from '../../schemas/openai.ts';
import type { ChatMessage } from '../../schemas/openai-messages.ts';
import { leastTokens } from './least-tokens.ts';

/** What a chat template may add to each message, and to the whole, in tokens. */
const tokensPerMessage = 32;
const tokensPerPrompt = 512;
/** Taken for one image: what models with eyes make of a large one, of an ordinary one, and of the smallest. */
const tokensPerImageMost = 4096;
const tokensPerImage = 1024;
const tokensPerImageLeast = 4;
/** Typical text has at least this many bytes a token. */
const bytesPerToken = 3;

export interface PromptSize {
  /** Upper bound of the prompt in tokens, found without counting any: at most one token a byte. */
  readonly promptBytes: number;
  /** Lower bound of the prompt in tokens. A chat's is worked out when it is read: few requests need it, and it reads all text. */
  readonly leastTokens: number;
  /** An estimate between the two, rather too high. */
  readonly likelyTokens: number;
  /** UTF-8 bytes of the texts alone, for an estimate of usage where a node reports none. */
  readonly textBytes: number;
}

/** The fields of a chat that its prompt is made of. */
type PromptFields = Readonly<Pick<ChatFields, 'messages' | 'tools' | 'response_format'>>;

export function chatPromptSize(body: PromptFields): Omit<PromptSize, 'leastTokens'> {
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
export function leastChatTokens(body: PromptFields): number {
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
    // A token id stands for about four bytes of text.
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
