/** An engine's error response, in the format of its dialect. */
import type { Dialect } from '../../schemas/names.ts';

/** An engine's refusal, before it is formatted for a dialect. */
export interface SimError {
  readonly status: number;
  readonly message: string;
  /** The engine's own type name, if it has one. */
  readonly type: string;
  readonly param?: string;
  /** Additional fields beside the message. llama.cpp reports both token counts. */
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
