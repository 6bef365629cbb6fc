/**
 * Fast path for the most common chat request: messages that contain only a role and a text, and settings with simple values.
 * It costs a tenth of the schema's validation and returns the same fields, which `plain-chat.test.ts` proves. All other
 * requests go to the schema, and only the schema may refuse a request.
 */
import { type ChatField, chatFields } from '../../../schemas/api/chat-fields.ts';
import type { ChatFields } from '../../../schemas/api/openai.ts';

type Message = ChatFields['messages'][number];

const messagesMax = 10_000;
const modelLengthMax = 200;

/** Fields of a common chat request, or undefined if the schema must validate the body. */
export function plainChatFields(body: Readonly<Record<string, unknown>>): ChatFields | undefined {
  if (!Object.hasOwn(body, 'model')) return undefined;
  for (const name of Object.keys(body))
    if (name !== 'messages' && plainValues.get(name)?.(body[name]) !== true) return undefined;
  const messages = plainMessages(body['messages']);
  return messages && ({ ...body, messages } as unknown as ChatFields);
}

const isTokens = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 1;

const settings: readonly [string, ChatField][] = Object.entries(chatFields);

/** For each field that the fast path accepts, a function that checks whether the value is valid without the schema. */
const plainValues = new Map<string, ChatField['isPlain']>([
  ...settings.map(([name, { isPlain }]) => [name, isPlain] as const),
  ['model', (value) => typeof value === 'string' && value.length > 0 && value.length <= modelLengthMax],
  ['stream', (value) => typeof value === 'boolean'],
  ['stream_options', isUsageOption],
  ['max_tokens', isTokens],
  ['max_completion_tokens', isTokens],
]);

function isUsageOption(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const names = Object.keys(value);
  return (
    names.length === 1 &&
    names[0] === 'include_usage' &&
    typeof (value as Record<string, unknown>)['include_usage'] === 'boolean'
  );
}

function plainMessages(value: unknown): Message[] | undefined {
  if (!Array.isArray(value) || value.length === 0 || value.length > messagesMax) return undefined;
  const messages: Message[] = [];
  for (const entry of value) {
    const message = plainMessage(entry);
    if (message === undefined) return undefined;
    messages.push(message);
  }
  return messages;
}

function plainMessage(entry: unknown): Message | undefined {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return undefined;
  const { role, content } = entry as Readonly<Record<string, unknown>>;
  // The message has `role` and `content`, so if it has only two members, it has no others.
  if (typeof content !== 'string' || Object.keys(entry).length !== 2) return undefined;
  switch (role) {
    case 'system':
    case 'developer':
    case 'user':
    case 'assistant':
      return { role, content };
    default:
      return undefined;
  }
}
