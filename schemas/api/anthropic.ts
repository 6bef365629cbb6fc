/**
 * Strict request schemas of POST /v1/messages and POST /v1/messages/count_tokens. Each field that is defined here is passed
 * to the node, accepted without effect (docs/api.md lists these), or refused. All others are refused (specification,
 * Endpoints). The newer of the two API versions has no sampling fields. Parsing returns only the fields that the node needs.
 */
import { z } from 'zod';
import {
  anthropicToolChoiceSchema,
  cacheControl,
  textContentSchema,
  toolSchema,
  turnSchema,
} from './anthropic-messages.ts';
import { carried, freeObject, list, noOp, refused, required } from './openai-fields.ts';

/** Supported API versions. The first one applies if a request does not state a version. */
export const anthropicVersions = ['2023-06-01', '2026-10-21'] as const;
export type AnthropicVersion = (typeof anthropicVersions)[number];

/** Model name: any short text. Routing decides whether the model exists. */
const modelSchema = z.string().min(1).max(200);

/** Display of the model's thinking. Only `omitted` is supported, because the gateway cannot summarise thinking. */
const display = carried(z.literal('omitted'));

const thinkingSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('disabled') }),
  z.strictObject({ type: z.literal('adaptive'), display }),
  z.strictObject({ type: z.literal('enabled'), budget_tokens: z.int().min(1), display }),
]);

const outputConfigSchema = z.strictObject({
  effort: carried(z.enum(['low', 'medium', 'high', 'xhigh', 'max'])),
  format: carried(z.strictObject({ type: z.literal('json_schema'), schema: freeObject })),
});

/** Edits of the context that the client requests. Only edits that keep all content are accepted, so none changes anything. */
const contextManagement = noOp(
  z.strictObject({
    edits: carried(
      list(
        z.strictObject({
          type: z.string().regex(/^clear_thinking_\d{8}$/, 'is not supported'),
          keep: z.literal('all'),
        }),
        16,
      ),
    ),
  }),
);

const threadAdvice =
  'is not supported; set `thread: false` in the tool runner, so that it sends the whole conversation each turn';

/** Fields that make up the prompt, for both operations (sending a message and counting its tokens). */
const promptShape = {
  model: modelSchema,
  messages: required(list(turnSchema, 10_000)),
  system: carried(textContentSchema),
  tools: carried(list(toolSchema, 1000)),
  tool_choice: carried(anthropicToolChoiceSchema),
  thinking: carried(thinkingSchema),
  output_config: carried(outputConfigSchema),

  cache_control: cacheControl,
  context_management: contextManagement,
  speed: noOp(z.literal('standard')),

  mcp_servers: refused(),
  thread: carried(z.never({ error: threadAdvice })),
};

/** Value -1, which some clients send for a field that is not set. */
const unset = z.literal(-1).transform((): undefined => undefined);

const messagesShape = {
  ...promptShape,
  max_tokens: z.int().min(1),
  stop_sequences: carried(list(z.string().min(1), 64)),
  stream: carried(z.boolean()),

  metadata: carried(z.strictObject({ user_id: noOp(z.string()) })),
  service_tier: noOp(z.enum(['auto', 'standard_only'])),

  diagnostics: refused(),
  container: refused(),
  inference_geo: refused(),
  fallbacks: refused(),
  billing_policy: refused(),
};

const removed = carried(z.never({ error: 'is not a field of this anthropic-version' }));

export const messagesRequestSchemas = {
  '2023-06-01': z.strictObject({
    ...messagesShape,
    temperature: carried(z.number().min(0).max(1)),
    top_p: carried(z.union([unset, z.number().min(0).max(1)])),
    top_k: carried(z.union([unset, z.int().min(1)])),
  }),
  '2026-10-21': z.strictObject({ ...messagesShape, temperature: removed, top_p: removed, top_k: removed }),
} as const satisfies Record<AnthropicVersion, z.ZodType>;

export const countTokensRequestSchema = z.strictObject(promptShape);

export type MessagesFields = z.output<(typeof messagesRequestSchemas)['2023-06-01']>;
export type PromptFields = z.output<typeof countTokensRequestSchema>;
