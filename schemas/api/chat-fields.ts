/**
 * Chat completion settings that are sent to a node. Each row contains the setting's schema and, optionally, a quick check
 * that lets common values skip the schema. `data-plane/surfaces/common/chat-fields.ts` states which engines support each
 * setting.
 */
import { z } from 'zod';
import { carried, freeObject, list } from './openai-fields.ts';

export interface ChatField {
  readonly schema: z.ZodType;
  /** Returns true if the schema would return this value unchanged. Without this check, the schema is always used. */
  readonly isPlain?: (value: unknown) => boolean;
  /** Default value of the setting. This value is not sent to nodes, because omitting the setting means the same. */
  readonly unsaid?: unknown;
}

const reasoningEfforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type ReasoningEffort = (typeof reasoningEfforts)[number];

function between(least: number, most: number) {
  return {
    schema: z.number().min(least).max(most),
    isPlain: (value: unknown) => typeof value === 'number' && value >= least && value <= most,
  };
}

const stopText = z.string().min(1);

const responseFormatSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  z.strictObject({ type: z.literal('json_object') }),
  z.strictObject({
    type: z.literal('json_schema'),
    json_schema: z.strictObject({
      name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -'),
      description: carried(z.string()),
      schema: carried(freeObject),
      strict: carried(z.boolean()),
    }),
  }),
]);

function isLogitBias(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(
    ([id, bias]) => /^\d{1,9}$/.test(id) && typeof bias === 'number' && Math.abs(bias) <= 100,
  );
}

export const chatFields = {
  temperature: between(0, 2),
  top_p: between(0, 1),
  frequency_penalty: between(-2, 2),
  presence_penalty: between(-2, 2),
  stop: {
    schema: z.union([stopText, list(stopText, 4)]),
    isPlain: (value: unknown) => typeof value === 'string' && value.length > 0,
  },
  seed: { schema: z.int(), isPlain: Number.isSafeInteger },
  n: { schema: z.int().min(1).max(128), unsaid: 1 },
  logprobs: { schema: z.boolean(), isPlain: (value: unknown) => typeof value === 'boolean' },
  top_logprobs: { schema: z.int().min(0).max(20) },
  logit_bias: {
    schema: z.custom<Readonly<Record<string, number>>>(isLogitBias, 'must map token ids to -100 to 100'),
  },
  response_format: { schema: responseFormatSchema },
  reasoning_effort: { schema: z.enum(reasoningEfforts) },
} as const satisfies Record<string, ChatField>;

type Rows = typeof chatFields;
type Carried<T> = T extends z.ZodType ? ReturnType<typeof carried<T>> : never;

export const chatFieldsShape = Object.fromEntries(
  Object.entries(chatFields).map(([name, { schema }]) => [name, carried(schema)]),
) as unknown as { [Name in keyof Rows]: Carried<Rows[Name]['schema']> };

/** Chat settings that a node receives, whichever API the client used. */
export type ChatSettings = {
  readonly [Name in keyof Rows]?: z.output<Rows[Name]['schema']> | undefined;
} & {
  /** Setting that exists only in the Anthropic-style API, whose schema validates it. */
  readonly top_k?: number | undefined;
  readonly thinking_budget?: number | undefined;
};
