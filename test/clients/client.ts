/**
 * What every client library is made to do here, whatever it calls it. A driver passes nothing but address, key, model and
 * messages: all else is the library's default, retries included.
 */
import type { Target } from './client-fleet.ts';

export interface Ask extends Target {
  readonly model: string;
  readonly text: string;
  /** A picture after the text, as the address of its data; of clients that ask for responses. */
  readonly image?: string;
  /** Further fields of the request, by the library's own way to send them. */
  readonly extra?: Readonly<Record<string, unknown>>;
  /** Further headers of the request. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** What a caller finds in the error that the library throws. */
export interface Failure {
  /** The error's class. */
  readonly name: string;
  readonly status?: number | undefined;
  /** `error.type` of the envelope, where the library hands it on. */
  readonly type?: string | undefined;
}

export interface ToolTurn {
  /** The arguments with which the tool was called. */
  readonly input: unknown;
  /** The answer after the tool's result. */
  readonly text: string;
}

export interface Client {
  readonly name: string;
  chat(ask: Ask): Promise<string>;
  /** The text of a whole stream; rejects where it ends early. */
  stream(ask: Ask): Promise<string>;
  /** Offers the tool `weather`, answers its call with `toolResult`, and asks again. */
  tools(ask: Ask): Promise<ToolTurn>;
  /** One vector a text. */
  embed?(ask: Omit<Ask, 'text'>, texts: readonly string[]): Promise<readonly (readonly number[])[]>;
  /** The ids of the listing. */
  models?(target: Target): Promise<readonly string[]>;
  /** Reads what `chat` or `stream` threw. */
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

/** A picture of one dot, a PNG in base64. */
export const dot =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

export const toolResult = 'sunny and mild';

/** Reads an error whose fields are those of the envelope. */
export function failureOf(error: unknown): Failure {
  const { status, type } = error as { status?: number; type?: string | null };
  return { name: (error as object).constructor.name, status, type: type ?? undefined };
}
