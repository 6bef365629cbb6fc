/** A decision explained: every step, the events that made it so, what it was before, and what would turn it. */
import type { DecisionRecord } from '../../schemas/decisions.ts';
import type { Because, ExplainedStep, ExplainedVerdict, Explanation } from '../../schemas/explanations.ts';
import { type Decided, decideOn, type Question } from '../../shared/decision/question.ts';
import { differenceFrom } from '../../shared/decision/recorded-difference.ts';
import type { Step, StepName } from '../../shared/decision/trace.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { setAt } from '../../shared/snapshot/because.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { PastStates, ReadableState } from '../history/past.ts';
import { becauseOf } from './because-event.ts';
import { describeStep, type StepMark } from './step-texts.ts';
import { wouldTurn } from './would.ts';

export interface Explainer {
  readonly log: ControlLog;
  /** The present state. */
  readonly snapshot: Snapshot;
  readonly past: PastStates;
  /** Members see no names of what belongs to others. */
  readonly isOperator: boolean;
}

/** Past states looked at for the answer before. */
const statesBeforeMax = 3;

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
  const steps = names.map(
    (name): Step => found.get(name) ?? { step: name, result: 'skipped', facts: {}, reads: [] },
  );
  const shape = steps.findIndex(({ step }) => step === 'shape');
  if (shape !== -1 && found.has('plan'))
    steps[shape] = { step: 'shape', result: record === undefined ? 'assumed' : 'ok', facts: {}, reads: [] };
  if (cut === undefined || record === undefined) return steps;
  const refused: Step = { step: cut, result: 'refused', facts: { reason: record.reason ?? null }, reads: [] };
  if (cut === 'answer') return [...steps, refused];
  const at = steps.findIndex(({ step }) => step === cut);
  return steps.map((step, index) => {
    if (index < at) return step;
    return index === at ? refused : { step: step.step, result: 'skipped', facts: {}, reads: [] };
  });
}

/** The step of an answer that rules alone do not give. */
function cutAt({ stage, served }: DecisionRecord): StepName | undefined {
  if (served || stage === 'admission') return undefined;
  if (stage === 'answer' || stage === 'usage') return stage;
  return 'shape';
}

export function verdictOf({ verdict }: Decided): ExplainedVerdict {
  if (verdict.kind !== 'refused') return { served: true, status: 200 };
  const { status, type, message } = verdict.refusal;
  return { served: false, status, type, message };
}

function recordedVerdict({ served, status, type, message }: DecisionRecord): ExplainedVerdict {
  return { served, status, ...(type !== undefined && { type }), ...(message !== undefined && { message }) };
}

/** The steps that decide: those passed by what is served, else the refused one and, of the route, those before it. */
function deciding(steps: readonly Step[], isServed: boolean): readonly Step[] {
  if (isServed) return steps.filter(({ result }) => result === 'ok');
  const at = steps.findIndex(
    ({ refusal, step, result }) => refusal !== undefined || (result === 'refused' && step !== 'own nodes'),
  );
  const last = steps[at];
  if (last === undefined) return [];
  const isRoute = sharedSteps.includes(last.step);
  return [...(isRoute ? steps.slice(0, at).filter(({ step }) => step === 'own nodes') : []), last];
}

interface Described {
  readonly step: Step;
  readonly text: string;
  readonly seqs: readonly { readonly mark: StepMark; readonly seq: number }[];
}

function describe(step: Step, { db }: Pick<ReadableState, 'db'>, model: string): Described {
  const { text, marks } = describeStep(step, db, model);
  const seqs = marks.flatMap((mark) => {
    const found =
      setAt(db, mark.table, mark.id, mark.mark) ??
      (mark.mark === undefined ? undefined : setAt(db, mark.table, mark.id));
    return found === undefined ? [] : [{ mark, seq: found.seq }];
  });
  return { step, text, seqs: seqs.sort((a, b) => b.seq - a.seq) };
}

export async function explain(
  explainer: Explainer,
  question: Question,
  state: Pick<ReadableState, 'db' | 'seq'>,
  record?: DecisionRecord,
): Promise<Explanation> {
  const { snapshot, isOperator } = explainer;
  const decided = decideOn(state.db, question);
  const steps = ladder(question, decided, record);
  const rederived = verdictOf(decided);
  const verdict = record === undefined ? rederived : recordedVerdict(record);
  const { model } = question.facts;
  const described = steps.map((step) => describe(step, state, model));
  const decisive = deciding(steps, verdict.served);
  const newest = described
    .filter(({ step, seqs }) => decisive.includes(step) && seqs.length > 0)
    .sort((a, b) => (b.seqs[0]?.seq ?? 0) - (a.seqs[0]?.seq ?? 0));
  // Before anything is awaited: the present state moves on.
  const isRuled = record === undefined || record.stage === 'admission';
  const present =
    verdict.served || !isRuled ? undefined : decideOn(snapshot.db, { ...question, nowMs: Date.now() });
  const would = present === undefined ? [] : wouldTurn(snapshot, { ...question, nowMs: Date.now() }, present);
  const explained: ExplainedStep[] = [];
  for (const each of described) explained.push(await explainedStep(explainer, each));
  const before = await answerBefore(explainer, question, newest, verdict);
  const name = newest[0]?.step.step ?? decisive.at(-1)?.step;
  return {
    verdict,
    at: state.seq,
    ...(record !== undefined && {
      gateway: record.gateway,
      time: new Date(record.at).toISOString(),
      ...(isOperator && record.reason !== undefined && { cause: record.reason }),
      recorded: verdict,
      rederived,
      same: differenceFrom(record, decided) === undefined,
    }),
    ...(record === undefined && isOperator && causeOf(decided)),
    steps: explained,
    ...(name !== undefined && { decisive: name }),
    ...(before !== undefined && { before }),
    would: would.filter((command) => isOperator || /^headgate (?:key|stack) /.test(command)),
    assumptions: assumptionsOf(question, record),
  };
}

function causeOf({ verdict }: Decided): { cause: string } | undefined {
  return verdict.kind === 'refused' ? { cause: verdict.refusal.reason } : undefined;
}

async function explainedStep(explainer: Explainer, { step, text, seqs }: Described): Promise<ExplainedStep> {
  const { step: name, result, facts } = step;
  const isForeign =
    !explainer.isOperator &&
    (name === 'pool' || name === 'tier' || (name === 'nodes' && facts['place'] === 'pool'));
  const newest = seqs[0];
  const because = newest && (await becauseOf(explainer, newest.mark, newest.seq));
  return {
    step: name,
    result,
    text:
      isForeign && name === 'nodes'
        ? result === 'ok'
          ? 'the pool serves it'
          : 'no node of the pool serves it'
        : text,
    facts: isForeign ? {} : facts,
    ...(because !== undefined && { because: isForeign ? withoutActor(because) : because }),
  };
}

function withoutActor({ position, type, at }: Because): Because {
  return { position, type, at };
}

/** The newest of the deciding events before which the answer was another one. */
async function answerBefore(
  { past }: Explainer,
  question: Question,
  newest: readonly Described[],
  now: ExplainedVerdict,
): Promise<Explanation['before']> {
  const seqs = [...new Set(newest.flatMap(({ seqs: own }) => own.map(({ seq }) => seq)))].sort(
    (a, b) => b - a,
  );
  for (const seq of seqs.slice(0, statesBeforeMax)) {
    if (seq <= 1) continue;
    const { db } = await past.at(seq - 1);
    const { served, status, type } = verdictOf(decideOn(db, question));
    if (status !== now.status || type !== now.type)
      return { position: seq - 1, served, status, ...(type !== undefined && { type }) };
  }
  return undefined;
}

function assumptionsOf({ facts }: Question, record: DecisionRecord | undefined): string[] {
  if (record !== undefined)
    return record.model === undefined && record.stage === 'admission' && record.operation !== 'models'
      ? ['the model asked for is a name that nothing here has, so it was not kept']
      : [];
  return [
    'the body is well-formed',
    'no other request is in flight, and none came in this minute',
    'the gateway is fresh and can record usage',
    ...(facts.recorded !== undefined && 'organisation' in facts.recorded ? ['the key is good'] : []),
  ];
}

/** Steps whose result or text differ, by name. */
export function differingSteps(a: Explanation, b: Explanation): string[] {
  const names = [...new Set([...a.steps, ...b.steps].map(({ step }) => step))];
  const view = ({ steps }: Explanation, name: string): string => {
    const found = steps.find(({ step }) => step === name);
    return found === undefined ? '' : `${found.result} ${found.text}`;
  };
  return names.filter((name) => view(a, name) !== view(b, name));
}
