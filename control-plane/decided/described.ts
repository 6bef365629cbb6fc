/**
 * A decision on one state, described: every step with its text, and the commits that set the rows it depends on. Reads one
 * state and returns plain data, so that it runs where the state is: for past states, on the thread of the history.
 */
import type { DecisionRecord } from '../../schemas/decisions.ts';
import type { ExplainedVerdict } from '../../schemas/explanations.ts';
import { type Decided, decideOn, decideWith, type Question } from '../../shared/decision/question.ts';
import { differenceFrom, unreadSteps } from '../../shared/decision/recorded-difference.ts';
import type { Step, StepFacts, StepName, StepResult } from '../../shared/decision/trace.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { setAt } from '../../shared/snapshot/because.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';
import { type Described, describeStep, type StepMark } from './step-texts.ts';

export interface DescribedStep {
  readonly step: StepName;
  readonly result: StepResult;
  readonly facts: StepFacts;
  readonly text: string;
  /** It is one of those that decide. */
  readonly decides: boolean;
  /** Commits that set what it depends on, the newest first. */
  readonly seqs: readonly { readonly mark: StepMark; readonly seq: number }[];
}

export interface DescribedDecision {
  /** Of the state. */
  readonly seq: number;
  /** What was recorded, where there is a record. */
  readonly verdict: ExplainedVerdict;
  readonly rederived: ExplainedVerdict;
  /** For operators: finer than the type. */
  readonly cause?: string | undefined;
  /** The rules give what was recorded. */
  readonly same: boolean;
  readonly steps: readonly DescribedStep[];
}

const headSteps: readonly StepName[] = ['host', 'fresh', 'key', 'path'];
const bodySteps: readonly StepName[] = [
  'shape',
  'usage',
  'plan',
  'context',
  'allowance',
  'network allowance',
  'visitor tokens',
  'requests',
  'concurrency',
  'visitor requests',
  'visitor concurrency',
];
/** Only decisions about visitors have these. */
const visitorSteps: ReadonlySet<StepName> = new Set([
  'network allowance',
  'visitor tokens',
  'visitor requests',
  'visitor concurrency',
]);
const stackSteps: readonly StepName[] = ['stack', 'surface', 'nodes'];
/** Steps that give an answer, in their order: the first that passes is what serves. */
const givingSteps: readonly StepName[] = ['own nodes', 'nodes', 'listing'];
const sharedSteps: readonly StepName[] = ['own nodes', 'pool', 'tier', 'nodes'];

/** All steps in their order; those that were not decided are skipped. */
function ladder(question: Question, { trace, verdict }: Decided, record: DecisionRecord | undefined): Step[] {
  const found = new Map(trace.steps.map((step) => [step.step, step]));
  const isListing = verdict.kind === 'listed' || found.has('listing');
  const isStack = question.facts.fixed?.kind === 'stack';
  const route = isStack
    ? stackSteps
    : [...(found.has('surface') ? (['surface'] as const) : []), ...sharedSteps];
  const body = bodySteps.filter((step) => !visitorSteps.has(step) || found.has(step));
  const names = isListing ? [...headSteps, 'listing' as const] : [...headSteps, ...body, ...route];
  const cut = record === undefined ? undefined : cutAt(record);
  const unread = unreadBy(record);
  const steps = names.map((name): Step => (unread.has(name) ? undefined : found.get(name)) ?? skipped(name));
  const shape = steps.findIndex(({ step }) => step === 'shape');
  // Where no tokens were needed, the body was not read.
  if (shape !== -1 && found.has('plan') && !unread.has('context'))
    steps[shape] = { step: 'shape', result: record === undefined ? 'assumed' : 'ok', facts: {}, reads: [] };
  if (cut === undefined || record === undefined) return steps;
  const refused: Step = { step: cut, result: 'refused', facts: factsOf(record), reads: [] };
  if (cut === 'answer') return [...steps, refused];
  // Nothing of a request that was not read is known, so none of the rules was asked.
  if (cut === 'http') return [refused, ...steps.map(({ step }) => skipped(step))];
  const at = steps.findIndex(({ step }) => step === cut);
  return steps.map((step, index) => {
    if (index < at) return step;
    return index === at ? refused : skipped(step.step);
  });
}

/** Steps of which the record has no facts. */
function unreadBy(record: DecisionRecord | undefined): ReadonlySet<StepName> {
  return new Set(record === undefined ? [] : unreadSteps(record));
}

function skipped(step: StepName): Step {
  return { step, result: 'skipped', facts: {}, reads: [] };
}

function factsOf({ type, reason }: DecisionRecord): StepFacts {
  return { ...(type !== undefined && { type }), ...(reason !== undefined && { reason }) };
}

/** The step of an answer that rules alone do not give. */
function cutAt({ stage, served }: DecisionRecord): StepName | undefined {
  if (served || stage === 'admission') return undefined;
  if (stage === 'answer' || stage === 'usage' || stage === 'http') return stage;
  return 'shape';
}

function verdictOf({ verdict }: Decided): ExplainedVerdict {
  if (verdict.kind !== 'refused') return { served: true, status: 200 };
  const { status, type, message } = verdict.refusal;
  return { served: false, status, type, message };
}

/** The answer on this state, without its steps. */
export function answerOn(db: Database, question: Question): ExplainedVerdict {
  return verdictOf(decideOn(db, question));
}

/** The same, for many questions on one state. */
export function answerWith(lookup: Lookup, question: Question): ExplainedVerdict {
  return verdictOf(decideWith(lookup, question));
}

function recordedVerdict({ served, status, type, message }: DecisionRecord): ExplainedVerdict {
  return { served, status, ...(type !== undefined && { type }), ...(message !== undefined && { message }) };
}

/** The steps that decide: the one that gave what is served, else the refused one and, of the route, those before it. */
function deciding(steps: readonly Step[], isServed: boolean): readonly Step[] {
  if (isServed)
    return steps.filter(({ step, result }) => result === 'ok' && givingSteps.includes(step)).slice(0, 1);
  const at = steps.findIndex(
    ({ refusal, step, result }) => refusal !== undefined || (result === 'refused' && step !== 'own nodes'),
  );
  const last = steps[at];
  if (last === undefined) return [];
  const isRoute = sharedSteps.includes(last.step);
  return [...(isRoute ? steps.slice(0, at).filter(({ step }) => step === 'own nodes') : []), last];
}

export function describeDecision(
  { db, seq }: { readonly db: Database; readonly seq: number },
  question: Question,
  record?: DecisionRecord,
): DescribedDecision {
  const decided = decideOn(db, question);
  const steps = ladder(question, decided, record);
  const rederived = verdictOf(decided);
  const verdict = record === undefined ? rederived : recordedVerdict(record);
  const decides = new Set(deciding(steps, verdict.served));
  const isBound = record?.counted === 'bound';
  const of = { db, model: question.facts.model, isBound };
  return {
    seq,
    verdict,
    rederived,
    ...(decided.verdict.kind === 'refused' && { cause: decided.verdict.refusal.reason }),
    same: record === undefined || differenceFrom(record, decided) === undefined,
    steps: steps.map((step) => ({ ...described(step, of), decides: decides.has(step) })),
  };
}

function described(step: Step, of: Described): Omit<DescribedStep, 'decides'> {
  const { text, marks } = describeStep(step, of);
  const { db } = of;
  const seqs = marks.flatMap((mark) => {
    const found =
      setAt(db, mark.table, mark.id, mark.mark) ??
      (mark.mark === undefined ? undefined : setAt(db, mark.table, mark.id));
    return found === undefined ? [] : [{ mark, seq: found.seq }];
  });
  const { step: name, result, facts } = step;
  return { step: name, result, facts, text, seqs: seqs.sort((a, b) => b.seq - a.seq) };
}
