/** Finds the last position of the log at which a question had a different answer, by bisection over past states. */
import type { ExplainedVerdict, RuledVerdict } from '../../schemas/records/explanations.ts';
import type { StateView } from '../../shared/snapshot/waves.ts';

export interface EarlierAnswer extends Pick<RuledVerdict, 'served' | 'status' | 'type'> {
  readonly position: number;
}

export interface AnswerBefore {
  /** Position of the log for which `now` is the answer. */
  readonly at: number;
  readonly now: ExplainedVerdict;
  /** Positions just before the commits that caused the current answer, newest first. The answer probably differed there. */
  readonly candidates: readonly number[];
  readonly view: StateView;
}

const candidatesMax = 3;

/**
 * Finds the last position before `at` with a different answer. Calls `answerAt` about fifty times at most, from `begin` on.
 */
export function answerBefore(
  { at, now, candidates }: Omit<AnswerBefore, 'view'>,
  begin: number,
  answerAt: (seq: number) => RuledVerdict,
): EarlierAnswer | undefined {
  const isOther = (seq: number): boolean => {
    const { status, type } = answerAt(seq);
    return status !== now.status || type !== now.type;
  };
  const tried = [...candidates.slice(0, candidatesMax), ...backwards(at), begin];
  let low = tried.find((seq) => seq >= begin && seq < at && isOther(seq));
  if (low === undefined) return undefined;
  for (let high = at; high - low > 1; ) {
    const middle: number = Math.floor((low + high) / 2);
    if (isOther(middle)) low = middle;
    else high = middle;
  }
  const { served, status, type } = answerAt(low);
  return { position: low, served, status, ...(type !== undefined && { type }) };
}

/** Yields log positions before `at`, each twice as far from it as the previous one. */
function* backwards(at: number): Iterable<number> {
  for (let step = 1; step < at; step *= 2) yield at - step;
}
