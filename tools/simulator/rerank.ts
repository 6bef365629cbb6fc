/** Reranks documents by the share of the query's words in them. Scores are 0 to 1, or for llama.cpp logits from -10 to 10. */
import type { Dialect } from '../../schemas/names.ts';
import type { Loose } from './loose.ts';
import { textTokens } from './text.ts';

export interface SimRerankRequest {
  readonly query: string;
  readonly documents: readonly string[];
}

/** Parses a request. Returns undefined if the query or the documents are missing or of a wrong type. */
export function readRerankRequest({
  query,
  documents,
}: Loose & Partial<SimRerankRequest>): SimRerankRequest | undefined {
  if (typeof query !== 'string' || !Array.isArray(documents) || documents.length === 0) return undefined;
  return documents.every((one) => typeof one === 'string') ? { query, documents } : undefined;
}

/** Returns the number of tokens in each document together with the query. */
export function pairTokens({ query, documents }: SimRerankRequest): number[] {
  return documents.map((document) => textTokens(query) + textTokens(document));
}

interface ScoredDocument {
  readonly index: number;
  readonly document: string;
  readonly score: number;
}

function scoreDocuments({ query, documents }: SimRerankRequest, dialect: Dialect): ScoredDocument[] {
  const wanted = splitWords(query);
  const scored = documents.map((document, index) => {
    const words = splitWords(document);
    const share = [...wanted].filter((word) => words.has(word)).length / Math.max(1, wanted.size);
    return { index, document, score: dialect === 'llamacpp' ? 20 * share - 10 : share };
  });
  return scored.sort((a, b) => b.score - a.score);
}

function splitWords(text: string): Set<string> {
  return new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
}

export function rerankBody(request: SimRerankRequest, dialect: Dialect, id: string, model: string): unknown {
  const tokens = pairTokens(request);
  const total = tokens.reduce((sum, one) => sum + one, 0);
  const scored = scoreDocuments(request, dialect);
  if (dialect === 'sglang')
    return scored.map((one) => ({ ...one, meta_info: { prompt_tokens: tokens[one.index] } }));
  const usage = { prompt_tokens: total, total_tokens: total };
  if (dialect === 'llamacpp')
    return {
      ...{ model, object: 'list', usage },
      results: scored.map(({ index, score }) => ({ index, relevance_score: score })),
    };
  return {
    ...{ id, model, usage },
    results: scored.map(({ index, document, score }) => ({
      ...{ index, relevance_score: score },
      document: { text: document, multi_modal: null },
    })),
  };
}
