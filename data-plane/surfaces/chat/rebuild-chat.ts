/**
 * Builds the client's chat completion from the node's. Copies only known fields, so that nothing reveals where the model ran.
 * Throws `NodeFailure` unless the node's response contains every requested choice.
 */

import {
  type AnswerFacts,
  callArguments,
  choiceIndex,
  completionId,
  type FinishReason,
  finishReason,
  givenEnd,
  malformedAnswer,
  noArguments,
  oddFinish,
  optionalText,
  readReasoning,
  readToolCalls,
  rebuildLogprobs,
  refuseError,
  toolCallId,
  toolCallsMax,
  tooManyCalls,
} from '../common/chat-parts.ts';
import type { RebuiltBody } from '../common/surface.ts';
import { member, text } from '../common/untrusted.ts';
import { estimateUsage, type Output, outputBytes, readUsage, usageBody } from '../common/usage.ts';

interface ToolCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
}

/** Matches the start of a tool call that was left in a model's text, in the markup of common chat templates. */
const toolMarkup = /<tool_call>|<\|tool_call|<\|python_tag\|>|\[TOOL_CALLS\]|<function[=_]/;

export function rebuildChat(answer: unknown, facts: AnswerFacts): RebuiltBody {
  refuseError(answer);
  const choices = member(answer, 'choices');
  if (!Array.isArray(choices) || choices.length !== facts.choices)
    throw malformedAnswer('it does not contain the requested choices');
  const rebuilt: object[] = [];
  let bytes = 0;
  let oddForm: string | undefined;
  for (const choice of choices) {
    const index = choiceIndex(choice, facts);
    if (rebuilt[index] !== undefined) throw malformedAnswer('a choice has no unique index');
    const { body, output } = rebuildChoice(choice, index, facts);
    rebuilt[index] = body;
    bytes += outputBytes(output);
    oddForm ??= oddFinish(givenEnd(choice));
  }
  const usage =
    readUsage(member(answer, 'usage'), facts.most) ?? estimateUsage(facts.promptTextBytes, bytes, facts.most);
  return {
    body: {
      id: completionId(facts),
      object: 'chat.completion',
      created: facts.created,
      model: facts.model,
      choices: rebuilt,
      usage: usageBody(usage),
    },
    usage,
    oddForm,
  };
}

function rebuildChoice(
  choice: unknown,
  index: number,
  facts: AnswerFacts,
): { readonly body: object; readonly output: Output } {
  const message = member(choice, 'message');
  if (typeof message !== 'object' || message === null) throw malformedAnswer('a choice has no message');
  const reasoning = readReasoning(message);
  const given = readToolCalls(message);
  const hasCalls = given.length > 0;
  const finish = finishReason(givenEnd(choice), hasCalls);
  const calls = hasCalls ? rebuildToolCalls(given, index, facts, finish) : undefined;
  const written = optionalText(member(message, 'content')) ?? null;
  const content = finish === 'length' && facts.tools ? withoutCutCall(written) : written;
  const refusal = optionalText(member(message, 'refusal')) ?? null;
  const body = {
    index,
    message: {
      role: 'assistant',
      content,
      refusal,
      ...(calls === undefined ? {} : { tool_calls: calls }),
      ...(reasoning === undefined || reasoning === '' ? {} : { reasoning_content: reasoning }),
    },
    logprobs: facts.logprobs ? rebuildLogprobs(member(choice, 'logprobs')) : null,
    finish_reason: finish,
  };
  const toolCalls = calls?.map((call) => call.function);
  return { body, output: { content, reasoning, refusal, toolCalls } };
}

/** Removes the markup of a tool call that the token limit cut off. Streams omit such calls, too. */
function withoutCutCall(content: string | null): string | null {
  const start = content?.search(toolMarkup) ?? -1;
  if (content === null || start === -1) return content;
  return start === 0 ? null : content.slice(0, start);
}

function rebuildToolCalls(
  calls: readonly unknown[],
  choice: number,
  facts: AnswerFacts,
  finish: FinishReason,
): ToolCall[] {
  if (calls.length > toolCallsMax) throw tooManyCalls();
  const kept = facts.firstToolCallOnly ? calls.slice(0, 1) : calls;
  return kept.map((call, index) => {
    const called = member(call, 'function');
    const name = text(member(called, 'name'));
    if (name === undefined) throw malformedAnswer('a tool call has no name');
    const written = callArguments(member(called, 'arguments'));
    const isEmpty = finish !== 'length' && written.trim() === '';
    return {
      id: toolCallId(facts, choice, index, member(call, 'id')),
      type: 'function',
      function: { name, arguments: isEmpty ? noArguments : written },
    };
  });
}
