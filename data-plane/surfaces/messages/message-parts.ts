/**
 * Parts that whole and streamed Anthropic-style messages share. Members that newer clients expect, but that have no meaning
 * here, are null. Nothing in a message reveals the engine or the place.
 */
import type { AnswerFacts, FinishReason } from '../common/chat-parts.ts';
import { member } from '../common/untrusted.ts';
import type { Usage } from '../common/usage.ts';

/** Converts a tool call id to the Anthropic format. Ids that the model wrote stay as they are. */
export function toolUseId(id: string): string {
  return id.startsWith('call_') ? `toolu_${id.slice('call_'.length)}` : id;
}

export type StopReason = 'end_turn' | 'max_tokens' | 'stop_sequence' | 'tool_use' | 'refusal';

export interface Stop {
  readonly stop_reason: StopReason;
  readonly stop_sequence: string | null;
}

const stopReasons: Readonly<Record<FinishReason, StopReason>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
};

/** Determines why an answer stopped. `choice` is the node's own choice, in which two engines name the stop sequence. */
export function toStop(finish: FinishReason, choice: unknown, stopSequences: readonly string[]): Stop {
  const reason = stopReasons[finish];
  if (reason !== 'end_turn') return { stop_reason: reason, stop_sequence: null };
  const reported = member(choice, 'stop_reason') ?? member(choice, 'matched_stop');
  const sequence = stopSequences.find((one) => one === reported);
  return sequence === undefined
    ? { stop_reason: reason, stop_sequence: null }
    : { stop_reason: 'stop_sequence', stop_sequence: sequence };
}

export interface MessageParts {
  readonly content?: readonly object[];
  readonly stop?: Stop;
  readonly usage?: Usage | undefined;
}

const nothingUsed: Usage = { promptTokens: 0, completionTokens: 0 };

/** Usage at the end of a stream. Cached prompt tokens are listed separately; usage rows contain the sum. */
export function deltaUsage({ promptTokens, completionTokens, cachedTokens, reasoningTokens }: Usage): object {
  const cached = cachedTokens ?? 0;
  return {
    input_tokens: promptTokens - cached,
    cache_read_input_tokens: cached,
    cache_creation_input_tokens: 0,
    output_tokens: completionTokens,
    output_tokens_details: reasoningTokens === undefined ? null : { thinking_tokens: reasoningTokens },
    server_tool_use: null,
  };
}

/** Builds a message. Without `stop`, builds the empty message that begins a stream, with the usage known so far. */
export function messageBody(
  { unique, model }: AnswerFacts,
  { content = [], stop, usage = nothingUsed }: MessageParts,
): object {
  return {
    id: `msg_${unique}`,
    type: 'message',
    role: 'assistant',
    model,
    content,
    ...(stop ?? { stop_reason: null, stop_sequence: null }),
    stop_details: null,
    container: null,
    diagnostics: null,
    usage: {
      ...deltaUsage(usage),
      cache_creation: null,
      inference_geo: null,
      service_tier: null,
      speed: null,
    },
  };
}
