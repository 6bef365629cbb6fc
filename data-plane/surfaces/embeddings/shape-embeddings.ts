/**
 * Validates POST /v1/embeddings strictly. The folder `surfaces/embeddings` contains the embeddings API. The result contains
 * only fields that may be sent to a node. A refusal names a JSON path and never a value.
 */
import { embeddingsRequestSchema } from '../../../schemas/api/openai.ts';
import type { EmbeddingsFacts, WholeEmbeddings } from '../common/asked.ts';
import { embeddingsPromptSize } from '../common/prompt-size.ts';
import { parseFields } from '../common/validate.ts';

export type EmbeddingsContext = Pick<EmbeddingsFacts, 'inputs' | 'encoding' | 'dimensions'>;

/** Throws `UnsupportedShapeError` with the JSON path of the first field that is not supported. */
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
