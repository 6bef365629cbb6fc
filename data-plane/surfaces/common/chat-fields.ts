/**
 * Chat settings that each engine supports, one row per setting. Requests with a setting that an engine does not support are
 * refused by name, because engines ignore fields that they do not know.
 */
import type { ChatSettings } from '../../../schemas/api/chat-fields.ts';
import type { Dialect } from '../../../schemas/names.ts';

export interface FieldGrant {
  /** The engine's own name for the field, if it differs. */
  readonly name?: string;
  /** Supported values, if not all are. */
  readonly values?: readonly unknown[];
}

const asItComes: FieldGrant = {};
const allButOllama = { vllm: asItComes, sglang: asItComes, llamacpp: asItComes };
const all = { ...allButOllama, ollama: asItComes };

/** Some of Ollama's runners ignore penalties, others apply them. A penalty of 0 is safe to drop. */
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
