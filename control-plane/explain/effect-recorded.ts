/**
 * Recorded requests, decided again on the state before and after a change. Each stands for so many requests: all numbers but those
 * of decisions are of requests.
 */
import type { Effect, RecordedGroup } from '../../schemas/effect.ts';
import { type AnswerLabel, type Answers, isRefusedAfter, isServed } from '../../shared/decision/effect.ts';
import { type Question, questionOf } from '../../shared/decision/question.ts';
import type { MeantRefusals } from '../commands/event-effects.ts';
import { sharedHost } from './effect-askers.ts';
import { groupBy } from './group-by.ts';
import type { SampledDecision, SampledRecord } from './sampled.ts';

/** Groups of an answer, and examples of a group. */
export const groupsMax = 200;
export const examplesMax = 5;

export type FoundRecorded = Omit<NonNullable<Effect['recorded']>, 'since' | 'gatewaysSilent'>;

/** As it is answered on the state before. */
export interface Redecided extends SampledDecision {
  readonly question: Question;
  readonly from: AnswerLabel;
}

export interface TurnedRecord extends Redecided {
  readonly to: AnswerLabel;
}

/** Without those of organisations and keys that are meant to be refused. */
export function notMeant(
  records: readonly SampledDecision[],
  { organisations, keys }: MeantRefusals = { organisations: [], keys: [] },
): readonly SampledDecision[] {
  if (organisations.length + keys.length === 0) return records;
  const meant = [new Set(organisations), new Set(keys)] as const;
  return records.filter(
    ({ record: { organisation = '', key = '' } }) => !meant[0].has(organisation) && !meant[1].has(key),
  );
}

/** Those that are served on this state: what the last hour served and is refused by now, no change refuses. */
export function* recordedAnswers(
  before: Answers,
  records: readonly SampledDecision[],
): Generator<void, Redecided[]> {
  const found: Redecided[] = [];
  for (const [at, { record, requests }] of records.entries()) {
    if (at % pieceMin === 0) yield;
    if (!isDecidedByRules(record) || isOfNobody(record)) continue;
    const question = questionOf(record);
    const from = before.of(question);
    if (isServed(from)) found.push({ record, requests, question, from });
  }
  return found;
}

/** As many are decided in one turn at least, which takes far less than a caller notices. */
const pieceMin = 500;
/** The state after is made again for each piece: that may take so long in all. */
const remadeMsMax = 300;

/** In pieces, each of which is for one state after the events, which takes so long to make. */
export function* piecesOf(served: readonly Redecided[], madeMs: number): Iterable<readonly Redecided[]> {
  const piecesMax = Math.max(1, Math.floor(remadeMsMax / Math.max(1, madeMs)));
  const size = Math.max(pieceMin, Math.ceil(served.length / piecesMax));
  for (let from = 0; from < served.length; from += size) yield served.slice(from, from + size);
}

/** Those that are answered otherwise on the state after. */
export function turnedOf(after: Answers, served: readonly Redecided[]): TurnedRecord[] {
  const turned: TurnedRecord[] = [];
  for (const each of served) {
    const to = after.of(each.question);
    if (to !== each.from) turned.push({ ...each, to });
  }
  return turned;
}

/** No change of rules turns another. */
function isDecidedByRules({ stage }: SampledRecord): boolean {
  return stage === 'admission' || stage === 'answer';
}

/** Anybody may ask any number of them, in which those that a change refuses would be a small share. */
function isOfNobody({ key, organisation, visitor }: SampledRecord): boolean {
  return (key ?? organisation ?? visitor) === undefined;
}

export function recordedEffect(served: readonly Redecided[], turned: readonly TurnedRecord[]): FoundRecorded {
  const byKind = groupBy(turned, ({ record, from, to }) => {
    const { organisation, stack, model, operation } = record;
    return JSON.stringify([organisation, stack, model, operation, from, to]);
  });
  const groups = [...byKind.values()].map(recordedGroup).sort((a, b) => b.requests - a.requests);
  return {
    decided: served.length,
    asked: requestsOf(served),
    differ: requestsOf(turned),
    refused: requestsOf(turned.filter(isRefusedAfter)),
    lost: lostBy(served, turned),
    groups: groups.slice(0, groupsMax),
    ...(groups.length > groupsMax && { more: true as const }),
  };
}

/** Organisations of which some request was served before, and none after. */
function lostBy(served: readonly Redecided[], turned: readonly TurnedRecord[]): string[] {
  const countOf = (of: readonly SampledDecision[]): ReadonlyMap<string, number> =>
    new Map(
      [...groupBy(of, ({ record }) => record.organisation ?? '')].map(([name, own]) => [name, own.length]),
    );
  const refused = countOf(turned.filter(isRefusedAfter));
  return [...countOf(served)]
    .filter(([organisation, count]) => organisation !== '' && refused.get(organisation) === count)
    .map(([organisation]) => organisation)
    .sort();
}

function requestsOf(of: readonly SampledDecision[]): number {
  return Math.round(of.reduce((sum, { requests }) => sum + requests, 0));
}

function recordedGroup(of: readonly [TurnedRecord, ...TurnedRecord[]]): RecordedGroup {
  const [{ record, from, to }] = of;
  const { organisation, stack, model, operation } = record;
  return {
    ...(organisation !== undefined && { organisation }),
    host: stack ?? sharedHost,
    ...(model !== undefined && { model }),
    ...(operation !== 'chat' && { operation }),
    ...{ from, to },
    requests: requestsOf(of),
    examples: of.slice(0, examplesMax).map((each) => each.record.req),
  };
}
