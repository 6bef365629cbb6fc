/**
 * The SGLang dialect. SGLang returns 400 for null values, treats a named tool choice as any tool, and nests errors only in
 * streams.
 */
import { member } from '../runtime/member.ts';
import type { DialectTable } from './dialect.ts';

export const sglang: DialectTable = {
  name: 'sglang',
  healthPath: '/health',
  modelPath: undefined,
  // Generative rerankers are started like chat models, so they cannot be recognised.
  rerankSigns: [{ path: '/model_info', posts: false, statuses: [200], isGiven: scoresPairs }],
  tokenCounter: { path: '/tokenize', fields: ['model', 'messages', 'tools'], answer: 'count' },
  closesAfterStream: false,
  contextErrors: [
    /longer than the model's context length \((\d+)/,
    /maximum context length of (\d+)/,
    /max_completion_tokens is too large: \d+\. ?This model supports at most (\d+)/,
  ],
  inabilities: {
    images: /only supports text input/,
    schema: /Failed to compile json grammar/,
    dimensions: /does not support matryoshka/,
  },
  takesMaxCompletionTokens: true,
  reasoningField: 'reasoning_content',
  reportsUsageAtStart: false,
  refusesUnseenImages: true,
  toolChoices: ['none', 'auto', 'required'],
  namedTool: 'as-required',
  takesSingleToolCall: true,
  prefill: { continue_final_message: true },
  takesCacheSalt: true,
  takesDimensions: true,
  takesTokenInput: true,
};

function scoresPairs(answer: unknown): boolean {
  const architectures = member(answer, 'architectures');
  if (member(answer, 'is_generation') !== false || !Array.isArray(architectures)) return false;
  return architectures.some((name) => typeof name === 'string' && name.endsWith('ForSequenceClassification'));
}
