/**
 * Validates POST /v1/embeddings strictly. The room `surfaces/embeddings` contains the embeddings surface. The result contains
 * only fields that may be sent to a node. A refusal names a JSON path and never a value.
 */
import { embeddingsRequestSchema } from '../../../schemas/api/openai.ts';
import type { EmbeddingsFacts, WholeEmbeddings } from '../common/asked.ts';
import { embeddingsPromptSize } from '../common/prompt-size.ts';
import { parseFields } from '../common/validate.ts';

export type EmbeddingsContext = Pick<EmbeddingsFacts, 'inputs' | 'encoding' | 'dimensions'>;

/** Throws UnsupportedShapeError that names the JSON path, never a value. */
export function shapeEmbeddings(given: Record<string, unknown>): {
  readonly asked: WholeEmbeddings;
  readonly context: EmbeddingsContext;
} {
  const { model, input, encoding_format, dimensions } = parseFields(embeddingsRequestSchema, given);
  const first = typeof input === 'string' ? input : input[0];
  const context: EmbeddingsContext = {
    inputs: typeof input === 'string' || typeof first === 'number' ? 1 : input.length,
    encoding: encoding_format ?? 'float',
    ...(dimensions === undefined ? {} : { dimensions }),
  };
  const asked: WholeEmbeddings = {
    kind: 'embeddings',
    model,
    stream: false,
    maxTokens: 0,
    ...context,
    tokenInput: typeof first !== 'string',
    body: { input },
    ...embeddingsPromptSize(input),
  };
  return { asked, context };
}
