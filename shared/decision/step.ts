/** Result of a single step of a decision. */
import type { MarkOf, TableName } from '../snapshot/tables.ts';
import type { Cause, StepOfCause } from './causes.ts';
import type { Refusal } from './refusal.ts';

/** Name of a step. `own nodes` has no cause of its own, because routing goes on to the next place if a place has no node. */
export type StepName = StepOfCause | 'own nodes';

/** Result of a step. `refused` without a refusal means that the step found nothing, so the next step was decided. */
export type StepResult = 'ok' | 'assumed' | 'refused' | 'skipped';

/** Row that a step depends on. `mark` names the relevant aspect if only one matters. */
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
  /** Cause of the refusal, decided or recorded. */
  readonly cause?: Cause | undefined;
}
