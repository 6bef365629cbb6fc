/**
 * Converts a node's chat completion into a response: built from an allow-list, with an id of the gateway and the model as
 * requested, so that nothing reveals where it ran. Throws NodeFailure where it is not a completion, or where the input of a
 * call is none.
 */

import { rebuildChat } from '../chat/rebuild-chat.ts';
import type { AnswerFacts, ChatLogprobs, FinishReason } from '../common/chat-parts.ts';
import type { RebuiltBody } from '../common/surface.ts';
import { logprobsOf } from './logprobs.ts';
import { OutputItems } from './output-items.ts';
import { responseBody } from './response-body.ts';
import type { ResponsesContext } from './shape-responses.ts';

/** What `rebuildChat` makes of the one choice. */
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

/** `answer`: the node's body as parsed. */
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
  if (content !== null && content !== '') items.addText('output_text', content, logprobsOf(logprobs));
  if (refusal !== null && refusal !== '') items.addText('refusal', refusal);
  for (const [index, { id, function: called }] of calls.entries())
    items.call({ index, opened: { id, name: called.name }, arguments: called.arguments });
  const output = items.finish(finish);
  return { body: responseBody(facts, context, { output, finish, usage }), usage, oddForm };
}
