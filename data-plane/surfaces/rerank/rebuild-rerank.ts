/**
 * Builds the client's response from a node's scores. Results are sorted, best first, with equal scores in document order, and
 * cut to the requested number, because some engines do neither. Scores keep the engine's scale. Returned documents come from
 * the request, never from the node. Throws `NodeFailure` if the node's response does not match the request.
 */
import { type AnswerFacts, malformedAnswer, refuseError } from '../common/chat-parts.ts';
import type { RebuiltBody } from '../common/surface.ts';
import { integer, member } from '../common/untrusted.ts';
import { estimateUsage, readUsage, type Usage, type UsageBounds } from '../common/usage.ts';
import type { RerankContext } from './shape-rerank.ts';

export function rebuildRerank(
  answer: unknown,
  { unique, model, promptTextBytes, most }: AnswerFacts,
  { inputs, topN, documents }: RerankContext,
): RebuiltBody {
  refuseError(answer);
  // Accept a list without an object around it, which SGLang sends.
  const entries: unknown = Array.isArray(answer) ? answer : member(answer, 'results');
  if (!Array.isArray(entries) || entries.length !== inputs)
    throw malformedAnswer('it does not contain one score for each document');
  const scores: number[] = [];
  for (const entry of entries) {
    const index = integer(member(entry, 'index'));
    if (index === undefined || index >= inputs || scores[index] !== undefined)
      throw malformedAnswer('a score has no unique document');
    scores[index] = readScore(entry);
  }
  const usage = readRerankUsage(answer, entries, most) ?? estimateUsage(promptTextBytes, 0, most);
  const results = scores
    .map((relevance_score, index) => ({ index, relevance_score }))
    .sort((a, b) => b.relevance_score - a.relevance_score || a.index - b.index)
    .slice(0, topN)
    .map((result) => (documents ? { ...result, document: { text: documents[result.index] } } : result));
  const { promptTokens } = usage;
  return {
    body: {
      id: `rerank-${unique}`,
      object: 'list',
      model,
      results,
      usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
      // Add this member although it is empty, because clients for Cohere's format require it.
      meta: {},
    },
    usage: { ...usage, completionTokens: 0 },
  };
}

function readScore(entry: unknown): number {
  const score = member(entry, 'relevance_score') ?? member(entry, 'score');
  if (typeof score !== 'number' || !Number.isFinite(score)) throw malformedAnswer('a score is not a number');
  return score;
}

/** Usage that the node reports. Old versions of vLLM report only the total, and SGLang only the tokens of each document. */
function readRerankUsage(answer: unknown, entries: readonly unknown[], most: UsageBounds): Usage | undefined {
  const reported = member(answer, 'usage');
  const prompt_tokens =
    integer(member(reported, 'prompt_tokens')) ??
    integer(member(reported, 'total_tokens')) ??
    sumAll(entries.map((entry) => integer(member(member(entry, 'meta_info'), 'prompt_tokens'))));
  return readUsage({ prompt_tokens }, most);
}

function sumAll(numbers: readonly (number | undefined)[]): number | undefined {
  let sum = 0;
  for (const number of numbers) {
    if (number === undefined) return undefined;
    sum += number;
  }
  return sum;
}
