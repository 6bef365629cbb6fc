/**
 * Operations that the tests need from every client library, under names that do not depend on the library. Drivers set only
 * address, key, model and messages. Everything else, including retries, is the library's default.
 */
import type { Target } from './client-fleet.ts';

export interface Ask extends Target {
  readonly model: string;
  readonly text: string;
  /** Data URL of a picture that follows the text. Only for clients of the Responses API. */
  readonly image?: string;
  /** Additional request fields, sent in the library's own way. */
  readonly extra?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An error that the library threw, as its caller sees it. */
export interface Failure {
  readonly name: string;
  readonly status?: number | undefined;
  /** The envelope's `error.type`, if the library exposes it. */
  readonly type?: string | undefined;
}

export interface ToolTurn {
  readonly input: unknown;
  /** Text of the answer that follows the tool's result. */
  readonly text: string;
}

export interface Client {
  readonly name: string;
  chat(ask: Ask): Promise<string>;
  /** Returns the text of a whole stream. Rejects if it ends early. */
  stream(ask: Ask): Promise<string>;
  /** Offers the tool `weather`, answers the model's call with `toolResult`, and asks again. */
  tools(ask: Ask): Promise<ToolTurn>;
  embed?(ask: Omit<Ask, 'text'>, texts: readonly string[]): Promise<readonly (readonly number[])[]>;
  models?(target: Target): Promise<readonly string[]>;
  /** Describes an error that `chat` or `stream` threw. */
  failure(error: unknown): Failure;
}

export const weather = {
  name: 'weather',
  description: 'The weather of a city',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
};

/** A one-pixel PNG image in base64. */
export const dot =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

export const toolResult = 'sunny and mild';

/** Describes an error whose fields have the same names as those of the error envelope. */
export function failureOf(error: unknown): Failure {
  const { status, type } = error as { status?: number; type?: string | null };
  return { name: (error as object).constructor.name, status, type: type ?? undefined };
}
