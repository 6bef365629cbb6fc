/** One step of a decision, as it was decided. */
import type { Cause, StepOfCause } from './causes.ts';
import type { Refusal } from './refusal.ts';

/** A place that has no node for a request is no refusal: the next one is asked. */
export type StepName = StepOfCause | 'own nodes';

/** `refused` without a refusal: the step gave nothing, and the next one was asked. */
export type StepResult = 'ok' | 'assumed' | 'refused' | 'skipped';

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
