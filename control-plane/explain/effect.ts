/**
 * The effect of events before they are written: which answers they turn. Of recorded requests, decided again with the
 * counters as they were, and of each combination of organisation, host and model with empty counters. Reads one snapshot
 * before and after its events, which are undone.
 */
import type { DecisionRecord } from '../../schemas/decisions.ts';
import type { Effect, LoweredLimit, RecordedGroup, StaticGroup } from '../../schemas/effect.ts';
import type { KnownEvent } from '../../schemas/events.ts';
import type { OperationKind } from '../../schemas/operations.ts';
import { type AnswerLabel, Answers, emptyCounters, isServed } from '../../shared/decision/effect.ts';
import { factsOf, type Question, questionOf } from '../../shared/decision/question.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import type { EventContext } from '../../shared/snapshot/effect.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { CommandError } from '../core/command-error.ts';
import { askerId, askersOn, type EffectAsker, sharedHost } from './effect-askers.ts';
import { limitsOn, lowered } from './effect-limits.ts';
import { groupBy } from './group-by.ts';

export interface EffectQuestion {
  readonly events: readonly KnownEvent[];
  readonly by: string;
  readonly nowMs: number;
  /** Of the last hour; undefined: not asked. */
  readonly records?: readonly DecisionRecord[] | undefined;
  /** Only what concerns this organisation. */
  readonly organisation?: string | undefined;
}

export type FoundEffect = Pick<Effect, 'static' | 'limits'> & {
  readonly recorded?: Omit<NonNullable<Effect['recorded']>, 'gatewaysSilent'>;
};

const groupsMax = 200;
const examplesMax = 5;
const unknownStacks = 'stacks';

interface Combination {
  readonly asker: EffectAsker;
  readonly model: string;
  readonly operation: OperationKind;
}

function questionFor(
  { asker: { organisation, host }, model, operation }: Combination,
  nowMs: number,
): Question {
  const facts = factsOf({
    ...{ operation, model, promptTokens: 1, maxTokens: 1 },
    credential: { organisation: organisation ?? '' },
    visitor: organisation === undefined ? 'v-effect' : undefined,
    host: host === sharedHost ? 'shared' : 'stack',
    stack: host === sharedHost ? undefined : host,
  });
  return { facts, counters: emptyCounters, fenced: false, outboxFull: false, nowMs };
}

/** Answers of one state. Where an asker is not in it, its question is decided all the same. */
class StateAnswers {
  readonly #answers: Answers;
  readonly #askers: ReadonlyMap<string, EffectAsker>;
  readonly #nowMs: number;

  constructor(db: Database, askers: ReadonlyMap<string, EffectAsker>, nowMs: number) {
    this.#answers = new Answers(db);
    this.#askers = askers;
    this.#nowMs = nowMs;
  }

  of(combination: Combination): AnswerLabel {
    const { asker, model, operation } = combination;
    const rules = this.#askers.get(askerId(asker))?.rules;
    const kind = asker.host === sharedHost ? 'shared' : 'stack';
    const key = rules === undefined ? undefined : JSON.stringify([kind, rules, model, operation]);
    return this.#answers.of(questionFor(combination, this.#nowMs), key);
  }
}

/** A stack may change its surface, so a model may be asked in one way before and in another after. */
function* combinationsOf(
  before: EffectAsker | undefined,
  after: EffectAsker | undefined,
): Iterable<Combination> {
  const asker = before ?? after;
  if (asker === undefined) return;
  const models = new Set([...(before?.models.keys() ?? []), ...(after?.models.keys() ?? [])]);
  for (const model of models) {
    const [was = [], will = []] = [before?.models.get(model), after?.models.get(model)];
    for (const operation of new Set([...was, ...will])) yield { asker, model, operation };
  }
}

export interface Turned extends Combination {
  readonly from: AnswerLabel;
  readonly to: AnswerLabel;
}

/** What is counted and compared, on the state before and after. */
interface Compared {
  readonly turned: readonly Turned[];
  /** Served before or after, of which `turned` are those with another answer. */
  readonly combinations: number;
  readonly limits: readonly LoweredLimit[];
  readonly recorded?: FoundEffect['recorded'];
}

function compare(snapshot: Snapshot, { events, by, nowMs, records, organisation }: EffectQuestion): Compared {
  const context: EventContext = { seq: snapshot.seq + 1, atMs: nowMs, by };
  const previewed = <Result>(read: (db: Database) => Result): Result =>
    snapshot.stateAt({ kind: 'previewed', events, context }, ({ db }, passedOver) => {
      if (passedOver.length === 0) return read(db);
      throw new CommandError('Conflict', `the state has changed: ${passedOver[0]}`, { next: 'ask again' });
    });
  const isAsked = (of: string | undefined): boolean => organisation === undefined || of === organisation;
  const was = askersOn(snapshot.db);
  const wasLimits = limitsOn(snapshot.db);
  // The state before is read again after this: an asker or a model may be new.
  const will = previewed(askersOn);
  const combinations = [...new Set([...was.keys(), ...will.keys()])].flatMap((id) => [
    ...combinationsOf(was.get(id), will.get(id)),
  ]);
  const asked = combinations.filter(({ asker }) => isAsked(asker.organisation));
  const before = new StateAnswers(snapshot.db, was, nowMs);
  const from = asked.map((each) => before.of(each));
  const present = new Answers(snapshot.db);
  const recorded = records?.map((record) => ({ record, from: recordedLabel(present, record) }));
  return previewed((db) => {
    const after = new StateAnswers(db, will, nowMs);
    const answered = asked
      .map((each, at): Turned => ({ ...each, from: from[at] ?? '', to: after.of(each) }))
      .filter((each) => isServed(each.from) || isServed(each.to));
    return {
      turned: answered.filter((each) => each.from !== each.to),
      combinations: answered.length,
      limits: lowered(wasLimits, limitsOn(db)).filter((limit) => isAsked(limit.organisation)),
      ...(recorded && { recorded: recordedEffect(new Answers(db), recorded) }),
    };
  });
}

/** Each combination that is served before or after, and is answered otherwise after. */
export function turnedAnswers(snapshot: Snapshot, asked: EffectQuestion): readonly Turned[] {
  return compare(snapshot, asked).turned;
}

/** Throws CommandError Conflict where the events do not fit the state any more. */
export function effectOn(snapshot: Snapshot, asked: EffectQuestion): FoundEffect {
  const { turned, combinations, limits, recorded } = compare(snapshot, asked);
  return { static: staticEffect(turned, combinations), limits: [...limits], ...(recorded && { recorded }) };
}

function staticEffect(turned: readonly Turned[], combinations: number): FoundEffect['static'] {
  const groups = largestFirst(turned, ({ asker, model, operation, from, to }) => {
    const { organisation, host } = asker;
    const kind = organisation === undefined ? 'visitors' : host === sharedHost ? sharedHost : unknownStacks;
    return [kind, model, operation, from, to];
  }).map(staticGroup);
  return {
    combinations,
    differ: turned.length,
    refused: turned.filter(isRefusedAfter).length,
    groups: groups.slice(0, groupsMax),
    ...(groups.length > groupsMax && { more: true as const }),
  };
}

function isRefusedAfter({ from, to }: Pick<Turned, 'from' | 'to'>): boolean {
  return isServed(from) && !isServed(to);
}

function staticGroup(of: readonly [Turned, ...Turned[]]): StaticGroup {
  const [{ asker, model, operation, from, to }] = of;
  const isOne = of.length === 1 && asker.organisation !== undefined;
  const names = of.map(({ asker: { organisation = 'visitors', host } }) =>
    host === sharedHost ? organisation : `${organisation} at ${host}`,
  );
  return {
    ...(isOne && { organisation: asker.organisation }),
    host: isOne || asker.host === sharedHost ? asker.host : unknownStacks,
    model,
    ...(operation !== 'chat' && { operation }),
    ...{ from, to },
    count: of.length,
    examples: names.slice(0, examplesMax),
  };
}

interface Redecided {
  readonly record: DecisionRecord;
  readonly from: AnswerLabel;
}

/** Empty for a request that was not decided by rules: no change of rules turns it. */
function recordedLabel(answers: Answers, record: DecisionRecord): AnswerLabel {
  return record.stage === 'admission' || record.stage === 'answer' ? answers.of(questionOf(record)) : '';
}

function recordedEffect(answers: Answers, of: readonly Redecided[]): NonNullable<FoundEffect['recorded']> {
  const served = of.filter(({ from }) => from !== '' && isServed(from));
  const turned = served
    .map((each) => ({ ...each, to: recordedLabel(answers, each.record) }))
    .filter(({ from, to }) => from !== to);
  const groups = largestFirst(turned, ({ record, from, to }) => {
    const { organisation, stack, model, operation } = record;
    return [organisation ?? '', stack ?? '', model ?? '', operation, from, to];
  });
  return {
    asked: served.length,
    differ: turned.length,
    refused: turned.filter(isRefusedAfter).length,
    groups: groups.map(recordedGroup).slice(0, groupsMax),
  };
}

function recordedGroup(
  of: readonly [Redecided & { readonly to: AnswerLabel }, ...(Redecided & { readonly to: AnswerLabel })[]],
): RecordedGroup {
  const [{ record, from, to }] = of;
  const { organisation, stack, model, operation } = record;
  return {
    ...(organisation !== undefined && { organisation }),
    host: stack ?? sharedHost,
    ...(model !== undefined && { model }),
    ...(operation !== 'chat' && { operation }),
    ...{ from, to },
    requests: of.length,
    examples: of.slice(0, examplesMax).map((each) => each.record.req),
  };
}

/** The largest first. */
function largestFirst<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => readonly string[],
): (readonly [Item, ...Item[]])[] {
  const groups = [...groupBy(items, (item) => JSON.stringify(keyOf(item))).values()];
  return groups.sort((a, b) => b.length - a.length);
}
