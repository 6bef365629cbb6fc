/**
 * Converts a node's chat completion into a message: built from an allow-list, with an id of the gateway and the model as
 * requested, so that nothing reveals where it ran. Throws NodeFailure where it is not a completion, or where the input of a
 * tool call is not an object.
 */

import { member } from '../core/untrusted.ts';
import type { FinishReason } from './chat-parts.ts';
import { type MessagesContext, messageBody, stopOf, toolUseId } from './message-parts.ts';
import { rebuildChat } from './rebuild-chat.ts';
import { ToolInput } from './tool-input.ts';
import type { Usage } from './usage.ts';

export interface RebuiltMessage {
  readonly body: object;
  readonly usage: Usage;
}

/** What `rebuildChat` makes of the one choice. */
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

/** `answer`: the node's body as parsed. */
export function rebuildMessages(answer: unknown, context: MessagesContext): RebuiltMessage {
  const { body, usage } = rebuildChat(answer, context);
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
  const stop = stopOf(finish, Array.isArray(given) ? given[0] : undefined, {
    hasCalls: calls.length > 0,
    stopSequences: context.stopSequences,
  });
  return { body: messageBody(context, { content, stop, usage }), usage };
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
