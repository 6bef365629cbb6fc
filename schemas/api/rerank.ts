/**
 * The strict request shape of POST /v1/rerank: as `openai.ts` says it of its own. What cuts a document, or gives it a part of its
 * own, is refused: scores are of documents as they came.
 */
import { z } from 'zod';
import { carried, list, refused, required } from './openai-fields.ts';

/** Engines refuse what is blank, or score it without a meaning. */
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
