/**
 * The dialect of llama.cpp's server. The server copies unknown fields into its sampling settings, so only known ones are
 * sent. It reports the usage of only one choice, treats a named tool choice as none, ignores `dimensions`, and can continue a
 * final assistant message.
 */
import { member } from '../runtime/member.ts';
import type { DialectTable } from './dialect.ts';

export const llamacpp: DialectTable = {
  name: 'llamacpp',
  healthPath: '/health',
  modelPath: undefined,
  // Without `--reranking`, the status is 501. A server with several models returns 400 too, but with another error text.
  rerankSigns: [{ path: '/v1/rerank', posts: true, statuses: [400], isGiven: lacksQuery }],
  tokenCounter: {
    path: '/v1/chat/completions/input_tokens',
    fields: ['model', 'messages', 'tools', 'tool_choice', 'response_format', 'reasoning_effort'],
    answer: 'input_tokens',
  },
  closesAfterStream: true,
  contextErrors: [
    /exceeds the available context size \((\d+)/,
    /is too large to process/,
    /exceed_context_size_error/,
  ],
  inabilities: {
    images: /(image|audio) input is not supported/,
    schema: /JSON schema error|failed to parse grammar/i,
  },
  takesMaxCompletionTokens: true,
  reasoningField: 'reasoning_content',
  reportsUsageAtStart: false,
  refusesUnseenImages: true,
  toolChoices: ['none', 'auto', 'required'],
  namedTool: 'as-required',
  takesSingleToolCall: false,
  prefill: {},
  takesCacheSalt: false,
  takesDimensions: false,
  takesTokenInput: true,
};

function lacksQuery(answer: unknown): boolean {
  const message = member(member(answer, 'error'), 'message');
  return typeof message === 'string' && message.includes('"query" must be provided');
}
