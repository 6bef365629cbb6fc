/**
 * Strict request schema of POST /v1/rerank. Null and empty fields are treated as in `openai.ts`. Fields that shorten or
 * replace a document are refused, because scores must refer to the documents as the client sent them.
 */
import { z } from 'zod';
import { carried, list, refused, required } from './openai-fields.ts';

/** Query or document. Blank texts are refused, because engines reject them or give them meaningless scores. */
const textSchema = z.string().refine((text) => text.trim() !== '', 'must not be blank');
export const documentsMax = 1000;

export const rerankRequestSchema = z.strictObject({
  model: z.string().min(1).max(200),
  query: textSchema,
  documents: required(list(z.union([textSchema, z.strictObject({ text: textSchema })]), documentsMax)),
  top_n: carried(z.int().min(1)),
  return_documents: carried(z.boolean()),

  max_tokens_per_doc: refused(),
  max_chunks_per_doc: refused(),
  rank_fields: refused(),
  priority: refused(),
  truncate: refused(),
});

export type RerankFields = z.output<typeof rerankRequestSchema>;
