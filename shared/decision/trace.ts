/**
 * What a decision came from, step by step. Serving has no trace and ends at the first refusal; with a trace the same
 * functions continue, because a refusal often has a second cause behind it. The first refusal stays the verdict.
 */
import { causes } from './causes.ts';
import { Refusal } from './refusal.ts';
import type { Read, Step, StepFacts, StepName } from './step.ts';
import type { PassedStep, StepResults } from './steps.ts';

export class Trace {
  readonly #steps = new Map<StepName, Step>();

  /** In the order in which they were decided. */
  get steps(): readonly Step[] {
    return [...this.#steps.values()];
  }

  /** The refusal that serving answers with. */
  get refusal(): Refusal | undefined {
    return this.steps.find(({ refusal }) => refusal !== undefined)?.refusal;
  }

  /** The first result of a step holds. */
  add<Name extends StepName>(
    step: Name,
    result: StepResults[Name] | 'skipped',
    facts: StepFacts = {},
    reads: readonly Read[] = [],
  ): void {
    if (!this.#steps.has(step)) this.#steps.set(step, { step, result, facts, reads });
  }

  /** The step is that of the cause. */
  refuse(refusal: Refusal, facts: StepFacts = {}, reads: readonly Read[] = []): void {
    const { cause } = refusal;
    const { step } = causes[cause];
    if (!this.#steps.has(step))
      this.#steps.set(step, { step, result: 'refused', facts, reads, refusal, cause });
  }

  /** Adds the steps that were decided apart. */
  append(other: Trace): void {
    for (const step of other.steps) if (!this.#steps.has(step.step)) this.#steps.set(step.step, step);
  }

  /** Runs a check that throws its refusal. */
  attempt(step: PassedStep, check: () => void, facts: StepFacts, reads: readonly Read[]): void {
    try {
      check();
      this.add(step, 'ok', facts, reads);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.refuse(error, facts, reads);
    }
  }
}

/** Ends the decision; with a trace it is noted, and the next step is decided too. */
export function refuse(
  trace: Trace | undefined,
  refusal: Refusal,
  facts?: StepFacts,
  reads?: readonly Read[],
): void {
  if (trace === undefined) throw refusal;
  trace.refuse(refusal, facts, reads);
}
