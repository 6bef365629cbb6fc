/**
 * The error response of an engine: one fault, shaped by the dialect, as a whole body or within a stream.
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

/** The error as a frame within a stream that has begun. */
export function errorFrame(dialect: Dialect, error: SimError): unknown {
  const body = errorBody(dialect, error);
  return dialect === 'sglang' ? { error: body } : body;
}

/** The error of an engine whose worker died during a stream. */
export const engineDied: SimError = {
  status: 500,
  message: 'the engine encountered an issue',
  type: 'InternalServerError',
};
