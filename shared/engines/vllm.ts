/**
 * The vLLM dialect. vLLM does not lower a token limit that is too high, so the gateway always sets the limit itself. A fault
 * after the status line produces an error event and `[DONE]`. An aborted request ends with the finish reason `abort`. After a
 * stop signal, the process freezes with its socket open.
 */
import type { DialectTable } from './dialect.ts';

export const vllm: DialectTable = {
  name: 'vllm',
  healthPath: '/health',
  modelPath: undefined,
  // vLLM offers only routes that its model supports. Embedding models offer rerank too, so a model that only reranks must
  // lack the two other routes. Older versions offer all routes.
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
