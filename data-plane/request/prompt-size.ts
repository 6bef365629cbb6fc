/**
 * How large a prompt can be, without a tokeniser: a byte-level vocabulary never needs more tokens than bytes.
 * The bound lets most requests pass the context limit uncounted (Limits 3); it is never what is billed.
 */
import type { EmbeddingsFields } from '../../schemas/openai.ts';
import type { ChatMessage } from '../../schemas/openai-messages.ts';
import type { ChatBody } from './shape.ts';

/** What a chat template may add to each message, and to the whole, in tokens. */
const tokensPerMessage = 32;
const tokensPerPrompt = 512;
/** Taken for one image: no bound is known from its bytes, so this is an estimate, not a bound. */
const tokensPerImage = 4096;

interface Size {
  readonly promptBytes: number;
  readonly textBytes: number;
}

export function chatPromptSize(body: ChatBody): Size {
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
  return { promptBytes: textBytes + declared + frame + images * tokensPerImage, textBytes };
}

/** Each input is a prompt of its own, so the bound is that of the largest; the text is that of all. */
export function embeddingsPromptSize(input: EmbeddingsFields['input']): Size {
  const sizes = (typeof input === 'string' || typeof input[0] === 'number' ? [input] : input).map((one) =>
    // A token id stands for about four bytes of text.
    typeof one === 'string'
      ? { bound: bytesOf(one), text: bytesOf(one) }
      : { bound: (one as number[]).length, text: (one as number[]).length * 4 },
  );
  let largest = 0;
  let textBytes = 0;
  for (const { bound, text } of sizes) {
    largest = Math.max(largest, bound);
    textBytes += text;
  }
  return { promptBytes: largest + tokensPerMessage, textBytes };
}

function extrasBytes(message: ChatMessage): number {
  if (message.role === 'tool') return bytesOf(message.tool_call_id);
  if (message.role !== 'assistant') return 0;
  let bytes = bytesOf(message.reasoning_content) + bytesOf(message.reasoning);
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
