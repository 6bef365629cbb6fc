/** Checks that an engine makes before it generates. Each dialect refuses what the real engine was observed to refuse. */
import type { Dialect } from '../../schemas/names.ts';
import type { SimChatRequest } from './chat-request.ts';
import type { SimError } from './engine-error.ts';
import type { Loose } from './loose.ts';

export interface Window {
  readonly dialect: Dialect;
  /** Maximum number of tokens of prompt and answer together. */
  readonly contextTokens: number;
}

/** Returns the engine's refusal of a chat request, or undefined if the engine would answer. */
export function chatFault(
  body: Loose,
  request: SimChatRequest,
  promptTokens: number,
  window: Window,
): SimError | undefined {
  if (request.messages.length === 0) return badRequest('messages: Field required', 'messages');
  if (window.dialect === 'vllm' || window.dialect === 'sglang') {
    const fault = strictFault(body, request, window.dialect);
    if (fault !== undefined) return fault;
  }
  return windowFault(request, promptTokens, window);
}

export function badRequest(message: string, param?: string): SimError {
  return { status: 400, message, type: 'BadRequestError', ...(param === undefined ? {} : { param }) };
}

/** Returns a refusal with status 404, as engines with a fixed set of models send it. */
export function unknownModel(dialect: Dialect, model: string, models: readonly string[]): SimError {
  const message =
    dialect === 'ollama'
      ? `model '${model}' not found`
      : `The model \`${model}\` does not exist. Valid aliases: ${models.join(', ')}.`;
  return { status: 404, message, type: 'NotFoundError', param: 'model' };
}

function strictFault(body: Loose, request: SimChatRequest, dialect: Dialect): SimError | undefined {
  const max = request.tokensMax;
  if (max !== undefined && max < (dialect === 'vllm' ? 1 : 0))
    return badRequest(`max_tokens must be at least 1, got ${max}. (parameter=max_tokens, value=${max})`);
  if (dialect === 'sglang')
    return body['n'] === null ? badRequest('n: Input should be a valid integer') : undefined;
  if (Array.isArray(body['tools']) && body['tools'].length === 0)
    return badRequest('`tools` must not be an empty array. (parameter=tools)', 'tools');
  const choice = body['tool_choice'];
  if (choice !== undefined && choice !== null && choice !== 'none' && request.tools.length === 0)
    return badRequest(
      'When using `tool_choice`, `tools` must be set. (parameter=tool_choice)',
      'tool_choice',
    );
  if (body['stream_options'] && !request.stream)
    return badRequest('Stream options can only be defined when `stream=True`.', 'stream_options');
  return undefined;
}

function windowFault(request: SimChatRequest, prompt: number, window: Window): SimError | undefined {
  const { dialect, contextTokens } = window;
  // Ollama never refuses a long prompt; it truncates the prompt silently.
  if (dialect === 'ollama') return undefined;
  if (dialect === 'llamacpp')
    return prompt >= contextTokens ? exceedsContext(dialect, prompt, contextTokens) : undefined;
  const max = request.tokensMax ?? 0;
  if (prompt + max <= contextTokens && prompt < contextTokens) return undefined;
  if (dialect === 'sglang')
    return prompt < contextTokens
      ? badRequest(
          `Requested token count exceeds the model's maximum context length of ${contextTokens} tokens.`,
        )
      : exceedsContext(dialect, prompt, contextTokens);
  if (prompt >= contextTokens) return exceedsContext(dialect, prompt, contextTokens);
  const limit = `This model's maximum context length is ${contextTokens} tokens.`;
  if (max > contextTokens)
    return badRequest(
      `max_tokens=${max} cannot be greater than max_model_len=${contextTokens}. (parameter=max_tokens, value=${max})`,
      'max_tokens',
    );
  return badRequest(
    `max_tokens=${max} is too large. ${limit} Your request has ${prompt} input tokens. (parameter=max_tokens, value=${max})`,
    'max_tokens',
  );
}

/** Returns the refusal of a prompt that is too long even without an answer. */
export function exceedsContext(dialect: Dialect, prompt: number, contextTokens: number): SimError {
  if (dialect === 'sglang')
    return badRequest(
      `The input (${prompt} tokens) is longer than the model's context length (${contextTokens} tokens).`,
    );
  if (dialect === 'vllm')
    return badRequest(
      `This model's maximum context length is ${contextTokens} tokens. However, your prompt contains at least ${prompt} input tokens. (parameter=input_tokens, value=${prompt})`,
      'input_tokens',
    );
  return {
    status: 400,
    message: `request (${prompt} tokens) exceeds the available context size (${contextTokens} tokens)`,
    type: 'exceed_context_size_error',
    details: { n_prompt_tokens: prompt, n_ctx: contextTokens },
  };
}
