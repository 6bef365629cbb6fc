/**
 * Table of the chat settings that each engine supports. A request that uses a setting its engine does not support is refused,
 * and the refusal names the setting, because engines silently ignore unknown fields.
 */
import type { ChatSettings } from '../../../schemas/api/chat-fields.ts';
import type { Dialect } from '../../../schemas/names.ts';

export interface FieldGrant {
  /** The engine's own name for the field, if it differs. */
  readonly name?: string;
  /** Values that the engine supports. If absent, it supports all values. */
  readonly values?: readonly unknown[];
}

const asItComes: FieldGrant = {};
const allButOllama = { vllm: asItComes, sglang: asItComes, llamacpp: asItComes };
const all = { ...allButOllama, ollama: asItComes };

/** Accept only a penalty of 0, because some of Ollama's runners apply penalties and others ignore them. */
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
