/**
 * Recognises the common chat request, texts by role and settings with single values, at a tenth of the schema's cost. It
 * returns the same fields (`plain-chat.test.ts`) and leaves all else to the schema, which alone may refuse.
 */
import { type ChatField, chatFields } from '../../../schemas/api/chat-fields.ts';
import type { ChatFields } from '../../../schemas/api/openai.ts';

type Message = ChatFields['messages'][number];

const messagesMax = 10_000;
const modelLengthMax = 200;

/** Fields of a body. undefined if the schema must decide. */
export function plainChatFields(body: Readonly<Record<string, unknown>>): ChatFields | undefined {
  if (!Object.hasOwn(body, 'model')) return undefined;
  for (const name of Object.keys(body))
    if (name !== 'messages' && plainValues.get(name)?.(body[name]) !== true) return undefined;
  const messages = plainMessages(body['messages']);
  return messages && ({ ...body, messages } as unknown as ChatFields);
}

const isTokens = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 1;

const settings: readonly [string, ChatField][] = Object.entries(chatFields);

/** Checks whether a field's value needs no schema, for chat settings and for the fields that the gateway reads. */
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
  // `role` and `content` are present, so two names can only be these two.
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
