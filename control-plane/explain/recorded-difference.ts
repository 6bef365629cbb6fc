/** Compares a recorded decision with what the rules decide now on the same facts. */

import { type RefusalType, refusalKinds } from '../../schemas/api/refusals.ts';
import type { DecisionRecord } from '../../schemas/records/decisions.ts';
import { deriveOutcome, deriveVerdict } from '../../schemas/records/verdict.ts';
import { causes, findCause } from '../../shared/decision/causes.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { StepName } from '../../shared/decision/step.ts';
import { stepNames, steps } from '../../shared/decision/steps.ts';
import type { TracedVerdict } from './question.ts';

export interface Difference {
  /** Earliest step at which the recorded and the new decision differ. */
  readonly step: StepName;
  readonly recorded: string;
  readonly now: string;
}

/** Whether the record contains a decision. A request may end before it is decided. */
export function isDecided(record: DecisionRecord): boolean {
  return deriveVerdict(record).phase !== 'undecided';
}

/**
 * Returns how the rules now differ from the record, or undefined if they agree. If the recorded answer was not caused by the
 * rules, it is enough that the rules let the request pass.
 */
export function findDifference(record: DecisionRecord, decided: TracedVerdict): Difference | undefined {
  if (!isDecided(record) || (record.stage !== 'admission' && record.stage !== 'answer')) return undefined;
  // An internal error can occur before any fact about the request is known, so the record cannot be compared.
  if (record.type === 'InternalError') return undefined;
  const isPassed = record.stage === 'answer' || deriveOutcome(record) !== 'refused';
  const wanted = isPassed ? 'served' : refusalText(record);
  const now = decidedText(decided);
  const step = recordedStep(record);
  // Records do not contain paths, so a request that was refused for an extra slash in its path cannot be decided again.
  if (step === 'path' && (now.step === 'path' || record.operation === 'model')) return undefined;
  if (wanted !== now.text) return { step: earlier(step, now.step), recorded: wanted, now: now.text };
  return placeDifference(record, decided);
}

function refusalText({ type = '', message = '', status }: DecisionRecord): string {
  // The record contains no status if the client had already disconnected.
  return `${status ?? refusalKinds[type as RefusalType]?.status} ${type} ${message}`;
}

function decidedText({ verdict, trace }: TracedVerdict): { readonly text: string; readonly step?: StepName } {
  if (verdict.kind !== 'refused') return { text: 'served' };
  const { status, type, message } = verdict.refusal;
  const step = trace.steps.find(({ refusal }) => refusal !== undefined)?.step;
  return { text: `${status} ${type} ${message}`, ...(step !== undefined && { step }) };
}

/** Returns the step at which the rules refused the recorded request. */
function recordedStep(record: DecisionRecord): StepName | undefined {
  if (deriveOutcome(record) !== 'refused' || record.stage !== 'admission') return undefined;
  const cause = findCause(record);
  return cause && causes[cause].step;
}

/** Lists the steps for which the record contains no facts, because the request ended before it reached them. */
export function unreadSteps(record: DecisionRecord): readonly StepName[] {
  if (!isDecided(record)) return stepNames.filter((name) => !isPassedUndecided(name, record));
  const step = recordedStep(record);
  if (step === undefined) return [];
  const { group } = steps[step];
  // A gateway that is fenced does not look up keys, so the record may lack a key that the request contained.
  const isKeyUnread = step === 'fresh' && record.carried === true && record.key === undefined;
  if (group === 'head')
    return stepNames.filter((name) => steps[name].needs !== 'head' || (name === 'key' && isKeyUnread));
  // Listings do not read limits. If a node counted the prompt's tokens, the request had already passed all limits.
  if (group === 'listing' || (step === 'context' && record.counted === 'node')) return [];
  const at = stepNames.indexOf(step);
  const readsNoSums = at < stepNames.indexOf('context');
  return stepNames.filter((name, index) => {
    const { needs } = steps[name];
    return (needs === 'sums' && readsNoSums) || (needs === 'use' && index > at);
  });
}

/** Whether an undecided request passed a step. Limits and routing are decided together, so it passed none of their steps. */
function isPassedUndecided(name: StepName, { ms }: DecisionRecord): boolean {
  return name === 'shape' ? ms.shaped !== undefined : steps[name].group === 'head';
}

function earlier(a: StepName | undefined, b: StepName | undefined): StepName {
  return stepNames.find((name) => name === a || name === b) ?? 'nodes';
}

/** Returns the difference if the rules now choose another capacity or other nodes than the record names. */
function placeDifference(
  { capacity, node }: DecisionRecord,
  { verdict }: TracedVerdict,
): Difference | undefined {
  if (verdict.kind !== 'placed' || capacity === undefined) return undefined;
  const { placement } = verdict.decision;
  if (placement instanceof Refusal) return undefined;
  if (placement.capacity !== capacity)
    return { step: 'own nodes', recorded: capacity, now: placement.capacity };
  const nodes = placement.candidates.map((route) => route.node);
  if (node === undefined || nodes.some((each) => each === node)) return undefined;
  return { step: 'nodes', recorded: node, now: nodes.join(', ') };
}
