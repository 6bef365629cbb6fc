/** Records the steps of a decision. With a trace, deciding continues after a refusal, but the first one is the verdict. */
import { causes } from './causes.ts';
import { Refusal } from './refusal.ts';
import type { Read, Step, StepFacts, StepName } from './step.ts';
import type { PassedStep, StepResults } from './steps.ts';

export class Trace {
  readonly #steps = new Map<StepName, Step>();

  /** All recorded steps, in the order in which they were decided. */
  get steps(): readonly Step[] {
    return [...this.#steps.values()];
  }

  /** First recorded refusal, which is the one that the client receives. */
  get refusal(): Refusal | undefined {
    return this.steps.find(({ refusal }) => refusal !== undefined)?.refusal;
  }

  /** Records a step. Only the first result of each step is kept. */
  add<Name extends StepName>(
    step: Name,
    result: StepResults[Name] | 'skipped',
    facts: StepFacts = {},
    reads: readonly Read[] = [],
  ): void {
    if (!this.#steps.has(step)) this.#steps.set(step, { step, result, facts, reads });
  }

  /** Records a refusal under the step to which its cause belongs. */
  refuse(refusal: Refusal, facts: StepFacts = {}, reads: readonly Read[] = []): void {
    const { cause } = refusal;
    const { step } = causes[cause];
    if (!this.#steps.has(step))
      this.#steps.set(step, { step, result: 'refused', facts, reads, refusal, cause });
  }

  append(other: Trace): void {
    for (const step of other.steps) if (!this.#steps.has(step.step)) this.#steps.set(step.step, step);
  }

  /** Runs a check that may throw a refusal, and records its result. */
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

/** Throws the refusal. If a trace is passed, it records the refusal instead, so that the next steps are decided too. */
export function refuse(
  trace: Trace | undefined,
  refusal: Refusal,
  facts?: StepFacts,
  reads?: readonly Read[],
): void {
  if (trace === undefined) throw refusal;
  trace.refuse(refusal, facts, reads);
}
