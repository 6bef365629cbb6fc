/**
 * Ollama, by its OpenAI-compatible routes. It refuses nothing: too long a prompt is cut, an image for a model without
 * vision is dropped, and without `max_tokens` it does not end. So most that differs is refused here, before it is sent.
 * When its runner dies, it sends one empty chunk without a model and ends the body cleanly.
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
