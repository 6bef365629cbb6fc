/**
 * The common chat request, recognised without the schema: texts by role, and settings that are single values. What it accepts
 * has the same fields as the schema's output (`plain-chat.test.ts` compares the two); anything else is left to the schema,
 * which alone refuses. A schema costs ten times as much, most of it in short-lived objects.
 */
import { type ChatField, chatFields } from '../../../schemas/api/chat-fields.ts';
import type { ChatFields } from '../../../schemas/api/openai.ts';

type Message = ChatFields['messages'][number];

const messagesMax = 10_000;
const modelLengthMax = 200;

/** The fields of a body, or undefined where only the schema can decide. */
export function plainChatFields(body: Readonly<Record<string, unknown>>): ChatFields | undefined {
  if (!Object.hasOwn(body, 'model')) return undefined;
  for (const name of Object.keys(body))
    if (name !== 'messages' && plainValues.get(name)?.(body[name]) !== true) return undefined;
  const messages = plainMessages(body['messages']);
  return messages && ({ ...body, messages } as unknown as ChatFields);
}

const isTokens = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 1;

const settings: readonly [string, ChatField][] = Object.entries(chatFields);

/** Which values of a field need no schema; of the settings, and of what the gateway itself reads. */
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
  // Both are given, so two names are these two.
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
