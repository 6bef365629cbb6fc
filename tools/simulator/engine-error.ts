/**
 * The error response of an engine, shaped by the dialect.
 */
import type { Dialect } from '../../schemas/names.ts';

/** A refusal of the engine before any dialect has shaped it. */
export interface SimError {
  readonly status: number;
  readonly message: string;
  /** The engine's own type name, where it has one. */
  readonly type: string;
  readonly param?: string;
  /** Further fields next to the message; llama.cpp reports both token numbers. */
  readonly details?: Readonly<Record<string, unknown>>;
}

/** The error as the body of an answer. */
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
