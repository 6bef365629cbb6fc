/**
 * What a decision came from, step by step. Serving has no trace and ends at the first refusal; with a trace the same
 * functions continue, because a refusal often has a second cause behind it. The first refusal stays the verdict.
 */
import { Refusal } from './refusal.ts';

/** In the order in which they are decided. */
export type StepName =
  | 'http'
  | 'host'
  | 'fresh'
  | 'key'
  | 'path'
  | 'shape'
  | 'usage'
  | 'plan'
  | 'context'
  | 'allowance'
  | 'network allowance'
  | 'visitor tokens'
  | 'requests'
  | 'concurrency'
  | 'visitor requests'
  | 'visitor concurrency'
  | 'stack'
  | 'surface'
  | 'own nodes'
  | 'pool'
  | 'tier'
  | 'nodes'
  | 'listing'
  | 'answer';

/** `refused` without a refusal: the step gave nothing, and the next one was asked. */
export type StepResult = 'ok' | 'refused' | 'skipped' | 'assumed';

/** Tables of the state whose rows decide. */
export type ReadTable =
  | 'organisation'
  | 'tier'
  | 'api_key'
  | 'model'
  | 'stack'
  | 'stack_model'
  | 'pool_model'
  | 'node';

/** A row that a step depends on, and the aspect of it where the row has several. */
export interface Read {
  readonly table: ReadTable;
  readonly id: string;
  readonly aspect?: string;
}

export type StepFacts = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

export interface Step {
  readonly step: StepName;
  readonly result: StepResult;
  readonly facts: StepFacts;
  readonly reads: readonly Read[];
  readonly refusal?: Refusal;
}

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
  add(step: StepName, result: StepResult, facts: StepFacts = {}, reads: readonly Read[] = []): void {
    if (!this.#steps.has(step)) this.#steps.set(step, { step, result, facts, reads });
  }

  refuse(step: StepName, refusal: Refusal, facts: StepFacts = {}, reads: readonly Read[] = []): void {
    if (!this.#steps.has(step)) this.#steps.set(step, { step, result: 'refused', facts, reads, refusal });
  }

  /** Adds the steps that were decided apart. */
  append(other: Trace): void {
    for (const step of other.steps) if (!this.#steps.has(step.step)) this.#steps.set(step.step, step);
  }

  /** Runs a check that throws its refusal. */
  attempt(step: StepName, check: () => void, facts: StepFacts, reads: readonly Read[]): void {
    try {
      check();
      this.add(step, 'ok', facts, reads);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.refuse(step, error, facts, reads);
    }
  }
}

/** Ends the decision; with a trace it is noted, and the next step is decided too. */
export function refuse(
  trace: Trace | undefined,
  step: StepName,
  refusal: Refusal,
  facts?: StepFacts,
  reads?: readonly Read[],
): void {
  if (trace === undefined) throw refusal;
  trace.refuse(step, refusal, facts, reads);
}
