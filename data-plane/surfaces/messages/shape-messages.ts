/**
 * Converts a body of the Anthropic-style API to a chat request for any node, or throws `UnsupportedShapeError`
 * (specification, Errors 2). The result depends only on the path, the headers and the body, never on the stack or the
 * organisation. `anthropic-beta` is ignored. `anthropic-version` only determines which fields exist.
 */
import {
  type AnthropicVersion,
  anthropicVersions,
  countTokensRequestSchema,
  type MessagesFields,
  messagesRequestSchemas,
  type PromptFields,
} from '../../../schemas/api/anthropic.ts';
import type { AnthropicTool } from '../../../schemas/api/anthropic-messages.ts';
import type { ReasoningEffort } from '../../../schemas/api/chat-fields.ts';
import type { FunctionTool, ToolChoice } from '../../../schemas/api/openai-messages.ts';
import type { ChatBody, ChatNeed, WholeChat } from '../common/asked.ts';
import { chatPromptSize } from '../common/prompt-size.ts';
import type { ShapeHeaders } from '../common/surface.ts';
import { parseFields, shapeRefusal } from '../common/validate.ts';
import { type Path, toChatMessages } from './conversation.ts';

export interface MessagesContext {
  /** Whether reasoning is shown. If `omitted`, reasoning blocks are sent without their text. */
  readonly thinkingDisplay: 'shown' | 'omitted';
  /** Stop sequences that the response may name, if the engine reports which one ended it. */
  readonly stopSequences: readonly string[];
}

/** Maximum length of a stop sequence that a response can name, to bound the context. Nodes also get longer ones. */
const stopSequenceCharactersMax = 1024;

/** Validates a request for a message. Throws `UnsupportedShapeError` with the JSON path of the first unsupported field. */
export function shapeMessages(
  given: Record<string, unknown>,
  headers: ShapeHeaders,
): { readonly asked: WholeChat; readonly context: MessagesContext } {
  const fields: MessagesFields = parseFields(messagesRequestSchemas[parseVersion(headers)], given);
  const { thinking } = fields;
  if (thinking?.type === 'enabled' && thinking.budget_tokens >= fields.max_tokens) {
    throw shapeRefusal(['thinking', 'budget_tokens'], 'must be less than max_tokens');
  }
  const isOmitted = thinking !== undefined && thinking.type !== 'disabled' && thinking.display === 'omitted';
  const stopSequences = (fields.stop_sequences ?? []).filter(
    ({ length }) => length <= stopSequenceCharactersMax,
  );
  return {
    asked: toChat(fields, fields),
    context: { thinkingDisplay: isOmitted ? 'omitted' : 'shown', stopSequences },
  };
}

/** Validates a request to count tokens. Throws `UnsupportedShapeError` with the JSON path of the first unsupported field. */
export function shapeCountTokens(given: Record<string, unknown>, headers: ShapeHeaders): WholeChat {
  parseVersion(headers);
  return toChat(parseFields(countTokensRequestSchema, given), { max_tokens: 0 });
}

export function countTokensBody(inputTokens: number): object {
  return { input_tokens: inputTokens };
}

function parseVersion({ version }: ShapeHeaders): AnthropicVersion {
  if (version === undefined) return anthropicVersions[0];
  const known = anthropicVersions.find((one) => one === version);
  if (known !== undefined) return known;
  throw shapeRefusal(['anthropic-version'], `must be one of ${anthropicVersions.join(', ')}`);
}

type Sampling = Partial<Omit<MessagesFields, keyof PromptFields>>;

/** Paths in the Anthropic-style API of fields that are elsewhere in chat completions. */
const fixedPaths = {
  response_format: ['output_config', 'format'],
  thinking_budget: ['thinking', 'budget_tokens'],
};

function toChat(prompt: PromptFields, sampling: Sampling): WholeChat {
  const { messages, imagePath, prefillPath } = toChatMessages(prompt.system, prompt.messages);
  const { temperature, top_p, top_k, stop_sequences: stop, max_tokens: maxTokens } = sampling;
  const { effort, effortPath, budgetTokens } = readThinking(prompt);
  const choice = toToolChoice(prompt);
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
    ...(sampling.stream === true ? { usageAtStart: true as const } : {}),
    maxTokens,
    choices: 1,
    logprobs: false,
    hasSchema: schema !== undefined,
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
  /** Path in the caller's body of the field that sets the reasoning effort. */
  readonly effortPath: Path;
  readonly budgetTokens: number | undefined;
}

/** Reads the settings for reasoning. The type `adaptive` adds none, because models decide for themselves by default. */
function readThinking({ thinking, output_config: output }: PromptFields): Thought {
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

/** Converts the tool choice for a node. Returns none without tools, because engines then refuse even the default. */
function toToolChoice({ tools, tool_choice: choice }: PromptFields): ToolChoice | undefined {
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
