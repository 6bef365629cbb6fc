/**
 * Hashes of a prompt's prefixes, from short to long: what two prompts have in common is what an engine's prefix cache can
 * use twice. A prefix ends at the end of the tools and of each message, and within each at lengths that grow fourfold,
 * because a document and its question may be one message. The text is hashed up to a bound; behind it all turns of a
 * conversation have the same prefixes, which is what a choice of node needs.
 */
import type { ChatFields } from '../../../schemas/api/openai.ts';
import type { ChatMessage } from '../../../schemas/api/openai-messages.ts';
import { RollingHash } from './rolling-hash.ts';

type PromptFields = Readonly<Pick<ChatFields, 'messages' | 'tools'>>;

/** Characters hashed of one prompt at most: some 100 µs. */
const charactersMax = 64 * 1024;
/** Prefixes kept of the start and of the end of a prompt; those between are left out. */
const firstMax = 32;
const lastMax = 32;
/** Of an image or a cache key: the ends of a longer one, and its length. */
const sampleCharacters = 256;
const innerLengths = [256, 1024, 4096, 16_384];

/** At most 64. `cacheKey` is the hint of the client: prompts with another one have other prefixes. */
export function prefixesOf(
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
  /** Characters since the last end. */
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
    // A text that was cut has no end: the next turn may have more of it.
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
