/**
 * Builds an Anthropic-style message from a node's chat completion. Copies only known fields, so that nothing reveals where
 * the model ran. Throws `NodeFailure` if the node's response is not a completion or if a tool call's input is not an object.
 */

import { rebuildChat } from '../chat/rebuild-chat.ts';
import type { AnswerFacts, FinishReason } from '../common/chat-parts.ts';
import { writeJson } from '../common/json-source.ts';
import type { RebuiltBody } from '../common/surface.ts';
import { ToolInput } from '../common/tool-input.ts';
import { member } from '../common/untrusted.ts';
import { messageBody, toolUseId, toStop } from './message-parts.ts';
import type { MessagesContext } from './shape-messages.ts';

/** A choice as `rebuildChat` returns it. */
interface Choice {
  readonly message: {
    readonly content: string | null;
    readonly refusal: string | null;
    readonly reasoning_content?: string;
    readonly tool_calls?: readonly ChatCall[];
  };
  readonly finish_reason: FinishReason;
}

interface ChatCall {
  readonly id: string;
  readonly function: { readonly name: string; readonly arguments: string };
}

export function rebuildMessages(
  answer: unknown,
  facts: AnswerFacts,
  context: MessagesContext,
): RebuiltBody<string> {
  const { body, usage, oddForm } = rebuildChat(answer, facts);
  const { choices } = body as { readonly choices: readonly [Choice] };
  const [{ message, finish_reason: finish }] = choices;
  const calls = message.tool_calls ?? [];
  const content = [
    ...thinkingBlock(message.reasoning_content, context),
    ...textBlock(message.content),
    ...textBlock(message.refusal),
    ...calls.map((call) => toolUseBlock(call, finish === 'length')),
  ];
  const given = member(answer, 'choices');
  const choice = Array.isArray(given) ? given[0] : undefined;
  const stop = toStop(finish, choice, context.stopSequences);
  return { body: writeJson(messageBody(facts, { content, stop, usage })), usage, oddForm };
}

function thinkingBlock(text: string | undefined, { thinkingDisplay }: MessagesContext): object[] {
  if (text === undefined) return [];
  return [{ type: 'thinking', thinking: thinkingDisplay === 'shown' ? text : '', signature: '' }];
}

function textBlock(text: string | null): object[] {
  return text === null || text === '' ? [] : [{ type: 'text', text }];
}

function toolUseBlock(call: ChatCall, cut: boolean): object {
  const input = new ToolInput();
  input.add(call.function.arguments);
  return { type: 'tool_use', id: toolUseId(call.id), name: call.function.name, input: input.value(cut) };
}
