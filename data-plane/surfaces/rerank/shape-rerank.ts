/**
 * Validates POST /v1/rerank strictly. The folder `surfaces/rerank` contains the rerank API. The result contains only fields
 * that may be sent to a node. A refusal names a JSON path, never a value.
 */
import { rerankRequestSchema } from '../../../schemas/api/rerank.ts';
import type { WholeRerank } from '../common/asked.ts';
import { rerankPromptSize } from '../common/prompt-size.ts';
import { parseFields, shapeRefusal } from '../common/validate.ts';

export interface RerankContext {
  /** Number of scores that the node must return, one for each document. */
  readonly inputs: number;
  readonly topN: number;
  /** Texts to repeat in the results, if requested. They are held until the response is built, so their size is bounded. */
  readonly documents?: readonly string[];
}

const returnedBytesMax = 1024 * 1024;

/** Throws `UnsupportedShapeError` with the JSON path of the first field that is not supported. */
export function shapeRerank(given: Record<string, unknown>): {
  readonly asked: WholeRerank;
  readonly context: RerankContext;
} {
  const fields = parseFields(rerankRequestSchema, given);
  const { model, query, top_n, return_documents } = fields;
  const documents = fields.documents.map((one) => (typeof one === 'string' ? one : one.text));
  const size = rerankPromptSize(query, documents);
  if (return_documents === true && size.textBytes > returnedBytesMax)
    throw shapeRefusal(['return_documents'], 'needs query and documents of at most 1 MiB together');
  const inputs = documents.length;
  const asked: WholeRerank = {
    kind: 'rerank',
    model,
    stream: false,
    maxTokens: 0,
    inputs,
    body: { query, documents },
    ...size,
  };
  const context: RerankContext = {
    inputs,
    topN: Math.min(top_n ?? inputs, inputs),
    ...(return_documents === true ? { documents } : {}),
  };
  return { asked, context };
}
