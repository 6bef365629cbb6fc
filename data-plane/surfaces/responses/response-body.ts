/** Builds the response object of the Responses API, as JSON. It has the same members in streams and in whole responses. */
import type { AnswerFacts, FinishReason } from '../common/chat-parts.ts';
import type { Usage } from '../common/usage.ts';
import type { ResponsesContext } from './shape-responses.ts';

/** Reasons to report for an incomplete response. With any other finish reason, the response is complete. */
const incompleteReasons: Readonly<Partial<Record<FinishReason, string>>> = {
  length: 'max_output_tokens',
  content_filter: 'content_filter',
};

export interface FinishedResponse {
  readonly output: readonly object[];
  readonly finish: FinishReason;
  readonly usage: Usage;
}

export function isIncomplete(finish: FinishReason): boolean {
  return incompleteReasons[finish] !== undefined;
}

/** Builds the response object. Without `finished`, it is the object that begins a stream. */
export function responseBody(
  { unique, created, model }: AnswerFacts,
  { repeated }: ResponsesContext,
  finished?: FinishedResponse,
): string {
  const reason = finished && incompleteReasons[finished.finish];
  const ended = reason === undefined ? 'completed' : 'incomplete';
  const members = {
    id: `resp_${unique}`,
    object: 'response',
    created_at: created,
    completed_at: null,
    status: finished === undefined ? 'in_progress' : ended,
    background: false,
    error: null,
    incomplete_details: reason === undefined ? null : { reason },
    model,
    output: finished?.output ?? [],
    previous_response_id: null,
    prompt_cache_key: null,
    safety_identifier: null,
    service_tier: 'default',
    store: false,
    truncation: 'disabled',
    user: null,
  };
  const usage = finished === undefined ? null : usageBody(finished.usage);
  return `${JSON.stringify(members).slice(0, -1)},${repeated},"usage":${JSON.stringify(usage)}}`;
}

function usageBody({ promptTokens, completionTokens, cachedTokens, reasoningTokens }: Usage): object {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens ?? 0 },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens ?? 0 },
    total_tokens: promptTokens + completionTokens,
  };
}
