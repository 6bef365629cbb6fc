/**
 * The Ollama dialect, for Ollama's OpenAI-compatible routes. Ollama truncates long prompts, drops images for models without
 * vision, and may never stop without `max_tokens`, so the gateway refuses most of these requests. If the model's process
 * dies, the body ends after one empty chunk that names no model.
 */
import type { DialectTable } from './dialect.ts';

export const ollama: DialectTable = {
  name: 'ollama',
  healthPath: '/api/version',
  modelPath: '/api/show',
  rerankSigns: [],
  tokenCounter: undefined,
  closesAfterStream: false,
  contextErrors: [/exceeds the context length/],
  inabilities: { schema: /invalid JSON schema in format/, thinking: /does not support thinking/ },
  takesMaxCompletionTokens: false,
  reasoningField: 'reasoning',
  reportsUsageAtStart: false,
  refusesUnseenImages: false,
  toolChoices: ['auto'],
  namedTool: 'refused',
  takesSingleToolCall: false,
  prefill: undefined,
  takesCacheSalt: false,
  takesDimensions: true,
  takesTokenInput: false,
};
