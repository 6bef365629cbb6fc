/**
 * The prefix cache of a simulated node, as vLLM's: blocks of 16 tokens, each named by all text before its end and by the
 * request's salt; the least recently used is dropped. A prompt's last token is always computed.
 */
import { createHash } from 'node:crypto';
import { isRecord, type Loose } from './loose.ts';
import { contentText } from './text.ts';

const blockTokens = 16;
/** As in text.ts. */
const bytesPerToken = 4;

export class PrefixCache {
  readonly #blocksMax: number;
  /** The least recently used come first. */
  readonly #blocks = new Set<string>();

  constructor(tokens: number) {
    this.#blocksMax = Math.floor(tokens / blockTokens);
  }

  /** Tokens of the prompt that are cached, from its start; all of the prompt is cached from then on. */
  read(body: Loose, messages: readonly unknown[]): number {
    const salt = body['cache_salt'];
    const names = blocksOf(
      `${typeof salt === 'string' ? salt : ''}\0${String(body.model)}`,
      textOf(messages),
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

function textOf(messages: readonly unknown[]): Buffer {
  const parts = messages
    .filter(isRecord)
    .map((message) => `${String(message['role'])}\n${contentText(message.content)}\n`);
  return Buffer.from(parts.join(''));
}

function blocksOf(start: string, text: Buffer): string[] {
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
