/**
 * Hashes the prefixes of a prompt, shortest first. Engines cache prompts by prefix, so routing prefers a node that has seen a
 * long prefix. Prefixes end after the tools, after each message, and within each of these at fixed lengths that grow
 * fourfold. Text beyond a bound is not hashed, so later turns of a long conversation have the same prefixes.
 */
import type { ChatFields } from '../../../schemas/api/openai.ts';
import type { ChatMessage } from '../../../schemas/api/openai-messages.ts';
import { RollingHash } from './rolling-hash.ts';

type PromptFields = Readonly<Pick<ChatFields, 'messages' | 'tools'>>;

/** Maximum number of characters of a prompt that are hashed, which takes about 100 µs. */
const charactersMax = 64 * 1024;
/** Maximum number of prefixes kept from the start of a prompt, and from its end. Those in between are dropped. */
const firstMax = 32;
const lastMax = 32;
/** Number of characters hashed at each end of an image or cache key, in addition to its length. */
const sampleCharacters = 256;
const innerLengths = [256, 1024, 4096, 16_384];

/** Returns up to 64 hashes. Prompts with different values of the client's hint `cacheKey` never share a prefix. */
export function hashPrefixes(
  { tools, messages }: PromptFields,
  cacheKey: string | undefined,
): readonly number[] {
  const reader = new PrefixReader();
  if (cacheKey !== undefined) reader.sample(cacheKey);
  if (tools !== undefined) {
    for (const { function: tool } of tools) {
      reader.text(tool.name);
      reader.text(tool.description);
    }
    reader.end();
  }
  for (const message of messages) {
    if (reader.isFull) break;
    readMessage(reader, message);
    reader.end();
  }
  return reader.prefixes();
}

function readMessage(reader: PrefixReader, message: ChatMessage): void {
  reader.text(message.role === 'developer' ? 'system' : message.role);
  if (typeof message.content === 'string') reader.text(message.content);
  else if (Array.isArray(message.content))
    for (const part of message.content) {
      if (part.type === 'text') reader.text(part.text);
      else if (part.type === 'image_url') reader.sample(part.image_url.url);
    }
  if (message.role !== 'assistant') return;
  for (const { function: call } of message.tool_calls ?? []) {
    reader.text(call.name);
    reader.text(call.arguments);
  }
}

class PrefixReader {
  readonly #hash = new RollingHash();
  readonly #first: number[] = [];
  #last: number[] = [];
  /** Number of characters since the last message, or the list of tools, ended. */
  #length = 0;
  #total = 0;

  get isFull(): boolean {
    return this.#total >= charactersMax;
  }

  text(text: string | undefined): void {
    if (text === undefined) return;
    const end = Math.min(text.length, charactersMax - this.#total);
    let at = 0;
    for (const inner of innerLengths) {
      const next = inner - this.#length;
      if (next <= at) continue;
      if (next >= end || this.#first.length >= firstMax) break;
      this.#hash.add(text, at, next);
      at = next;
      this.#keep();
    }
    this.#hash.add(text, at, end);
    this.#hash.mark(0xffff_ffff);
    this.#length += end;
    this.#total += end;
  }

  sample(text: string): void {
    this.#hash.mark(text.length);
    this.text(text.slice(0, sampleCharacters));
    this.text(text.slice(-sampleCharacters));
  }

  end(): void {
    // Add no hash at the limit, where the text may be cut off, because the text may continue in the next turn.
    if (this.isFull) return;
    this.#hash.mark(0xffff_fffe);
    this.#keep();
    this.#length = 0;
  }

  prefixes(): readonly number[] {
    return [...this.#first, ...this.#last.slice(-lastMax)];
  }

  #keep(): void {
    if (this.#first.length < firstMax) this.#first.push(this.#hash.value);
    else {
      this.#last.push(this.#hash.value);
      if (this.#last.length > 4 * lastMax) this.#last = this.#last.slice(-lastMax);
    }
  }
}
