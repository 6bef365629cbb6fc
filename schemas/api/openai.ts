/**
 * The strict request shapes of POST /v1/chat/completions and POST /v1/embeddings.
 * Each field is carried to the node, accepted without effect (listed in docs/api.md), or refused; a field that is
 * not named here is refused too (Endpoints: "they are not silently dropped"). Parsing yields carried fields only.
 * Whether the node that routing chose can honour a carried field is decided later, by its dialect.
 */
import { z } from 'zod';
import { chatFieldsShape } from './chat-fields.ts';
import { carried, freeObject, list, noOp, refused, required } from './openai-fields.ts';
import { functionToolSchema, messageSchema, toolChoiceSchema } from './openai-messages.ts';

/** A model is named by any short text; whether it exists is routing's answer, not the shape's. */
const modelSchema = z.string().min(1).max(200);
const tokensSchema = z.int().min(1);
const hintText = z.string();

function isTokenList(value: unknown): boolean {
  if (!Array.isArray(value) || value.length === 0 || value.length > entriesMax) return false;
  return value.every((id) => Number.isSafeInteger(id) && id >= 0);
}

function isListOfTokenLists(value: unknown): boolean {
  if (!Array.isArray(value) || value.length === 0 || value.length > entriesMax) return false;
  return value.every(isTokenList);
}

export const chatRequestSchema = z.strictObject({
  model: modelSchema,
  messages: required(list(messageSchema, 10_000)),
  stream: carried(z.boolean()),
  stream_options: carried(
    z.strictObject({
      include_usage: carried(z.boolean()),
      include_obfuscation: noOp(z.boolean()),
    }),
  ),
  max_completion_tokens: carried(tokensSchema),
  max_tokens: carried(tokensSchema),
  ...chatFieldsShape,
  tools: carried(list(functionToolSchema, 128)),
  tool_choice: carried(toolChoiceSchema),
  parallel_tool_calls: carried(z.boolean()),

  user: noOp(hintText),
  safety_identifier: noOp(hintText),
  /** Joins the choice of node; no node gets it. */
  prompt_cache_key: carried(hintText),
  prompt_cache_retention: noOp(hintText),
  prompt_cache_options: noOp(freeObject),
  service_tier: noOp(z.enum(['auto', 'default'])),
  store: noOp(z.literal(false)),
  verbosity: noOp(z.literal('medium')),
  modalities: noOp(z.tuple([z.literal('text')])),

  metadata: refused(),
  audio: refused(),
  prediction: refused(),
  web_search_options: refused(),
  moderation: refused(),
  functions: refused(),
  function_call: refused(),
});

const inputText = z.string().min(1);
const entriesMax = 2048;
const mixedInput = 'must be a text, or a token id (an integer of at least 0) where all entries are';

/** One text, several, one list of token ids, or several; at most 2048 entries in each list, none empty. */
const inputSchema = z.union([
  inputText,
  list(z.string({ error: mixedInput }).min(1), entriesMax),
  z.custom<readonly number[]>(isTokenList),
  z.custom<readonly (readonly number[])[]>(isListOfTokenLists),
]);

export const embeddingsRequestSchema = z.strictObject({
  model: modelSchema,
  input: required(inputSchema),
  encoding_format: carried(z.enum(['float', 'base64'])),
  dimensions: carried(z.int().min(1)),
  user: noOp(hintText),
});

export type ChatFields = z.output<typeof chatRequestSchema>;
export type EmbeddingsFields = z.output<typeof embeddingsRequestSchema>;
