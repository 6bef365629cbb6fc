/** Writes the tiny model as a folder in Hugging Face format, for vLLM and SGLang. The weights are one safetensors file. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chatTemplate, controlTokens, sizes, type TinyModel } from './tiny-model.ts';

const layerParts: Readonly<Record<string, string>> = {
  attn_norm: 'input_layernorm',
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_output: 'self_attn.o_proj',
  ffn_norm: 'post_attention_layernorm',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
};
const wholeParts: Readonly<Record<string, string>> = {
  token_embd: 'model.embed_tokens',
  output_norm: 'model.norm',
  output: 'lm_head',
};

/** Writes the folder. `windowTokens` is the context length that the model claims to be trained for. */
export function writeHfModel(folder: string, model: TinyModel, windowTokens: number): void {
  mkdirSync(folder, { recursive: true });
  const write = (name: string, content: object): void =>
    writeFileSync(join(folder, name), JSON.stringify(content, null, 1));
  const { added } = model;
  const marks = {
    bos_token_id: added['<|endoftext|>'],
    eos_token_id: added['<|im_end|>'],
    pad_token_id: added['<|endoftext|>'],
  };
  write('config.json', { ...architecture(model, windowTokens), ...marks });
  write('generation_config.json', marks);
  write('tokenizer.json', tokenizer(model));
  write('tokenizer_config.json', {
    tokenizer_class: 'PreTrainedTokenizerFast',
    bos_token: '<|endoftext|>',
    eos_token: '<|im_end|>',
    pad_token: '<|endoftext|>',
    model_max_length: windowTokens,
    clean_up_tokenization_spaces: false,
    chat_template: chatTemplate,
  });
  writeFileSync(join(folder, 'model.safetensors'), safetensors(model));
}

function architecture({ tokens }: TinyModel, windowTokens: number): object {
  return {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    vocab_size: tokens.length,
    hidden_size: sizes.embedding,
    intermediate_size: sizes.feedForward,
    num_hidden_layers: sizes.layers,
    num_attention_heads: sizes.heads,
    num_key_value_heads: sizes.heads,
    head_dim: sizes.embedding / sizes.heads,
    max_position_embeddings: windowTokens,
    rms_norm_eps: sizes.epsilon,
    rope_theta: 10_000,
    hidden_act: 'silu',
    attention_bias: false,
    mlp_bias: false,
    tie_word_embeddings: false,
    torch_dtype: 'float32',
  };
}

function tokenizer({ tokens, merges, added }: TinyModel): object {
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  const addedEntries = Object.entries(added);
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  const vocabulary = tokens.map((token, id) => [token, id] as const).filter(([token]) => !(token in added));
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: addedEntries.map(([content, id]) => ({
      id,
      content,
      ...flags,
      special: controlTokens.includes(content),
    })),
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: byteLevel,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(vocabulary),
      merges,
    },
  };
}

/** Encodes the weights: the length of a JSON index, the index, and the tensors one after another. */
function safetensors({ tensors }: TinyModel): Buffer {
  let offset = 0;
  const index: Record<string, object> = { __metadata__: { format: 'pt' } };
  for (const { name, shape, data } of tensors) {
    const end = offset + data.byteLength;
    index[`${hfName(name)}.weight`] = { dtype: 'F32', shape, data_offsets: [offset, end] };
    offset = end;
  }
  const text = JSON.stringify(index);
  const head = Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(head.length));
  const parts = tensors.map(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength));
  return Buffer.concat([length, head, ...parts]);
}

function hfName(name: string): string {
  const [, layer, part = ''] = /^blk\.(\d+)\.(.*)$/.exec(name) ?? [];
  const known = layer === undefined ? wholeParts[name] : layerParts[part];
  if (known === undefined) throw new Error(`a tensor has no name there: ${name}`);
  return layer === undefined ? known : `model.layers.${layer}.${known}`;
}
