/**
 * How each engine takes the settings of a chat, one row each. An engine that a row does not name does not take the field, so a
 * request that has it is refused by name: engines ignore fields that they do not know.
 */
import type { ChatSettings } from '../../../schemas/api/chat-fields.ts';
import type { Dialect } from '../../../schemas/names.ts';

export interface FieldGrant {
  /** The engine's own name for it, where that is another. */
  readonly name?: string;
  /** The only values that are honoured, where not all are. */
  readonly values?: readonly unknown[];
}

const asItComes: FieldGrant = {};
const allButOllama = { vllm: asItComes, sglang: asItComes, llamacpp: asItComes };
const all = { ...allButOllama, ollama: asItComes };

/** Ollama's runner of newer models has no penalties, that of llama.cpp's models has; nothing is lost of one that is 0. */
const penalty = { ...allButOllama, ollama: { values: [0] } };

export const chatFieldGrants: Readonly<
  Record<keyof ChatSettings, Readonly<Partial<Record<Dialect, FieldGrant>>>>
> = {
  temperature: all,
  top_p: all,
  frequency_penalty: penalty,
  presence_penalty: penalty,
  stop: all,
  seed: all,
  n: { vllm: asItComes, sglang: asItComes },
  logprobs: all,
  top_logprobs: all,
  logit_bias: allButOllama,
  response_format: all,
  reasoning_effort: { ...allButOllama, ollama: { values: ['none', 'low', 'medium', 'high'] } },
  top_k: allButOllama,
  thinking_budget: {
    vllm: { name: 'thinking_token_budget' },
    llamacpp: { name: 'thinking_budget_tokens' },
  },
};
