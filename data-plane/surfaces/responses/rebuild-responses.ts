/**
 * Builds a Responses API response from a node's chat completion. Copies only known fields, so that nothing reveals where the
 * model ran. Throws `NodeFailure` if the node's response is not a completion or if a tool call's input is invalid.
 */

import { rebuildChat } from '../chat/rebuild-chat.ts';
import type { AnswerFacts, ChatLogprobs, FinishReason } from '../common/chat-parts.ts';
import type { RebuiltBody } from '../common/surface.ts';
import { toResponseLogprobs } from './logprobs.ts';
import { OutputItems } from './output-items.ts';
import { responseBody } from './response-body.ts';
import type { ResponsesContext } from './shape-responses.ts';

/** A choice as `rebuildChat` returns it. */
interface Choice {
  readonly message: {
    readonly content: string | null;
    readonly refusal: string | null;
    readonly reasoning_content?: string;
    readonly tool_calls?: readonly ChatCall[];
  };
  readonly logprobs: ChatLogprobs | null;
  readonly finish_reason: FinishReason;
}

interface ChatCall {
  readonly id: string;
  readonly function: { readonly name: string; readonly arguments: string };
}

export function rebuildResponses(
  answer: unknown,
  facts: AnswerFacts,
  context: ResponsesContext,
): RebuiltBody<string> {
  const { body, usage, oddForm } = rebuildChat(answer, facts);
  const { choices } = body as { readonly choices: readonly [Choice] };
  const [{ message, logprobs, finish_reason: finish }] = choices;
  const items = new OutputItems({ unique: facts.unique, context, events: undefined, held: undefined });
  const { reasoning_content: thoughts, content, refusal, tool_calls: calls = [] } = message;
  if (thoughts !== undefined) items.addText('summary_text', thoughts);
  if (content !== null && content !== '') items.addText('output_text', content, toResponseLogprobs(logprobs));
  if (refusal !== null && refusal !== '') items.addText('refusal', refusal);
  for (const [index, { id, function: called }] of calls.entries())
    items.call({ index, opened: { id, name: called.name }, arguments: called.arguments });
  const output = items.finish(finish);
  return { body: responseBody(facts, context, { output, finish, usage }), usage, oddForm };
}
