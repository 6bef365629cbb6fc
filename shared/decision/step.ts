/** A single step of a decision and its result. */
import type { MarkOf, TableName } from '../snapshot/tables.ts';
import type { Cause, StepOfCause } from './causes.ts';
import type { Refusal } from './refusal.ts';

/** Name of a step. `own nodes` never ends the decision, because routing then tries the pool. */
export type StepName = StepOfCause | 'own nodes';

/** Result of a step. A step that is `refused` without a refusal found nothing, so the decision went on to the next step. */
export type StepResult = 'ok' | 'assumed' | 'refused' | 'skipped';

/** Snapshot row that a step depends on. If only one part of the row matters, `mark` names the mark column of that part. */
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
  /** Cause of the refusal, either found by deciding now or taken from a record. */
  readonly cause?: Cause | undefined;
}
