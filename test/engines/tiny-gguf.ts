/**
 * Writes the tiny model as a GGUF file (version 3) for llama.cpp and Ollama. The file is little-endian, and its tensors have
 * 32-bit floats.
 */
import { writeFileSync } from 'node:fs';
import { chatTemplate, controlTokens, sizes, type Tensor, type TinyModel } from './tiny-model.ts';

type Value =
  | { readonly text: string }
  | { readonly unsigned: number }
  | { readonly float: number }
  | { readonly truth: boolean }
  | { readonly texts: readonly string[] }
  | { readonly integers: readonly number[] };

const alignment = 32;
const typeOf = { unsigned: 4, integer: 5, float: 6, truth: 7, text: 8, list: 9 } as const;
const tokenType = { normal: 1, control: 3, userDefined: 4 } as const;

/** Writes the file. `windowTokens` is the context length that the model claims to be trained for. */
export function writeGguf(path: string, model: TinyModel, windowTokens: number): void {
  const values = Object.entries(metadata(model, windowTokens));
  const head = new Writer();
  head.bytes(Buffer.from('GGUF'));
  head.u32(3);
  head.u64(model.tensors.length);
  head.u64(values.length);
  for (const [key, value] of values) {
    head.text(key);
    head.value(value);
  }
  let offset = 0;
  for (const tensor of model.tensors) {
    head.text(`${tensor.name}.weight`);
    head.u32(tensor.shape.length);
    // GGUF lists the dimension that varies fastest first.
    for (const length of tensor.shape.toReversed()) head.u64(length);
    head.u32(0);
    head.u64(offset);
    offset += padded(tensor.data.byteLength);
  }
  writeFileSync(path, Buffer.concat([aligned(head.done()), ...model.tensors.map(dataOf)]));
}

function metadata({ tokens, merges, added }: TinyModel, windowTokens: number): Record<string, Value> {
  const names = Object.keys(added);
  const types = tokens.map((token) => {
    if (controlTokens.includes(token)) return tokenType.control;
    return names.includes(token) ? tokenType.userDefined : tokenType.normal;
  });
  return {
    'general.architecture': { text: 'llama' },
    'general.name': { text: 'tiny' },
    'general.file_type': { unsigned: 0 },
    'llama.context_length': { unsigned: windowTokens },
    'llama.embedding_length': { unsigned: sizes.embedding },
    'llama.block_count': { unsigned: sizes.layers },
    'llama.feed_forward_length': { unsigned: sizes.feedForward },
    'llama.attention.head_count': { unsigned: sizes.heads },
    'llama.attention.head_count_kv': { unsigned: sizes.heads },
    'llama.attention.layer_norm_rms_epsilon': { float: sizes.epsilon },
    'llama.rope.dimension_count': { unsigned: sizes.embedding / sizes.heads },
    'llama.vocab_size': { unsigned: tokens.length },
    'tokenizer.ggml.model': { text: 'gpt2' },
    'tokenizer.ggml.pre': { text: 'gpt-2' },
    'tokenizer.ggml.tokens': { texts: tokens },
    'tokenizer.ggml.token_type': { integers: types },
    'tokenizer.ggml.merges': { texts: merges.map((pair) => pair.join(' ')) },
    'tokenizer.ggml.bos_token_id': { unsigned: added['<|endoftext|>'] },
    'tokenizer.ggml.eos_token_id': { unsigned: added['<|im_end|>'] },
    'tokenizer.ggml.add_bos_token': { truth: false },
    'tokenizer.chat_template': { text: chatTemplate },
  };
}

function dataOf({ data }: Tensor): Buffer {
  return aligned(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
}

function aligned(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(padded(bytes.length) - bytes.length)]);
}

function padded(length: number): number {
  return Math.ceil(length / alignment) * alignment;
}

class Writer {
  readonly #parts: Buffer[] = [];

  done(): Buffer {
    return Buffer.concat(this.#parts);
  }

  bytes(part: Buffer): void {
    this.#parts.push(part);
  }

  u32(value: number): void {
    const part = Buffer.alloc(4);
    part.writeUInt32LE(value);
    this.bytes(part);
  }

  u64(value: number): void {
    const part = Buffer.alloc(8);
    part.writeBigUInt64LE(BigInt(value));
    this.bytes(part);
  }

  text(value: string): void {
    const part = Buffer.from(value);
    this.u64(part.length);
    this.bytes(part);
  }

  value(value: Value): void {
    if ('text' in value) {
      this.u32(typeOf.text);
      this.text(value.text);
    } else if ('unsigned' in value) {
      this.u32(typeOf.unsigned);
      this.u32(value.unsigned);
    } else if ('truth' in value) {
      this.u32(typeOf.truth);
      this.bytes(Buffer.from([Number(value.truth)]));
    } else if ('float' in value) {
      this.u32(typeOf.float);
      const part = Buffer.alloc(4);
      part.writeFloatLE(value.float);
      this.bytes(part);
    } else {
      this.#list(value);
    }
  }

  #list(value: { readonly texts: readonly string[] } | { readonly integers: readonly number[] }): void {
    const items = 'texts' in value ? value.texts : value.integers;
    this.u32(typeOf.list);
    this.u32('texts' in value ? typeOf.text : typeOf.integer);
    this.u64(items.length);
    for (const item of items) {
      if (typeof item === 'string') this.text(item);
      else this.u32(item);
    }
  }
}
