/**
 * Ollama's OpenAI-compatible routes. They cut long prompts, drop images for models without vision, and may never end without
 * `max_tokens`, so the gateway refuses most such requests. If the runner dies, one empty chunk without a model ends the body.
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
