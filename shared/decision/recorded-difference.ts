/** Compares a recorded decision with what is decided now from its facts. */
import type { DecisionRecord } from '../../schemas/decisions.ts';
import { causeOf, causes } from './causes.ts';
import type { Decided } from './question.ts';
import { Refusal } from './refusal.ts';
import type { StepName } from './trace.ts';

export interface Difference {
  /** The first step that differs. */
  readonly step: StepName;
  readonly recorded: string;
  readonly now: string;
}

/** The order of the steps of any decision. */
const order: readonly StepName[] = [
  ...(['host', 'fresh', 'key', 'path', 'listing', 'usage', 'plan', 'context', 'allowance'] as const),
  ...(['network allowance', 'visitor tokens'] as const),
  ...(['requests', 'concurrency', 'visitor requests', 'visitor concurrency'] as const),
  ...(['stack', 'surface', 'own nodes', 'pool', 'tier', 'nodes'] as const),
];

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

/** Rate and concurrency are read one after the other, until one refuses. */
const readInTurn: readonly StepName[] = [
  'requests',
  'concurrency',
  'visitor requests',
  'visitor concurrency',
];
const headSteps: readonly StepName[] = ['host', 'fresh', 'key', 'path'];
const readTogether: readonly StepName[] = ['allowance', 'network allowance', 'visitor tokens'];
const ofBody: readonly StepName[] = [
  ...(['usage', 'context'] as const),
  ...readTogether,
  ...readInTurn,
  ...(['surface', 'own nodes', 'pool', 'tier', 'nodes'] as const),
];

/** Steps of which the record has no facts: the gateway ended at its refusal before it read them. */
export function unreadSteps(record: DecisionRecord): readonly StepName[] {
  const step = recordedStep(record);
  if (step === undefined || step === 'listing') return [];
  if (headSteps.includes(step)) return ofBody;
  const at = order.indexOf(step);
  // A node counts the prompt of what has passed all limits.
  if (step === 'context' && record.counted === 'node') return [];
  const later = readInTurn.filter((each) => order.indexOf(each) > at);
  return at < order.indexOf('context') ? [...readTogether, ...later] : later;
}

function earlier(a: StepName | undefined, b: StepName | undefined): StepName {
  const at = (step: StepName | undefined): number =>
    step === undefined ? order.length : order.indexOf(step);
  return order[Math.min(at(a), at(b))] ?? 'nodes';
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
