/**
 * Prefix cache of a simulated node, modelled on that of vLLM. It stores blocks of 16 tokens. A block is identified by all
 * text up to its end and by the request's salt. The least recently used block is evicted first. The last token is always
 * computed.
 */
import { createHash } from 'node:crypto';
import { isRecord, type Loose } from './loose.ts';
import { contentText } from './text.ts';

const blockTokens = 16;
/** Number of bytes that count as one token, as in text.ts. */
const bytesPerToken = 4;

export class PrefixCache {
  readonly #blocksMax: number;
  /** Hashes that identify the cached blocks, with the least recently used one first. */
  readonly #blocks = new Set<string>();

  constructor(tokens: number) {
    this.#blocksMax = Math.floor(tokens / blockTokens);
  }

  /** Returns the number of tokens at the start of the prompt that are cached, and then caches the prompt. */
  read(body: Loose, messages: readonly unknown[]): number {
    const salt = body['cache_salt'];
    const names = hashBlocks(
      `${typeof salt === 'string' ? salt : ''}\0${String(body.model)}`,
      encodeMessages(messages),
    );
    const missing = names.findIndex((name) => !this.#blocks.has(name));
    for (const name of names) {
      this.#blocks.delete(name);
      this.#blocks.add(name);
    }
    for (const name of this.#blocks) {
      if (this.#blocks.size <= this.#blocksMax) break;
      this.#blocks.delete(name);
    }
    return (missing === -1 ? names.length : missing) * blockTokens;
  }
}

function encodeMessages(messages: readonly unknown[]): Buffer {
  const parts = messages
    .filter(isRecord)
    .map((message) => `${String(message['role'])}\n${contentText(message.content)}\n`);
  return Buffer.from(parts.join(''));
}

function hashBlocks(start: string, text: Buffer): string[] {
  const size = blockTokens * bytesPerToken;
  const names: string[] = [];
  let name = start;
  for (let at = 0; at + size < text.length; at += size) {
    name = createHash('sha256')
      .update(name)
      .update(text.subarray(at, at + size))
      .digest('base64url');
    names.push(name);
  }
  return names;
}
