/** Describes how one state decides a request: its steps, and the commits behind each. Can also run on the history thread. */

import type { PlaceKey } from '../../schemas/names.ts';
import type { DecisionRecord } from '../../schemas/records/decisions.ts';
import type { ExplainedVerdict, RuledVerdict } from '../../schemas/records/explanations.ts';
import { deriveVerdict } from '../../schemas/records/verdict.ts';
import { findCause, stepOfStage } from '../../shared/decision/causes.ts';
import type { Read, Step, StepFacts, StepName, StepResult } from '../../shared/decision/step.ts';
import { describeStep, type StepContext, type StepText } from '../../shared/decision/step-texts.ts';
import { stepNames, steps } from '../../shared/decision/steps.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { first } from '../../shared/runtime/statements.ts';
import { openSlot } from '../../shared/snapshot/effects-changes.ts';
import type { Lookup } from '../../shared/snapshot/lookup.ts';
import { installsIn } from '../../shared/snapshot/routes.ts';
import type { State } from '../../shared/snapshot/views.ts';
import { type OpenOverlay, overlayForGateway } from '../../shared/snapshot/waves.ts';
import { findSetCommit } from './because.ts';
import { listNodeReports } from './places.ts';
import { decideInState, decideWithLookup, type Question, type TracedVerdict } from './question.ts';
import { findDifference, unreadSteps } from './recorded-difference.ts';
import { endReason, recordedVerdict } from './recorded-verdict.ts';

export interface DescribedStep {
  readonly step: StepName;
  readonly result: StepResult;
  readonly facts: StepFacts;
  readonly text: string;
  /** Whether the step helped to determine the answer. */
  readonly decides: boolean;
  /** Commits that set the rows on which the step depends, newest first. */
  readonly seqs: readonly { readonly mark: Read; readonly seq: number }[];
  /** Id of the open change on which the step depends. */
  readonly change?: string | undefined;
}

export interface DescribedDecision {
  /** Log position of the state on which the request was decided. */
  readonly seq: number;
  /** Verdict recorded by the gateway if there is a record, otherwise the verdict of the rules. */
  readonly verdict: ExplainedVerdict;
  readonly rederived: RuledVerdict;
  /** Cause of the refusal, more detailed than its type. For operators only. */
  readonly cause?: string | undefined;
  /** Whether the rules lead to the same result as the record. */
  readonly same: boolean;
  readonly steps: readonly DescribedStep[];
  /** Id of an open change that affects the rows behind the decision but is not included in this state. */
  readonly unreached?: string | undefined;
}

/** Returns all steps to show, in order. Steps that the request did not reach are marked as skipped. */
function ladder(
  question: Question,
  { trace, verdict }: TracedVerdict,
  record: DecisionRecord | undefined,
): readonly Step[] {
  const found = new Map(trace.steps.map((step) => [step.step, step]));
  const isListing = verdict.kind === 'listed' || found.has('listing');
  const host = question.facts.fixed?.kind ?? 'shared';
  const names = stepNames.filter((name) => {
    const { group, shown } = steps[name];
    if (group !== 'head' && isListing !== (group === 'listing')) return false;
    return found.has(name) || shown === 'always' || shown === host;
  });
  const unread = new Set(record === undefined ? [] : unreadSteps(record));
  const asked = names.map(
    (name): Step => (unread.has(name) ? undefined : found.get(name)) ?? skippedStep(name),
  );
  const shape = names.indexOf('shape');
  // A gateway reads the body only if the decision needs token counts. Otherwise the step `shape` stays skipped.
  if (shape !== -1 && found.has('plan') && !unread.has('shape'))
    asked[shape] = { step: 'shape', result: record === undefined ? 'assumed' : 'ok', facts: {}, reads: [] };
  return record === undefined ? asked : asRecorded(asked, record);
}

/** Adds how a recorded request ended, if the rules alone did not determine that. */
function asRecorded(asked: readonly Step[], record: DecisionRecord): readonly Step[] {
  const { stage, type, reason } = record;
  const { outcome, phase, endedBy } = deriveVerdict(record);
  if (outcome === 'ended' && phase !== 'undecided') {
    const facts = { endedBy, phase, reason: endReason(record) };
    return [...asked, { step: 'answer', result: 'refused', facts, reads: [] }];
  }
  if (outcome !== 'refused' || stage === 'admission') return asked;
  const step = stepOfStage[stage];
  const facts = { ...(type !== undefined && { type }), ...(reason !== undefined && { reason }) };
  const refused: Step = { step, result: 'refused', facts, reads: [], cause: findCause(record) };
  if (step === 'answer') return [...asked, refused];
  // A request that could not be read has no facts, so no rule was applied to it.
  if (step === 'http') return [refused, ...asked.map((each) => skippedStep(each.step))];
  const at = asked.findIndex((each) => each.step === step);
  return asked.map((each, index) => {
    if (index < at) return each;
    return index === at ? refused : skippedStep(each.step);
  });
}

function isRefusedOwn({ step, result }: Step): boolean {
  return step === 'own nodes' && result === 'refused';
}

/** Marks the step `own nodes` as skipped if the organisation has no nodes, because it then cannot explain a refusal. */
function withoutOwn(step: Step, of: StepContext): Step {
  const place = String(step.facts['place']) as PlaceKey;
  if (!isRefusedOwn(step) || of.nodesAt(place).length > 0) return step;
  return { ...skippedStep(step.step), facts: { place, nodes: [] } };
}

function skippedStep(step: StepName): Step {
  return { step, result: 'skipped', facts: {}, reads: [] };
}

function ruledVerdict({ verdict }: TracedVerdict): RuledVerdict {
  if (verdict.kind !== 'refused') return { outcome: 'served', served: true, status: 200 };
  const { status, type, message } = verdict.refusal;
  return { outcome: 'refused', served: false, status, type, message };
}

/** Decides the question on a state, without describing the steps. */
export function decideAnswer(db: Database, question: Question): RuledVerdict {
  return ruledVerdict(decideInState(db, question));
}

/** Decides one of many questions on the same state, without describing the steps. */
export function decideAnswerWithLookup(lookup: Lookup, question: Question): RuledVerdict {
  return ruledVerdict(decideWithLookup(lookup, question));
}

/**
 * Returns the steps that determine the answer. If the request is served, this is the step that supplied the node. Otherwise
 * it is the refusing step, after the steps that found no node.
 */
function deciding(asked: readonly Step[], isServed: boolean): readonly Step[] {
  if (isServed)
    return asked.filter(({ step, result }) => result === 'ok' && steps[step].gives === true).slice(0, 1);
  const at = asked.findIndex(
    ({ refusal, step, result }) => refusal !== undefined || (result === 'refused' && step !== 'own nodes'),
  );
  const last = asked[at];
  if (last === undefined) return [];
  const isRoute = steps[last.step].group === 'route';
  return [...(isRoute ? asked.slice(0, at).filter(isRefusedOwn) : []), last];
}

export function describeDecision(
  { db, seq, overlaid }: State,
  question: Question,
  record?: DecisionRecord,
): DescribedDecision {
  const decided = decideInState(db, question);
  const of = describedState(db, question.facts.model, record?.counted === 'bound');
  const asked = ladder(question, decided, record).map((step) => withoutOwn(step, of));
  const rederived = ruledVerdict(decided);
  const verdict = record === undefined ? rederived : recordedVerdict(record);
  const decides = new Set(deciding(asked, verdict.served));
  const described = asked.map((step) => ({ step, ...describeStep(step, steps[step.step].texts, of) }));
  const open = overlaid === undefined ? overlayForGateway(db) : undefined;
  return {
    seq,
    verdict,
    rederived,
    ...(decided.verdict.kind === 'refused' && { cause: decided.verdict.refusal.reason }),
    same: record === undefined || findDifference(record, decided) === undefined,
    steps: described.map((each) => ({ ...withSeqs(each, db, overlaid), decides: decides.has(each.step) })),
    ...(open !== undefined &&
      described.some(({ marks }) => readsChange(open, marks)) && { unreached: open.change }),
  };
}

function describedState(db: Database, model: string, isBound: boolean): StepContext {
  return {
    model,
    isBound,
    nameOf: (table, id) => {
      const row = first<{ name: string }>(db, `SELECT name FROM ${table} WHERE id = ?`, id);
      return row === undefined || row.name === id ? id : `${row.name} (${id})`;
    },
    nodesAt: (place) => listNodeReports(db, place, model),
    isInstalled: (place) => installsIn(db)(place, model),
  };
}

interface StepAsText extends StepText {
  readonly step: Step;
}

function readsChange(overlaid: OpenOverlay, marks: readonly Read[]): boolean {
  return marks.some(({ table, id }) => overlaid.has(table, id));
}

/** Blames the commit that staged the open change, because the change's own events are not in the log yet. */
const staging: Read = { table: 'change', id: openSlot, mark: 'staged_at' };

function withSeqs(
  { step: { step, result, facts }, text, marks }: StepAsText,
  db: Database,
  overlaid: OpenOverlay | undefined,
): Omit<DescribedStep, 'decides'> {
  const isOfChange = overlaid !== undefined && readsChange(overlaid, marks);
  const base = marks.filter(({ table, id }) => !overlaid?.has(table, id));
  const seqs = [...base, ...(isOfChange ? [staging] : [])]
    .flatMap((mark) => {
      const seq = setAtSeq(db, mark);
      return seq === undefined ? [] : [{ mark, seq }];
    })
    .sort((a, b) => b.seq - a.seq);
  if (!isOfChange) return { step, result, facts, text, seqs };
  const { change, wave, waves } = overlaid;
  return {
    step,
    result,
    facts,
    text: `${text}, by change ${change} (wave ${wave} of ${waves})`,
    seqs,
    change,
  };
}

function setAtSeq(db: Database, { table, id, mark }: Read): number | undefined {
  const found =
    findSetCommit(db, table, id, mark) ?? (mark === undefined ? undefined : findSetCommit(db, table, id));
  return found?.seq;
}
