/**
 * Explains the decision on a request: every step, the events behind it, the answer before those events, and single changes
 * that would turn a refusal into success. Code in `control-plane/explain` uses the same decision functions as serving, so
 * that an explanation never contradicts a gateway. It must not write to the log, and must not show members the names of
 * things that belong to other organisations.
 */
import type { DecisionRecord } from '../../schemas/records/decisions.ts';
import type { Because, ExplainedStep, Explanation } from '../../schemas/records/explanations.ts';
import { deriveOutcome } from '../../schemas/records/verdict.ts';
import type { Read } from '../../shared/decision/step.ts';
import { steps } from '../../shared/decision/steps.ts';
import {
  type ControlLog,
  LogReplaced,
  LogTruncated,
  LogUnavailable,
} from '../../shared/log/core/control-log.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { StateView } from '../../shared/snapshot/waves.ts';
import { findOpenChange } from '../state/changes.ts';
import type { AnswerBefore, EarlierAnswer } from './answer-before.ts';
import { becauseOf } from './because-event.ts';
import type { DescribedDecision, DescribedStep } from './described.ts';
import { decideInState, type Question } from './question.ts';
import { isDecided, unreadSteps } from './recorded-difference.ts';
import { endedText } from './recorded-verdict.ts';
import { wouldTurn } from './would.ts';

export interface Explainer {
  readonly log: ControlLog;
  /** Whether the log can be read. If not, the explanation omits the events behind it instead of waiting for a timeout. */
  readonly isLogReachable: boolean;
  readonly snapshot: Snapshot;
  /** Whether the caller is an operator. Members do not see the names of things that belong to other organisations. */
  readonly isOperator: boolean;
  /** Finds the previous, different answer by searching past states. `last` is the newest position that may be read. */
  answerBefore(last: number, question: Question, asked: AnswerBefore): Promise<EarlierAnswer | undefined>;
}

export interface ToExplain {
  readonly question: Question;
  readonly decision: DescribedDecision;
  readonly record?: DecisionRecord | undefined;
  /** Whether the question is about a past state. */
  readonly isPast: boolean;
  /** Whether earlier states are read with or without the rows of an open change. */
  readonly view: StateView;
  /** Age of the counters in seconds, for a hypothetical request. Absent if the gateways' current use is unknown. */
  readonly countedSecondsAgo?: number | undefined;
}

export async function explain(explainer: Explainer, asked: ToExplain): Promise<Explanation> {
  const { isOperator } = explainer;
  const { question, decision, record } = asked;
  const { steps } = decision;
  const isEnded = record !== undefined && decision.verdict.outcome === 'ended';
  const verdict = isEnded
    ? { ...decision.verdict, message: endedText(record, isOperator) }
    : decision.verdict;
  const would = await wouldBeServed(explainer, asked);
  const newest = steps
    .filter(({ decides, seqs }) => decides && seqs.length > 0)
    .sort((a, b) => (b.seqs[0]?.seq ?? 0) - (a.seqs[0]?.seq ?? 0));
  const explained: ExplainedStep[] = [];
  const reader = becauseReader(explainer);
  for (const each of steps) explained.push(await explainedStep(explainer, each, reader));
  const before = await answerBefore(explainer, asked);
  const unknown = steps.find(({ decides, facts }) => decides && facts['unknown'] === true);
  const finer = isOperator ? (record ?? { reason: decision.cause }).reason : undefined;
  const cause = unknown?.text ?? finer;
  const name = newest[0]?.step ?? steps.findLast(({ decides }) => decides)?.step;
  return {
    verdict,
    at: decision.seq,
    ...(record !== undefined && {
      gateway: record.gateway,
      time: new Date(record.at).toISOString(),
      recorded: verdict,
      ...(isDecided(record) && { rederived: decision.rederived, same: decision.same }),
    }),
    ...(cause !== undefined && { cause }),
    steps: explained,
    ...(name !== undefined && { decisive: name }),
    ...(before !== undefined && { before }),
    would,
    assumptions: listAssumptions(question, asked),
  };
}

/** Whether the rules alone determined the answer. */
function isRuled(record: DecisionRecord | undefined): boolean {
  return record === undefined || (record.stage === 'admission' && deriveOutcome(record) !== 'ended');
}

async function wouldBeServed(
  { snapshot, isOperator }: Explainer,
  { question, decision, record }: ToExplain,
): Promise<string[]> {
  if (decision.verdict.served || !isRuled(record)) return [];
  const now = { ...question, nowMs: wallClockMs() };
  const decided = decideInState(snapshot.db, now);
  const change = decision.steps.find((step) => step.change !== undefined)?.change;
  const isOpen = change !== undefined && findOpenChange(snapshot.db)?.id === change;
  if (isOpen && isOperator && decided.verdict.kind !== 'refused')
    return [`headgate change withdraw ${change}`];
  const would = await wouldTurn(snapshot, now, decided);
  return would.filter((command) => isOperator || /^headgate (?:key|stack) /.test(command));
}

type ReadBecause = (mark: Read, seq: number) => Promise<Because | undefined>;

/** Creates a function that reads the event that set a row. After the log has failed once, the function returns undefined. */
function becauseReader(explainer: Explainer): ReadBecause {
  let isAway = !explainer.isLogReachable;
  return async (mark, seq) => {
    if (isAway) return undefined;
    try {
      return await becauseOf(explainer, mark, seq);
    } catch (error) {
      isAway = [LogUnavailable, LogReplaced, LogTruncated].some((fault) => error instanceof fault);
      if (!isAway) throw error;
      return undefined;
    }
  };
}

async function explainedStep(
  explainer: Explainer,
  described: DescribedStep,
  readBecause: ReadBecause,
): Promise<ExplainedStep> {
  const { step, result, facts, text, seqs, change } = described;
  const { names } = steps[step];
  const isOfPool = names === 'place' && facts['place'] === 'pool';
  const isForeign = !explainer.isOperator && (names === 'others' || isOfPool);
  const newest = seqs[0];
  const because = newest && (await readBecause(newest.mark, newest.seq));
  const poolText = result === 'ok' ? 'the pool serves it' : 'no node of the pool serves it';
  return {
    step,
    result,
    text: isForeign && isOfPool ? poolText : text,
    facts: isForeign ? {} : facts,
    ...(change !== undefined && !isForeign && { change }),
    ...(because !== undefined && { because: isForeign ? withoutActor(because) : because }),
  };
}

function withoutActor({ position, type, at }: Because): Because {
  return { position, type, at };
}

/** Finds the answer before the deciding events, if rules alone determined it: past load and failures are not recorded. */
async function answerBefore(
  explainer: Explainer,
  { question, decision: { seq: at, verdict: now, steps }, record, view }: ToExplain,
): Promise<EarlierAnswer | undefined> {
  if (!isRuled(record) || at <= 1) return undefined;
  // If the request is served, it passed every step, and any of them may have refused it earlier.
  const changed = steps.filter(({ decides, result }) => decides || (now.served && result === 'ok'));
  const seqs = changed.flatMap(({ seqs: own }) => own.map(({ seq }) => seq - 1));
  const candidates = [...new Set(seqs)].filter((seq) => seq > 0 && seq < at).sort((a, b) => b - a);
  return explainer.answerBefore(at - 1, question, { at, now, candidates, view });
}

function listAssumptions(
  { facts }: Question,
  { record, isPast, countedSecondsAgo, view, decision: { unreached } }: ToExplain,
): string[] {
  if (record?.stage === 'http')
    return ['the request was refused before it was read, so nothing else is known and no rule was checked'];
  if (record !== undefined && unreadSteps(record).includes('shape')) {
    return [`the request was ${deriveOutcome(record)} before its body was read, so its model is not known`];
  }
  if (record !== undefined)
    return record.model === undefined && record.stage === 'admission' && record.operation !== 'models'
      ? ['no model has the requested name, so the name was not recorded']
      : [];
  return [
    'the body is well-formed',
    countedSecondsAgo === undefined
      ? 'no other request is in flight, and none arrived in this minute'
      : `requests in this minute and in flight are those that gateways published up to ${countedSecondsAgo.toFixed(1)} s ago`,
    ...(facts.visitor === undefined ? [] : ['the visitor has free turns left']),
    ...(isPast ? ['the tokens that count against the allowance are those of the present'] : []),
    'the gateway is fresh and can record usage',
    ...(facts.recorded !== undefined && 'organisation' in facts.recorded ? ['the key is valid'] : []),
    ...(view === 'wave' ? ['the gateway is in a wave of the open change, if there is one'] : []),
    ...(unreached === undefined
      ? []
      : [`the change ${unreached} has not reached its gateway; --wave explains the request with the change`]),
  ];
}

/** Names of the steps whose results or texts differ. */
export function differingSteps(a: Explanation, b: Explanation): string[] {
  const names = [...new Set([...a.steps, ...b.steps].map(({ step }) => step))];
  const view = ({ steps }: Explanation, name: string): string => {
    const found = steps.find(({ step }) => step === name);
    return found === undefined ? '' : `${found.result} ${found.text}`;
  };
  return names.filter((name) => view(a, name) !== view(b, name));
}
