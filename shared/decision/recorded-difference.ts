/** Compares a recorded decision with what is decided now from its facts. */
import type { DecisionRecord } from '../../schemas/decisions.ts';
import { causeOf, causes } from './causes.ts';
import type { Decided } from './question.ts';
import { Refusal } from './refusal.ts';
import type { StepName } from './step.ts';
import { stepNames, steps } from './steps.ts';

export interface Difference {
  /** The first step that differs. */
  readonly step: StepName;
  readonly recorded: string;
  readonly now: string;
}

/** undefined where the rules give what was recorded. Of an answer that rules do not give, only that they let it pass. */
export function differenceFrom(record: DecisionRecord, decided: Decided): Difference | undefined {
  if (record.stage !== 'admission' && record.stage !== 'answer') return undefined;
  // A fault may come before any fact is known.
  if (record.type === 'InternalError') return undefined;
  const wanted = record.stage === 'answer' ? 'served' : recordedText(record);
  const now = decidedText(decided);
  if (wanted !== now.text)
    return { step: earlier(recordedStep(record), now.step), recorded: wanted, now: now.text };
  return placeDifference(record, decided);
}

function recordedText({ served, status, type, message }: DecisionRecord): string {
  return served ? 'served' : `${status} ${type ?? ''} ${message ?? ''}`;
}

function decidedText({ verdict, trace }: Decided): { readonly text: string; readonly step?: StepName } {
  if (verdict.kind !== 'refused') return { text: 'served' };
  const { status, type, message } = verdict.refusal;
  const step = trace.steps.find(({ refusal }) => refusal !== undefined)?.step;
  return { text: `${status} ${type} ${message}`, ...(step !== undefined && { step }) };
}

/** The step that rules refused it at. */
function recordedStep(record: DecisionRecord): StepName | undefined {
  if (record.served || record.stage !== 'admission') return undefined;
  const cause = causeOf(record);
  return cause && causes[cause].step;
}

/** Steps of which the record has no facts: the gateway ended at its refusal before it read them. */
export function unreadSteps(record: DecisionRecord): readonly StepName[] {
  const step = recordedStep(record);
  if (step === undefined) return [];
  const { group } = steps[step];
  if (group === 'head') return stepNames.filter((name) => steps[name].needs !== 'head');
  // A listing reads no limits, and a node counts the prompt of what has passed all of them.
  if (group === 'listing' || (step === 'context' && record.counted === 'node')) return [];
  const at = stepNames.indexOf(step);
  const readsNoSums = at < stepNames.indexOf('context');
  return stepNames.filter((name, index) => {
    const { needs } = steps[name];
    return (needs === 'sums' && readsNoSums) || (needs === 'use' && index > at);
  });
}

function earlier(a: StepName | undefined, b: StepName | undefined): StepName {
  return stepNames.find((name) => name === a || name === b) ?? 'nodes';
}

/** Both are served, by the same capacity and a node of it? */
function placeDifference({ capacity, node }: DecisionRecord, { verdict }: Decided): Difference | undefined {
  if (verdict.kind !== 'placed' || capacity === undefined) return undefined;
  const { placement } = verdict.decision;
  if (placement instanceof Refusal) return undefined;
  if (placement.capacity !== capacity)
    return { step: 'own nodes', recorded: capacity, now: placement.capacity };
  const nodes = placement.candidates.map((route) => route.node);
  if (node === undefined || nodes.some((each) => each === node)) return undefined;
  return { step: 'nodes', recorded: node, now: nodes.join(', ') };
}
