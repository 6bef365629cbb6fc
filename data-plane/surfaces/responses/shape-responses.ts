/**
 * Converts a body of POST /v1/responses to a chat request for any node, or throws `UnsupportedShapeError` (specification,
 * Errors 2). Engines' own versions of this API are not used, because they differ and need stored state.
 */
import { type ResponsesFields, responsesRequestSchema } from '../../../schemas/api/responses.ts';
import type { ChatBody, ChatNeed, WholeChat } from '../common/asked.ts';
import { writeJson } from '../common/json-source.ts';
import { chatPromptSize } from '../common/prompt-size.ts';
import type { ShapeHeaders } from '../common/surface.ts';
import { parseFields, shapeRefusal } from '../common/validate.ts';
import { toConversation } from './input-items.ts';
import { type CallNames, type OfferedTools, offeredTools, repeatedTools } from './offered-tools.ts';

export interface ResponsesContext {
  /** Members of the request that the response repeats, as JSON on one line without the outer braces. */
  readonly repeated: string;
  readonly names: CallNames;
  /** Key that encrypts the reasoning in the response, or undefined if the reasoning must not be returned encrypted. */
  readonly sealKey: string | undefined;
}

/** Maximum length of the instructions, tools or schema that a response repeats, because they are kept for each request. */
const repeatedCharactersMax = 32 * 1024;

/** Validates a request. Throws `UnsupportedShapeError` with the JSON path of the first unsupported field. */
export function shapeResponses(
  given: Record<string, unknown>,
  { sealKey }: ShapeHeaders,
): { readonly asked: WholeChat; readonly context: ResponsesContext } {
  const fields: ResponsesFields = parseFields(responsesRequestSchema, given);
  const offered = offeredTools(fields);
  const isSealed = fields.store === false || fields.include?.includes('reasoning.encrypted_content') === true;
  return {
    asked: toChat(fields, offered, sealKey),
    context: {
      // Remove line breaks. All of them are between values, because strings escape theirs.
      repeated: writeJson(repeatedMembers(fields, given['metadata']))
        .slice(1, -1)
        .replace(/[\r\n]/g, ' '),
      names: offered.names,
      sealKey: isSealed ? sealKey : undefined,
    },
  };
}

/** Paths in the Responses API of fields that are elsewhere in chat completions. */
const fixedPaths = {
  response_format: ['text', 'format'],
  reasoning_effort: ['reasoning', 'effort'],
  logprobs: ['include'],
};

function toChat(fields: ResponsesFields, offered: OfferedTools, sealKey: string | undefined): WholeChat {
  const { messages, imagePath, prefillPath } = toConversation(fields, sealKey);
  const format = fields.text?.format;
  const logprobs = fields.include?.includes('message.output_text.logprobs') === true;
  if ((fields.top_logprobs ?? 0) > 0 && !logprobs)
    throw shapeRefusal(['top_logprobs'], 'needs "message.output_text.logprobs" in include');
  const body: Record<string, unknown> = { messages: [...messages] };
  const add = (name: keyof ChatBody, value: unknown): void => {
    if (value !== undefined) body[name] = value;
  };
  add('temperature', fields.temperature);
  add('top_p', fields.top_p);
  add('frequency_penalty', fields.frequency_penalty);
  add('presence_penalty', fields.presence_penalty);
  add('logprobs', logprobs ? true : undefined);
  add('top_logprobs', fields.top_logprobs);
  add('response_format', chatFormat(format));
  add('reasoning_effort', fields.reasoning?.effort);
  add('tools', offered.tools);
  add('tool_choice', offered.choice);
  const chat = body as unknown as ChatBody;
  const needs: ChatNeed[] = [];
  if (imagePath !== undefined) needs.push('images');
  if (prefillPath !== undefined) needs.push('prefill');
  if (offered.tools !== undefined) needs.push('tools');
  if (offered.tools !== undefined && fields.parallel_tool_calls === false) needs.push('single_tool_call');
  return {
    kind: 'chat',
    model: fields.model,
    stream: fields.stream === true,
    maxTokens: fields.max_output_tokens,
    choices: 1,
    logprobs,
    hasSchema: format?.type === 'json_schema',
    needs,
    paths: {
      ...fixedPaths,
      ...(imagePath && { images: imagePath }),
      ...(prefillPath && { prefill: prefillPath }),
    },
    body: chat,
    ...chatPromptSize(chat),
    ...(fields.prompt_cache_key === undefined ? {} : { cacheKey: fields.prompt_cache_key }),
  };
}

type Format = NonNullable<ResponsesFields['text']>['format'];

function chatFormat(format: Format): ChatBody['response_format'] {
  if (format?.type !== 'json_schema') return format;
  const { type, ...schema } = format;
  return { type, json_schema: schema };
}

/** Members of the request that a response repeats, with the API's default for each that the request left out. */
function repeatedMembers(fields: ResponsesFields, metadata: unknown): object {
  const { text, reasoning } = fields;
  return {
    instructions: unlessLarge(fields.instructions) ?? null,
    max_output_tokens: fields.max_output_tokens ?? null,
    max_tool_calls: null,
    parallel_tool_calls: fields.parallel_tool_calls ?? true,
    presence_penalty: fields.presence_penalty ?? 0,
    frequency_penalty: fields.frequency_penalty ?? 0,
    reasoning: { effort: reasoning?.effort ?? null, summary: null },
    temperature: fields.temperature ?? 1,
    text: { format: repeatedFormat(text?.format) },
    tool_choice: unlessLarge(fields.tool_choice) ?? 'auto',
    tools: unlessLarge(repeatedTools(fields.tools)) ?? [],
    top_logprobs: fields.top_logprobs ?? 0,
    top_p: fields.top_p ?? 1,
    metadata: fields.metadata === undefined ? {} : metadata,
  };
}

function repeatedFormat(format: Format): object {
  if (format?.type !== 'json_schema') return format ?? { type: 'text' };
  const { type, name, description = null, strict = null } = format;
  return {
    type,
    name,
    description: unlessLarge(description),
    schema: unlessLarge(format.schema) ?? {},
    strict,
  };
}

function unlessLarge<Value>(value: Value): Value | undefined {
  return writeJson(value ?? null).length <= repeatedCharactersMax ? value : undefined;
}
