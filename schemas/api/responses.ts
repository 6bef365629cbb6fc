/**
 * Strict request schema of the stateless POST /v1/responses. It refuses fields that are not defined here. Fields that need
 * stored responses or server-side tools are refused with advice. All others are passed on, returned, or accepted without
 * effect (docs/api.md).
 */
import { z } from 'zod';
import { chatFieldsShape } from './chat-fields.ts';
import { carried, freeObject, list, noOp, refused, required } from './openai-fields.ts';
import { inputItemSchema, responseToolChoiceSchema, responseToolsSchema } from './responses-items.ts';

const hintText = z.string();

function never(advice: string) {
  return carried(z.never({ error: `is not supported; ${advice}` }));
}

const wholeInput = 'nothing is stored: send the whole conversation in input';

const formatSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  z.strictObject({ type: z.literal('json_object') }),
  z.strictObject({
    type: z.literal('json_schema'),
    name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -'),
    description: carried(z.string()),
    schema: freeObject,
    strict: carried(z.boolean()),
  }),
]);

const summary = noOp(z.enum(['auto', 'concise', 'detailed']));

/** Extra output that only server-side tools produce. These tools are refused, so requests for this output have no effect. */
const idleIncludes = [
  'file_search_call.results',
  'web_search_call.results',
  'web_search_call.action.sources',
  'code_interpreter_call.outputs',
  'computer_call_output.output.image_url',
  'message.input_image.image_url',
] as const;

const metadataSchema = z
  .record(z.string().max(64), z.string().max(512))
  .refine((pairs) => Object.keys(pairs).length <= 16, 'must have at most 16 pairs');

export const responsesRequestSchema = z.strictObject({
  model: z.string().min(1).max(200),
  input: required(z.union([z.string().min(1), list(inputItemSchema, 10_000)])),
  instructions: carried(z.string()),
  stream: carried(z.boolean()),
  max_output_tokens: carried(z.int().min(1)),
  temperature: chatFieldsShape.temperature,
  top_p: chatFieldsShape.top_p,
  presence_penalty: chatFieldsShape.presence_penalty,
  frequency_penalty: chatFieldsShape.frequency_penalty,
  top_logprobs: chatFieldsShape.top_logprobs,
  text: carried(z.strictObject({ format: carried(formatSchema), verbosity: noOp(z.literal('medium')) })),
  reasoning: carried(
    z.strictObject({ effort: chatFieldsShape.reasoning_effort, summary, generate_summary: summary }),
  ),
  tools: carried(responseToolsSchema),
  tool_choice: carried(responseToolChoiceSchema),
  parallel_tool_calls: carried(z.boolean()),
  include: carried(
    list(z.enum(['reasoning.encrypted_content', 'message.output_text.logprobs', ...idleIncludes]), 32),
  ),
  /** If `store` is false, responses contain reasoning in a form that the client can keep. */
  store: carried(z.literal(false, 'must be false: nothing is stored')),
  metadata: carried(metadataSchema),
  /** The gateway uses this hint to choose a node but does not send it to the node. */
  prompt_cache_key: carried(hintText),

  prompt_cache_retention: noOp(hintText),
  prompt_cache_options: noOp(freeObject),
  safety_identifier: noOp(hintText),
  user: noOp(hintText),
  client_metadata: noOp(freeObject),
  service_tier: noOp(z.enum(['auto', 'default'])),
  stream_options: carried(z.strictObject({ include_obfuscation: noOp(z.boolean()) })),
  max_tool_calls: noOp(z.int().min(1)),
  background: noOp(z.literal(false, 'must be false: background answers are not supported')),
  truncation: noOp(z.literal('disabled', 'must be "disabled": input is never shortened')),

  previous_response_id: never(wholeInput),
  conversation: never(wholeInput),
  prompt: never('templates are not stored: send their text in instructions and input'),
  context_management: refused(),
  moderation: refused(),
});

export type ResponsesFields = z.output<typeof responsesRequestSchema>;
