/** Formats an engine's error response in the dialect of that engine. */
import type { Dialect } from '../../schemas/names.ts';

/** Refusal by an engine, before it is formatted for a dialect. */
export interface SimError {
  readonly status: number;
  readonly message: string;
  /** Name that the engine itself gives to this type of error, if there is one. */
  readonly type: string;
  readonly param?: string;
  /** Additional fields beside the message, such as the size of the prompt and of the context in llama.cpp's refusals. */
  readonly details?: Readonly<Record<string, unknown>>;
}

export function errorBody(dialect: Dialect, error: SimError): unknown {
  const { status, message, type, param = null } = error;
  switch (dialect) {
    case 'vllm':
      return { error: { message, type, param, code: status } };
    case 'sglang':
      return { object: 'error', message, type, param, code: status };
    case 'llamacpp':
      return { error: { code: status, message, type, ...error.details } };
    case 'ollama':
      return { error: { message, type: 'api_error', param: null, code: null } };
  }
}
