/** Decides a question on a state exactly as a gateway would, and reduces the answer to a label that can be compared. */

import type { Verdict } from '../../shared/decision/admission.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { cachedLookup } from '../../shared/snapshot/cached-lookup.ts';
import { createLookup, type Lookup } from '../../shared/snapshot/lookup.ts';
import { type Question, verdictWithLookup } from './question.ts';

/** `served pool`, `served stack`, `served own`, `listed`, or a status and error type such as `404 NotFoundError`. */
export type AnswerLabel = string;

export function answerLabel(verdict: Verdict): AnswerLabel {
  if (verdict.kind === 'listed') return 'listed';
  if (verdict.kind === 'refused') return refusedLabel(verdict.refusal);
  const { placement } = verdict.decision;
  return placement instanceof Refusal ? refusedLabel(placement) : `served ${placement.capacity}`;
}

function refusedLabel({ status, type }: Refusal): AnswerLabel {
  return `${status} ${type}`;
}

export function isServed(label: AnswerLabel): boolean {
  return !/^\d/.test(label);
}

/** Whether a request was served before a change and is refused after it. */
export function isRefusedAfter({
  from,
  to,
}: {
  readonly from: AnswerLabel;
  readonly to: AnswerLabel;
}): boolean {
  return isServed(from) && !isServed(to);
}

/** Decides many questions on one state. The state must not change in between, because look-ups are cached. */
export class Answers {
  readonly #lookup: Lookup;

  constructor(db: Database) {
    this.#lookup = cachedLookup(createLookup(db));
  }

  of(question: Question): AnswerLabel {
    return answerLabel(verdictWithLookup(this.#lookup, question));
  }
}
