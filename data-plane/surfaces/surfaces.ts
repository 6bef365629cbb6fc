/** The surfaces, one row each, and the choice among them by the form that an answer must have. */
import type { MemoryBudget } from '../../shared/runtime/byte-budget.ts';
import type { AnswerFacts } from '../answer/chat-parts.ts';
import type { ClientSurface, RebuiltBody, SurfaceStream } from '../answer/surface.ts';
import { chat } from './chat/chat.ts';
import { embeddings } from './embeddings/embeddings.ts';
import { messages } from './messages/messages.ts';
import { rerank } from './rerank/rerank.ts';
import { responses } from './responses/responses.ts';

export const surfaces = { chat, embeddings, messages, rerank, responses };

export type SurfaceName = keyof typeof surfaces;
type ContextOf<One> = One extends ClientSurface<infer Context> ? Context : never;

/** A surface, and the context of a request that came by it. Plain values, so that it may go to the body worker. */
export type AnswerForm = {
  [Name in SurfaceName]: { readonly surface: Name; readonly context: ContextOf<(typeof surfaces)[Name]> };
}[SurfaceName];

/** `answer`: the parsed body of the node. Throws NodeFailure. */
export function wholeAnswer(
  answer: unknown,
  facts: AnswerFacts,
  { surface, context }: AnswerForm,
): RebuiltBody {
  // The two belong together, which the type of the pair says and that of a choice among functions cannot.
  return surfaces[surface].whole(answer, facts, context as never);
}

/** Of a request for a stream. */
export function streamedAnswer(
  facts: AnswerFacts,
  { surface, context }: AnswerForm,
  memory: MemoryBudget,
): SurfaceStream {
  const { stream } = surfaces[surface];
  if (stream === undefined) throw new Error(`${surface} have no streams`);
  return stream(facts, context as never, memory);
}
