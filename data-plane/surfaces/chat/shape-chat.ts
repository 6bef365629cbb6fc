/**
 * Validates POST /v1/chat/completions strictly. The folder `surfaces/chat` contains the OpenAI-style chat API. The result
 * contains only fields that may be sent to a node. A refusal names a JSON path and never a value.
 */
import { type ChatField, chatFields } from '../../../schemas/api/chat-fields.ts';
import { type ChatFields, chatRequestSchema } from '../../../schemas/api/openai.ts';
import { arrayText } from '../../../shared/runtime/json-scan.ts';
import type { ChatBody, ChatNeed, ChatSource, WholeChat } from '../common/asked.ts';
import { CallArguments } from '../common/call-arguments.ts';
import { chatPromptSize } from '../common/prompt-size.ts';
import type { ShapeHeaders } from '../common/surface.ts';
import { parseFields, shapeRefusal } from '../common/validate.ts';
import { plainChatFields } from './plain-chat.ts';

const settings: readonly [string, ChatField][] = Object.entries(chatFields);

export interface ChatContext {
  /** Whether the client wants the token usage at the end of its stream. */
  readonly includeUsage: boolean;
}

/** Throws `UnsupportedShapeError` with the JSON path of the first field that is not supported. */
export function shapeChat(
  given: Record<string, unknown>,
  _headers?: ShapeHeaders,
  text?: string,
): { readonly asked: WholeChat; readonly context: ChatContext } {
  const plain = plainChatFields(given);
  const fields = plain ?? parseFields(chatRequestSchema, given);
  refuseContradictions(fields);
  if (plain === undefined) checkArguments(fields.messages);
  const body = carriedFields(fields);
  const maxTokens = Math.min(fields.max_tokens ?? Infinity, fields.max_completion_tokens ?? Infinity);
  const { promptBytes, likelyTokens, textBytes } = chatPromptSize(body);
  const asked: WholeChat = {
    kind: 'chat',
    model: fields.model,
    stream: fields.stream === true,
    maxTokens: maxTokens === Infinity ? undefined : maxTokens,
    choices: fields.n ?? 1,
    logprobs: fields.logprobs === true,
    hasSchema: fields.response_format?.type === 'json_schema',
    needs: listNeeds(fields),
    body,
    promptBytes,
    likelyTokens,
    textBytes,
    source: plain && text !== undefined ? keepSource(plain, text) : undefined,
    ...(fields.prompt_cache_key === undefined ? {} : { cacheKey: fields.prompt_cache_key }),
  };
  return { asked, context: { includeUsage: fields.stream_options?.include_usage === true } };
}

/** The messages as the client wrote them, for the node. Undefined if one has the role `developer`, which engines lack. */
function keepSource({ messages }: ChatFields, text: string): ChatSource | undefined {
  if (messages.some(({ role }) => role === 'developer')) return undefined;
  const written = arrayText(text, 'messages');
  return written === undefined ? undefined : { messages: written };
}

/** Refuses fields that contradict each other. The refusal names the field that is out of place. */
function refuseContradictions(fields: ChatFields): void {
  if (fields.stream_options !== undefined && fields.stream !== true) {
    throw shapeRefusal(['stream_options'], 'needs stream');
  }
  if (fields.top_logprobs !== undefined && fields.top_logprobs > 0 && fields.logprobs !== true) {
    throw shapeRefusal(['top_logprobs'], 'needs logprobs');
  }
  refuseToolContradictions(fields);
  const last = fields.messages[fields.messages.length - 1];
  if (last?.role === 'assistant' && last.tool_calls !== undefined) {
    throw shapeRefusal(
      ['messages', fields.messages.length - 1, 'tool_calls'],
      'must be answered by a message',
    );
  }
}

function checkArguments(messages: ChatFields['messages']): void {
  const calls = new CallArguments();
  for (const [index, message] of messages.entries()) {
    if (message.role !== 'assistant') continue;
    for (const [at, call] of (message.tool_calls ?? []).entries())
      calls.check(call.function.arguments, ['messages', index, 'tool_calls', at, 'function', 'arguments']);
  }
}

function refuseToolContradictions({ tools, tool_choice: choice }: ChatFields): void {
  if (choice === undefined || choice === 'auto' || choice === 'none') return;
  if (tools === undefined) throw shapeRefusal(['tool_choice'], 'needs tools');
  if (choice === 'required') return;
  if (!tools.some((tool) => tool.function.name === choice.function.name)) {
    throw shapeRefusal(['tool_choice', 'function', 'name'], 'must be one of the tools');
  }
}

function carriedFields(fields: ChatFields): ChatBody {
  const given: Readonly<Record<string, unknown>> = fields;
  const body: Record<string, unknown> = { messages: fields.messages };
  for (const [name, { unsaid }] of settings)
    if (given[name] !== undefined && given[name] !== unsaid) body[name] = given[name];
  if (fields.tools !== undefined) {
    body['tools'] = fields.tools;
    // Without tools, leave out the tool choice, because engines refuse even its default if there is nothing to choose from.
    if (fields.tool_choice !== undefined) body['tool_choice'] = fields.tool_choice;
  }
  return body as unknown as ChatBody;
}

function listNeeds(fields: ChatFields): ChatNeed[] {
  const needs: ChatNeed[] = [];
  if (fields.messages.some(hasImage)) needs.push('images');
  if (fields.messages[fields.messages.length - 1]?.role === 'assistant') needs.push('prefill');
  if (fields.tools !== undefined) {
    needs.push('tools');
    if (fields.parallel_tool_calls === false) needs.push('single_tool_call');
  }
  return needs;
}

function hasImage(message: ChatFields['messages'][number]): boolean {
  return Array.isArray(message.content) && message.content.some((part) => part.type === 'image_url');
}
