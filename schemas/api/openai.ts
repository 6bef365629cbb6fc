/**
 * Strict request schemas of POST /v1/chat/completions and POST /v1/embeddings. Each field that is defined here is passed to
 * the node, accepted without effect (docs/api.md lists these), or refused. All others are refused (specification, Endpoints).
 * Parsing returns only the fields for the node. Whether the node's dialect supports these fields is decided later.
 */
import { z } from 'zod';
import { chatFieldsShape } from './chat-fields.ts';
import { carried, freeObject, list, noOp, refused, required } from './openai-fields.ts';
import { functionToolSchema, messageSchema, toolChoiceSchema } from './openai-messages.ts';

/** Model name: any short text. Routing decides whether the model exists. */
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
  /** The gateway uses this hint to choose a node but does not send it to the node. */
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
const mixedInput = 'must be a text, or a token id (an integer of at least 0) if all entries are';

/** Text to embed: a text, a list of texts, a list of token ids, or several such lists. Lists have 1 to 2048 entries. */
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
