/** One step of a decision, as it was decided. */
import type { MarkOf, TableName } from '../snapshot/tables.ts';
import type { Cause, StepOfCause } from './causes.ts';
import type { Refusal } from './refusal.ts';

/** A place that has no node for a request is no refusal: the next one is asked. */
export type StepName = StepOfCause | 'own nodes';

/** `refused` without a refusal: the step gave nothing, and the next one was asked. */
export type StepResult = 'ok' | 'assumed' | 'refused' | 'skipped';

/** A row that a step depends on, and the mark of its aspect where the others do not matter. */
export type Read = {
  [Table in TableName]: { readonly table: Table; readonly id: string; readonly mark?: MarkOf<Table> };
}[TableName];

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
