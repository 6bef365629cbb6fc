/**
 * What a decision came from, step by step. Serving has no trace and ends at the first refusal; with a trace the same
 * functions continue, because a refusal often has a second cause behind it. The first refusal stays the verdict.
 */
import { type Cause, causes } from './causes.ts';
import { Refusal } from './refusal.ts';

/** The results that each step can have when it is asked, in the order in which steps are decided. Each has a text of its own. */
export interface StepResults {
  http: 'refused';
  host: 'ok' | 'refused';
  fresh: 'ok' | 'refused';
  key: 'ok' | 'refused' | 'assumed';
  path: 'ok' | 'refused';
  shape: 'ok' | 'refused' | 'assumed';
  usage: 'ok' | 'refused';
  plan: 'ok' | 'refused';
  context: 'ok' | 'refused';
  allowance: 'ok' | 'refused';
  'network allowance': 'ok' | 'refused';
  'visitor tokens': 'ok' | 'refused';
  requests: 'ok' | 'refused';
  concurrency: 'ok' | 'refused';
  'visitor requests': 'ok' | 'refused';
  'visitor concurrency': 'ok' | 'refused';
  stack: 'ok' | 'refused';
  surface: 'ok' | 'refused';
  'own nodes': 'ok' | 'refused';
  pool: 'ok' | 'refused';
  tier: 'ok' | 'refused';
  nodes: 'ok' | 'refused';
  listing: 'ok' | 'refused';
  answer: 'refused';
}

export type StepName = keyof StepResults;
/** Steps that a request can pass. */
export type PassedStep = { [Name in StepName]: 'ok' extends StepResults[Name] ? Name : never }[StepName];

/** `refused` without a refusal: the step gave nothing, and the next one was asked. */
export type StepResult = StepResults[StepName] | 'skipped';

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

export type StepFacts = Readonly<
  Record<string, string | number | boolean | null | undefined | readonly string[]>
>;

export interface Step {
  readonly step: StepName;
  readonly result: StepResult;
  readonly facts: StepFacts;
  readonly reads: readonly Read[];
  readonly refusal?: Refusal;
  /** Of what was refused, also where it was recorded. */
  readonly cause?: Cause | undefined;
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
