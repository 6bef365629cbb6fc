/**
 * Parses the fields of a chat request that a simulated node needs. It is as tolerant as real engines: a field of the wrong
 * type counts as absent, except for fields that validate.ts refuses.
 */
import { integer, isRecord, type Loose } from './loose.ts';
import { contentText } from './text.ts';

/** Function that the caller offers to the model. */
export interface Tool {
  readonly name: string;
  readonly parameters: unknown;
}

export interface SimChatRequest {
  /** Requested model, or the empty string if the request does not name one. */
  readonly model: string;
  readonly messages: readonly unknown[];
  /** Text that the answer echoes. It comes from the last user message, or from the last tool message if that is later. */
  readonly lastText: string;
  /** Last text of the user, even if results of tools follow it. */
  readonly userText: string;
  /** Number of assistant messages since the user's last text, or 0 if no tool results follow that text. */
  readonly turnsSinceUser: number;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  readonly choices: number;
  /** Maximum number of tokens in the answer. If undefined, the engine's own limit applies. */
  readonly tokensMax: number | undefined;
  readonly stops: readonly string[];
  readonly tools: readonly Tool[];
  /** Whether tools may be called. `named` forces one tool, `required` forces any tool, and `none` forbids tools. */
  readonly toolChoice: 'auto' | 'none' | 'required' | { readonly named: string };
  readonly parallelToolCalls: boolean;
  readonly responseFormat: 'text' | 'json_object' | { readonly schema: unknown };
  readonly reasoning: boolean;
  /** Number of alternatives to report for each token, or undefined if no log probabilities were requested. */
  readonly topLogprobs: number | undefined;
}

const choicesMax = 128;

/** Parses a request body. `readsMaxCompletionTokens` is false for engines that support only `max_tokens`. */
export function readChatRequest(body: Loose, readsMaxCompletionTokens: boolean): SimChatRequest {
  const messages = Array.isArray(body['messages']) ? body['messages'] : [];
  const last = lastSpoken(messages);
  const streamOptions = isRecord(body['stream_options']) ? body['stream_options'] : {};
  const asked = readsMaxCompletionTokens ? integer(body['max_completion_tokens']) : undefined;
  const effort = body['reasoning_effort'];
  const thoughtBudget = integer(body['thinking_token_budget'] ?? body['thinking_budget_tokens']) ?? 0;
  return {
    model: typeof body.model === 'string' ? body.model : '',
    messages,
    lastText: contentText(last.content),
    ...sinceUser(messages),
    stream: body['stream'] === true,
    includeUsage: streamOptions['include_usage'] === true,
    continuousUsage: streamOptions['continuous_usage_stats'] === true,
    choices: Math.min(Math.max(integer(body['n']) ?? 1, 1), choicesMax),
    tokensMax: asked ?? integer(body['max_tokens']),
    stops: parseStops(body['stop']),
    tools: parseTools(body['tools']),
    toolChoice: parseToolChoice(body['tool_choice']),
    parallelToolCalls: body['parallel_tool_calls'] !== false,
    responseFormat: parseFormat(body['response_format']),
    reasoning: (typeof effort === 'string' && effort !== 'none') || thoughtBudget > 0,
    topLogprobs: body['logprobs'] === true ? (integer(body['top_logprobs']) ?? 0) : undefined,
  };
}

function lastSpoken(messages: readonly unknown[]): Loose {
  const spoken = messages.findLast(
    (message) => isRecord(message) && (message.role === 'user' || message.role === 'tool'),
  );
  return isRecord(spoken) ? spoken : {};
}

function sinceUser(messages: readonly unknown[]): Pick<SimChatRequest, 'userText' | 'turnsSinceUser'> {
  const at = messages.findLastIndex(
    // Messages without text do not count, because images in the result of a tool also arrive in a user message.
    (message) => isRecord(message) && message.role === 'user' && contentText(message.content) !== '',
  );
  const user = messages[at];
  const roles = messages.slice(at + 1).map((message) => (isRecord(message) ? message.role : undefined));
  return {
    userText: isRecord(user) ? contentText(user.content) : '',
    turnsSinceUser: roles.includes('tool') ? roles.filter((role) => role === 'assistant').length : 0,
  };
}

function parseStops(stop: unknown): string[] {
  if (typeof stop === 'string') return [stop];
  return Array.isArray(stop) ? stop.filter((entry) => typeof entry === 'string') : [];
}

function parseTools(tools: unknown): Tool[] {
  if (!Array.isArray(tools)) return [];
  return tools.flatMap((tool) => {
    const described = isRecord(tool) ? tool.function : undefined;
    if (!isRecord(described) || typeof described.name !== 'string') return [];
    return [{ name: described.name, parameters: described['parameters'] }];
  });
}

function parseToolChoice(choice: unknown): SimChatRequest['toolChoice'] {
  if (choice === 'none' || choice === 'required') return choice;
  const described = isRecord(choice) ? choice.function : undefined;
  return isRecord(described) && typeof described.name === 'string' ? { named: described.name } : 'auto';
}

function parseFormat(format: unknown): SimChatRequest['responseFormat'] {
  if (!isRecord(format)) return 'text';
  if (format['type'] === 'json_object') return 'json_object';
  if (format['type'] !== 'json_schema') return 'text';
  const described = format['json_schema'];
  return { schema: isRecord(described) ? described['schema'] : undefined };
}
