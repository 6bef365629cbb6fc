/**
 * Ollama, through its OpenAI-compatible routes. It does not reject unsuitable requests: a long prompt is cut, an image for a
 * model without vision is dropped, and without `max_tokens` the answer may never end. So the gateway refuses most such
 * requests before sending them. If Ollama's runner dies, it sends one empty chunk without a model and ends the body cleanly.
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
