/**
 * Schemas for the input items and tools of a request to POST /v1/responses. A kind or field that is not defined here is
 * refused with its path. Each item must be sent in full, because the gateway does not store any. Tools must be the caller's
 * own, because nodes do not run any.
 */
import { z } from 'zod';
import { carried, freeObject, list, noOp, refused, required } from './openai-fields.ts';
import { argumentsSchema, functionNameSchema, imageUrlSchema } from './openai-messages.ts';

const partsMax = 1000;

const inputTextSchema = z.strictObject({ type: z.literal('input_text'), text: z.string() });
const inputImageSchema = z.strictObject({
  type: z.literal('input_image'),
  image_url: imageUrlSchema,
  detail: noOp(z.enum(['auto', 'low', 'high', 'original'])),
  file_id: refused(),
});
const outputTextSchema = z.strictObject({
  type: z.literal('output_text'),
  text: z.string(),
  annotations: refused(),
  logprobs: noOp(z.array(z.unknown())),
});
const refusalSchema = z.strictObject({ type: z.literal('refusal'), refusal: z.string() });

function contentSchema<T extends z.ZodType>(part: T) {
  return z.union([z.string(), list(part, partsMax)]);
}

const instructionContent = contentSchema(z.discriminatedUnion('type', [inputTextSchema]));
const userContent = contentSchema(z.discriminatedUnion('type', [inputTextSchema, inputImageSchema]));
const assistantContent = contentSchema(z.discriminatedUnion('type', [outputTextSchema, refusalSchema]));

/** Fields that responses contain in each item. They are accepted, because clients send them back. */
const echoed = {
  id: noOp(z.string()),
  status: noOp(z.enum(['in_progress', 'completed', 'incomplete'])),
};
const message = {
  ...echoed,
  type: z.literal('message'),
  phase: noOp(z.enum(['commentary', 'final_answer'])),
};

/** Message of the conversation. An assistant's message may be empty, because clients send back empty responses. */
const messageSchema = z.discriminatedUnion('role', [
  z.strictObject({ ...message, role: z.literal('system'), content: required(instructionContent) }),
  z.strictObject({ ...message, role: z.literal('developer'), content: required(instructionContent) }),
  z.strictObject({ ...message, role: z.literal('user'), content: required(userContent) }),
  z.strictObject({ ...message, role: z.literal('assistant'), content: assistantContent }),
]);

const callIdSchema = z.string().min(1).max(200);
const called = {
  ...echoed,
  call_id: callIdSchema,
  name: functionNameSchema,
  namespace: carried(functionNameSchema),
};

const functionCallSchema = z.strictObject({
  ...called,
  type: z.literal('function_call'),
  arguments: argumentsSchema,
});
const customCallSchema = z.strictObject({
  ...called,
  type: z.literal('custom_tool_call'),
  input: z.string(),
});
const output = { ...echoed, call_id: callIdSchema, output: userContent };

const reasoningSchema = z.strictObject({
  ...echoed,
  type: z.literal('reasoning'),
  summary: carried(list(z.strictObject({ type: z.literal('summary_text'), text: z.string() }), partsMax)),
  content: carried(list(z.strictObject({ type: z.literal('reasoning_text'), text: z.string() }), partsMax)),
  encrypted_content: carried(z.string()),
});

const referenceAdvice =
  'names a stored item, but nothing is stored; send the earlier items in input (Vercel AI SDK: `providerOptions: { openai: { store: false } }`)';

/** Reference to an earlier item. It is dropped, so only reasoning items may be referenced, which a request can do without. */
const referenceSchema = z.strictObject({
  type: z.literal('item_reference'),
  id: z.string().refine((id) => id.startsWith('rs_'), referenceAdvice),
});

/** Adds the type `message` to an item without a type, because clients leave out that type. */
function withType(item: unknown): unknown {
  if (typeof item !== 'object' || item === null || Array.isArray(item) || Object.hasOwn(item, 'type'))
    return item;
  return { ...item, type: 'message' };
}

export const inputItemSchema = z.preprocess(
  withType,
  z.discriminatedUnion('type', [
    messageSchema,
    functionCallSchema,
    customCallSchema,
    z.strictObject({ ...output, type: z.literal('function_call_output') }),
    z.strictObject({ ...output, type: z.literal('custom_tool_call_output') }),
    reasoningSchema,
    referenceSchema,
  ]),
);

const responseFunctionSchema = z.strictObject({
  type: z.literal('function'),
  name: functionNameSchema,
  description: carried(z.string()),
  parameters: carried(freeObject),
  strict: carried(z.boolean()),
  output_schema: noOp(freeObject),
  defer_loading: noOp(z.literal(false)),
  async: noOp(z.literal(false)),
  allowed_callers: noOp(list(z.literal('direct'), 1)),
});

const customToolSchema = z.strictObject({
  type: z.literal('custom'),
  name: functionNameSchema,
  description: carried(z.string()),
  format: carried(
    z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('text') }),
      z.strictObject({
        type: z.literal('grammar'),
        syntax: z.enum(['lark', 'regex']),
        definition: z.string().min(1),
      }),
    ]),
  ),
  defer_loading: noOp(z.literal(false)),
});

const ownTools = [responseFunctionSchema, customToolSchema] as const;
const toolsMax = 128;

const namespaceSchema = z.strictObject({
  type: z.literal('namespace'),
  name: functionNameSchema,
  description: carried(z.string()),
  tools: list(z.discriminatedUnion('type', ownTools), toolsMax),
});

const searchAdvice =
  'must be false, because this service does not search the web; offer a `function` or `custom` tool';

/** Web search tool that is switched off. It is accepted, because Codex sends it with each request. */
const idleSearchSchema = z.strictObject({
  type: z.literal('web_search'),
  external_web_access: z.unknown().refine((value) => value === false, searchAdvice),
});

const serverTools = ['web_search_preview', 'file_search', 'computer', 'computer_use_preview'] as const;
const moreServerTools = ['code_interpreter', 'image_generation', 'mcp', 'local_shell', 'shell'] as const;
const serverToolSchema = z
  .looseObject({ type: z.enum([...serverTools, ...moreServerTools, 'apply_patch', 'tool_search']) })
  .refine(() => false, {
    path: ['type'],
    error: 'is a hosted tool, which this service does not run; offer a `function` or `custom` tool',
  });

export const responseToolsSchema = list(
  z.discriminatedUnion('type', [...ownTools, namespaceSchema, idleSearchSchema, serverToolSchema]),
  toolsMax,
);

const chosen = { name: functionNameSchema, namespace: carried(functionNameSchema) };
const chosenToolSchema = z.discriminatedUnion('type', [
  z.strictObject({ ...chosen, type: z.literal('function') }),
  z.strictObject({ ...chosen, type: z.literal('custom') }),
]);

export const responseToolChoiceSchema = z.union([
  z.enum(['none', 'auto', 'required']),
  z.discriminatedUnion('type', [
    ...chosenToolSchema.options,
    z.strictObject({
      type: z.literal('allowed_tools'),
      mode: z.enum(['auto', 'required']),
      tools: list(chosenToolSchema, 1000),
    }),
  ]),
]);

export type InputItem = z.output<typeof inputItemSchema>;
export type InputMessage = z.output<typeof messageSchema>;
export type UserContent = z.output<typeof userContent>;
export type ReasoningItem = z.output<typeof reasoningSchema>;
export type ResponseTools = z.output<typeof responseToolsSchema>;
export type OwnTool = z.output<(typeof ownTools)[number]>;
export type ResponseToolChoice = z.output<typeof responseToolChoiceSchema>;
export type ChosenTool = z.output<typeof chosenToolSchema>;
