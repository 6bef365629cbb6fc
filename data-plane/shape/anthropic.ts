/**
 * A body of the Anthropic-style API becomes the request of a chat that any node can be sent, or UnsupportedShapeError
 * (Errors 2). Decided by path, headers and body alone, never by stack or organisation.
 * Fields decide: `anthropic-beta` grants nothing, and `anthropic-version` only names which fields exist.
 */
import {
  type AnthropicVersion,
  anthropicVersions,
  countTokensRequestSchema,
  type MessagesFields,
  messagesRequestSchemas,
  type PromptFields,
} from '../../schemas/anthropic.ts';
import type { AnthropicTool } from '../../schemas/anthropic-messages.ts';
import type { ReasoningEffort } from '../../schemas/chat-fields.ts';
import type { FunctionTool, ToolChoice } from '../../schemas/openai-messages.ts';
import type { JsonText } from '../core/json-text.ts';
import { type Path, toChatMessages } from './anthropic-conversation.ts';
import { type ChatBody, type ChatNeed, type ChatRequest, parseBody } from './openai.ts';
import { chatPromptSize } from './prompt-size.ts';
import { refusalOf, shapeRefusal } from './validate.ts';

/** The headers of the API as they came; a header that was not sent is undefined. */
export interface AnthropicHeaders {
  readonly version: string | undefined;
  readonly beta: string | undefined;
}

export interface MessagesRequest {
  readonly kind: 'messages';
  readonly model: string;
  readonly stream: boolean;
  /** What the node is asked; `includeUsage` has no meaning here, because a message always ends with its usage. */
  readonly chat: ChatRequest;
  /** `omitted`: blocks of thoughts come without their text. */
  readonly thinkingDisplay: 'shown' | 'omitted';
  /** The client allows one call at a time; engines that ignore that are trimmed to it. */
  readonly trimToFirstCall: boolean;
  /** An end by one of these is reported by name, where the engine reports which. */
  readonly stopSequences: readonly string[];
}

export interface CountTokensRequest {
  readonly kind: 'count-tokens';
  readonly model: string;
  readonly chat: ChatRequest;
}

/** Throws UnsupportedShapeError naming the JSON path, never a value. */
export function shapeMessages(
  raw: Buffer | JsonText,
  contentType: string | undefined,
  headers: AnthropicHeaders,
): MessagesRequest {
  const schema = messagesRequestSchemas[versionOf(headers)];
  const parsed = schema.safeParse(parseBody(raw, contentType), { reportInput: true });
  if (!parsed.success) throw refusalOf(parsed.error);
  const fields: MessagesFields = parsed.data;
  const { thinking } = fields;
  if (thinking?.type === 'enabled' && thinking.budget_tokens >= fields.max_tokens) {
    throw shapeRefusal(['thinking', 'budget_tokens'], 'must be less than max_tokens');
  }
  return {
    kind: 'messages',
    model: fields.model,
    stream: fields.stream === true,
    chat: chatOf(fields, fields),
    thinkingDisplay:
      thinking !== undefined && thinking.type !== 'disabled' && thinking.display === 'omitted'
        ? 'omitted'
        : 'shown',
    trimToFirstCall: callsOneAtATime(fields),
    stopSequences: fields.stop_sequences ?? [],
  };
}

/** Throws UnsupportedShapeError naming the JSON path, never a value. */
export function shapeCountTokens(
  raw: Buffer | JsonText,
  contentType: string | undefined,
  headers: AnthropicHeaders,
): CountTokensRequest {
  versionOf(headers);
  const parsed = countTokensRequestSchema.safeParse(parseBody(raw, contentType), { reportInput: true });
  if (!parsed.success) throw refusalOf(parsed.error);
  return { kind: 'count-tokens', model: parsed.data.model, chat: chatOf(parsed.data, {}) };
}

/** The answer to a count. */
export function countTokensBody(inputTokens: number): object {
  return { input_tokens: inputTokens };
}

function versionOf({ version }: AnthropicHeaders): AnthropicVersion {
  if (version === undefined) return anthropicVersions[0];
  const known = anthropicVersions.find((one) => one === version);
  if (known !== undefined) return known;
  throw shapeRefusal(['anthropic-version'], `must be one of ${anthropicVersions.join(', ')}`);
}

type Sampling = Partial<Omit<MessagesFields, keyof PromptFields>>;

/** Where this API has what a chat completion has elsewhere. */
const fixedPaths = {
  response_format: ['output_config', 'format'],
  thinking_budget: ['thinking', 'budget_tokens'],
};

function chatOf(prompt: PromptFields, sampling: Sampling): ChatRequest {
  const { messages, imagePath, prefillPath } = toChatMessages(prompt.system, prompt.messages);
  const { temperature, top_p, top_k, stop_sequences: stop, max_tokens: maxTokens } = sampling;
  const { effort, effortPath, budgetTokens } = thoughtOf(prompt);
  const choice = toolChoiceOf(prompt);
  const schema = prompt.output_config?.format?.schema;
  const body: ChatBody = withoutAbsent({
    messages: [...messages],
    temperature,
    top_p,
    stop,
    response_format:
      schema === undefined
        ? undefined
        : { type: 'json_schema', json_schema: { name: 'output', schema, strict: true } },
    tools: prompt.tools?.map(functionTool),
    tool_choice: choice,
    reasoning_effort: effort,
    top_k,
    thinking_budget: budgetTokens,
  });
  const needs: ChatNeed[] = [];
  if (imagePath !== undefined) needs.push('images');
  if (prefillPath !== undefined) needs.push('prefill');
  if (prompt.tools !== undefined) needs.push('tools');
  if (callsOneAtATime(prompt)) needs.push('single_tool_call');
  return {
    kind: 'chat',
    model: prompt.model,
    stream: sampling.stream === true,
    includeUsage: false,
    ...(sampling.stream === true ? { usageAtStart: true as const } : {}),
    maxTokens,
    choices: 1,
    needs,
    paths: {
      ...fixedPaths,
      reasoning_effort: effortPath,
      ...(imagePath && { images: imagePath }),
      ...(prefillPath && { prefill: prefillPath }),
    },
    body,
    ...chatPromptSize(body),
  };
}

function withoutAbsent(body: { [K in keyof ChatBody]: ChatBody[K] | undefined }): ChatBody {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)) as ChatBody;
}

interface Thought {
  readonly effort: ReasoningEffort | undefined;
  /** Its path in the caller's body. */
  readonly effortPath: Path;
  readonly budgetTokens: number | undefined;
}

/** `adaptive` asks for nothing: that the model decides is what every node does by itself. */
function thoughtOf({ thinking, output_config: output }: PromptFields): Thought {
  if (thinking?.type === 'disabled')
    return { effort: 'none', effortPath: ['thinking'], budgetTokens: undefined };
  return {
    effort: output?.effort,
    effortPath: ['output_config', 'effort'],
    budgetTokens: thinking?.type === 'enabled' ? thinking.budget_tokens : undefined,
  };
}

function callsOneAtATime({ tools, tool_choice: choice }: PromptFields): boolean {
  if (tools === undefined || choice === undefined || choice.type === 'none') return false;
  return choice.disable_parallel_tool_use === true;
}

/** Without tools there is nothing to choose from; engines refuse even the default then. */
function toolChoiceOf({ tools, tool_choice: choice }: PromptFields): ToolChoice | undefined {
  if (choice === undefined) return undefined;
  if (choice.type === 'auto' || choice.type === 'none') return tools === undefined ? undefined : choice.type;
  if (tools === undefined) throw shapeRefusal(['tool_choice'], 'needs tools');
  if (choice.type === 'any') return 'required';
  if (!tools.some((tool) => tool.name === choice.name)) {
    throw shapeRefusal(['tool_choice', 'name'], 'must be one of the tools');
  }
  return { type: 'function', function: { name: choice.name } };
}

function functionTool({ name, description, input_schema: parameters, strict }: AnthropicTool): FunctionTool {
  return {
    type: 'function',
    function: {
      name,
      ...(description === undefined ? {} : { description }),
      parameters,
      ...(strict === undefined ? {} : { strict }),
    },
  };
}
