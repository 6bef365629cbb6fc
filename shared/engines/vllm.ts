/**
 * vLLM. Honours nearly the whole shape; clamps nothing, so the limit of tokens is always set for it.
 * It answers a fault after the status line with an error frame and then `[DONE]`, and a request that it aborted
 * with the finish reason `abort`; after a signal to stop it freezes with its socket open.
 */
import type { DialectTable } from './dialect.ts';

export const vllm: DialectTable = {
  name: 'vllm',
  healthPath: '/health',
  modelPath: undefined,
  // It has the routes of what its model does. One that embeds has the route of reranking, too. Older versions have all routes.
  rerankSigns: [
    { path: '/v1/rerank', posts: false, statuses: [405] },
    { path: '/v1/embeddings', posts: false, statuses: [404] },
    { path: '/v1/chat/completions', posts: false, statuses: [404] },
  ],
  tokenCounter: {
    path: '/tokenize',
    fields: ['model', 'messages', 'tools', 'continue_final_message', 'add_generation_prompt'],
    answer: 'count',
  },
  closesAfterStream: false,
  contextErrors: [/maximum context length is (\d+)/, /max_model_len ?= ?(\d+)/],
  inabilities: {
    images: /is not a multimodal model/,
    schema: /^\S* ?Grammar error/,
    dimensions: /does not support Matryoshka embeddings/,
  },
  takesMaxCompletionTokens: true,
  reasoningField: 'reasoning',
  reportsUsageAtStart: true,
  refusesUnseenImages: true,
  toolChoices: ['none', 'auto', 'required'],
  namedTool: 'carried',
  takesSingleToolCall: true,
  prefill: { continue_final_message: true, add_generation_prompt: false },
  takesCacheSalt: true,
  takesDimensions: true,
  takesTokenInput: true,
};
