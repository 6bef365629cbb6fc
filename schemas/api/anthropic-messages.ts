/**
 * Schemas for the messages and tools of a request to the Anthropic-style API. A field or kind of block that is not defined
 * here is refused with its path. Images must be inline, because a node would fetch a URL from inside the fleet. Tools must be
 * the caller's own.
 */
import { z } from 'zod';
import { carried, freeObject, isBase64, list, noOp, refused, required } from './openai-fields.ts';

/** Tool name: letters, digits, `_` and `-`, at most 128 characters, as the Anthropic API defines it. */
const toolNameSchema = z.string().regex(/^[A-Za-z0-9_-]{1,128}$/, 'must be 1 to 128 letters, digits, _ or -');

const toolUseIdSchema = z.string().min(1).max(200);

const blocksMax = 1000;

/** Cache hint. Any form is accepted but ignored, because nodes cache by content. */
export const cacheControl = noOp(freeObject);

/** Caller of a tool. Only the model itself is supported, because other callers' tool calls cannot be sent to a node. */
const directCaller = noOp(z.strictObject({ type: z.literal('direct') }));

const textBlockSchema = z.strictObject({
  type: z.literal('text'),
  text: z.string(),
  citations: refused(),
  cache_control: cacheControl,
});

const imageBlockSchema = z.strictObject({
  type: z.literal('image'),
  source: z.strictObject({
    type: z.literal('base64'),
    media_type: z.enum(['image/jpeg', 'image/png', 'image/gif', 'image/webp']),
    data: z.string().refine((data) => isBase64(data), 'must be base64'),
  }),
  transformations: refused(),
  cache_control: cacheControl,
});

const toolUseBlockSchema = z.strictObject({
  type: z.literal('tool_use'),
  id: toolUseIdSchema,
  name: toolNameSchema,
  input: freeObject,
  caller: directCaller,
  toolset_name: refused(),
  cache_control: cacheControl,
});

const toolResultBlockSchema = z.strictObject({
  type: z.literal('tool_result'),
  tool_use_id: toolUseIdSchema,
  content: carried(
    z.union([z.string(), list(z.discriminatedUnion('type', [textBlockSchema, imageBlockSchema]), blocksMax)]),
  ),
  is_error: carried(z.boolean()),
  toolset_name: refused(),
  cache_control: cacheControl,
});

const thinkingBlockSchema = z.strictObject({
  type: z.literal('thinking'),
  thinking: z.string(),
  signature: noOp(z.string()),
});

export const textContentSchema = z.union([
  z.string(),
  list(z.discriminatedUnion('type', [textBlockSchema]), blocksMax),
]);

const userBlockSchema = z.discriminatedUnion('type', [
  textBlockSchema,
  imageBlockSchema,
  toolResultBlockSchema,
]);

const assistantBlockSchema = z.discriminatedUnion('type', [
  textBlockSchema,
  thinkingBlockSchema,
  toolUseBlockSchema,
]);

/** Message of the conversation. An assistant's message may be empty, because clients send back empty responses. */
export const turnSchema = z.discriminatedUnion('role', [
  z.strictObject({
    role: z.literal('user'),
    content: required(z.union([z.string(), list(userBlockSchema, blocksMax)])),
  }),
  z.strictObject({
    role: z.literal('assistant'),
    content: z.union([z.string(), list(assistantBlockSchema, blocksMax)]),
  }),
  z.strictObject({ role: z.literal('system'), content: required(textContentSchema) }),
]);

export const toolSchema = z.strictObject({
  type: carried(z.literal('custom')),
  name: toolNameSchema,
  description: carried(z.string()),
  input_schema: freeObject,
  strict: carried(z.boolean()),
  eager_input_streaming: noOp(z.boolean()),
  defer_loading: noOp(z.literal(false)),
  allowed_callers: noOp(list(z.literal('direct'), 1)),
  input_examples: refused(),
  cache_control: cacheControl,
});

const oneToolAtATime = carried(z.boolean());

export const anthropicToolChoiceSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('auto'), disable_parallel_tool_use: oneToolAtATime }),
  z.strictObject({ type: z.literal('any'), disable_parallel_tool_use: oneToolAtATime }),
  z.strictObject({
    type: z.literal('tool'),
    name: toolNameSchema,
    disable_parallel_tool_use: oneToolAtATime,
  }),
  z.strictObject({ type: z.literal('none') }),
]);

export type Turn = z.output<typeof turnSchema>;
export type TextBlock = z.output<typeof textBlockSchema>;
export type ImageBlock = z.output<typeof imageBlockSchema>;
export type ToolResultBlock = z.output<typeof toolResultBlockSchema>;
export type UserBlock = z.output<typeof userBlockSchema>;
export type AssistantBlock = z.output<typeof assistantBlockSchema>;
export type AnthropicTool = z.output<typeof toolSchema>;
