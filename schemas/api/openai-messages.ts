/**
 * Schemas for the messages and tools of a chat completion request. A field that is not defined here is refused with its path.
 * Images must be `data:` URLs, because a node would fetch any other URL from inside the fleet.
 */
import { z } from 'zod';
import { carried, freeObject, isBase64, list, noOp, refused, required } from './openai-fields.ts';

/** Function name: letters, digits, `_` and `-`, at most 64 characters, as the OpenAI API defines it. */
export const functionNameSchema = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -');

/** Start of an inline image. Only pixel formats are accepted, because formats such as SVG are executed by their renderer. */
const imageDataUrl = /^data:image\/(png|jpe?g|gif|webp|bmp|tiff|avif|heic|heif);base64,/i;

export const imageUrlSchema = z.string().refine((url) => {
  const start = imageDataUrl.exec(url)?.[0];
  return start !== undefined && isBase64(url, start.length);
}, 'must be a data: URL of a PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF or HEIC image in base64; addresses are not fetched');

const textPartSchema = z.strictObject({
  type: z.literal('text'),
  text: z.string(),
  prompt_cache_breakpoint: noOp(z.union([z.boolean(), freeObject])),
});

const imagePartSchema = z.strictObject({
  type: z.literal('image_url'),
  image_url: z.strictObject({
    url: imageUrlSchema,
    detail: noOp(z.enum(['auto', 'low', 'high'])),
  }),
  prompt_cache_breakpoint: noOp(z.union([z.boolean(), freeObject])),
});

const partsMax = 1000;

const textContent = z.union([z.string(), list(z.discriminatedUnion('type', [textPartSchema]), partsMax)]);
const userContent = z.union([
  z.string(),
  list(z.discriminatedUnion('type', [textPartSchema, imagePartSchema]), partsMax),
]);

/** Arguments of a tool call. For a call without arguments, engines send "", null or nothing, and clients send that back. */
export const argumentsSchema = z.preprocess(
  (value) => value ?? '',
  z.string().transform((text) => (text.trim() === '' ? '{}' : text)),
);

const toolCallSchema = z.strictObject({
  id: z.string().min(1).max(200),
  type: z.literal('function'),
  function: z.strictObject({ name: functionNameSchema, arguments: argumentsSchema }),
  index: noOp(z.int()),
});

const name = carried(z.string().max(200));

function instructionSchema<R extends 'system' | 'developer'>(role: R) {
  return z.strictObject({ role: z.literal(role), content: required(textContent), name });
}

const userSchema = z.strictObject({ role: z.literal('user'), content: required(userContent), name });

const toolSchema = z.strictObject({
  role: z.literal('tool'),
  content: required(textContent),
  tool_call_id: z.string().min(1).max(200),
  name,
});

/** Assistant's message. Clients send back whole responses, so their other fields are accepted if they are null. */
const assistantSchema = z
  .strictObject({
    role: z.literal('assistant'),
    content: carried(textContent),
    name,
    tool_calls: carried(list(toolCallSchema, 128)),
    reasoning_content: carried(z.string()),
    reasoning: carried(z.string()),
    refusal: carried(z.string()),
    annotations: refused(),
    audio: refused(),
    function_call: refused(),
  })
  .refine((message) => message.reasoning === undefined || message.reasoning_content === undefined, {
    path: ['reasoning'],
    error: 'must not be given together with reasoning_content',
  });

export const messageSchema = z.discriminatedUnion('role', [
  instructionSchema('system'),
  instructionSchema('developer'),
  userSchema,
  assistantSchema,
  toolSchema,
]);

export const functionToolSchema = z.strictObject({
  type: z.literal('function'),
  function: z.strictObject({
    name: functionNameSchema,
    description: carried(z.string()),
    parameters: carried(freeObject),
    strict: carried(z.boolean()),
  }),
});

export const toolChoiceSchema = z.union([
  z.enum(['none', 'auto', 'required']),
  z.strictObject({
    type: z.literal('function'),
    function: z.strictObject({ name: functionNameSchema }),
  }),
]);

export type ChatMessage = z.output<typeof messageSchema>;
export type FunctionTool = z.output<typeof functionToolSchema>;
export type ToolChoice = z.output<typeof toolChoiceSchema>;
