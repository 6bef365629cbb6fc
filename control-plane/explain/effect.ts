/**
 * The effect of events before they are written: which answers they turn. Of recorded requests, decided again with the
 * counters as they were, and of each combination of organisation, host and model with empty counters. Reads one snapshot
 * before and after its events, which are undone.
 */
import type { Effect, LoweredLimit, StaticGroup } from '../../schemas/effect.ts';
import type { KnownEvent } from '../../schemas/events.ts';
import type { OperationKind } from '../../schemas/operations.ts';
import {
  type AnswerLabel,
  Answers,
  emptyCounters,
  isRefusedAfter,
  isServed,
} from '../../shared/decision/effect.ts';
import { factsOf, type Question } from '../../shared/decision/question.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import type { EventContext } from '../../shared/snapshot/effect.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { MeantRefusals } from '../commands/event-effects.ts';
import { CommandError } from '../core/command-error.ts';
import { askerId, askersOn, type EffectAsker, sharedHost } from './effect-askers.ts';
import { limitsOn, lowered } from './effect-limits.ts';
import { peaksOf } from './effect-peaks.ts';
import {
  examplesMax,
  type FoundRecorded,
  groupsMax,
  notMeant,
  piecesOf,
  recordedAnswers,
  recordedEffect,
  type TurnedRecord,
  turnedOf,
} from './effect-recorded.ts';
import { groupBy } from './group-by.ts';
import type { SampledDecision } from './sampled.ts';

export interface EffectQuestion {
  readonly events: readonly KnownEvent[];
  readonly by: string;
  readonly nowMs: number;
  /** Of the last hour; undefined: not asked. */
  readonly records?: readonly SampledDecision[] | undefined;
  /** Requests of the busiest minute of the last hour, by organisation; absent: not known. */
  readonly busiest?: ReadonlyMap<string, number> | undefined;
  /** Of these no recorded request is decided: they are meant to be refused. */
  readonly meant?: MeantRefusals | undefined;
  /** Only what concerns this organisation. */
  readonly organisation?: string | undefined;
}

export type FoundEffect = Pick<Effect, 'static' | 'limits'> & {
  readonly recorded?: FoundRecorded;
};

/** In place of a host, where it is more than one stack. */
const severalStacks = 'stacks';

/** Askers that have the same rules as each other, before and after. */
interface AskerClass {
  readonly askers: readonly [EffectAsker, ...EffectAsker[]];
  readonly was: EffectAsker | undefined;
  readonly will: EffectAsker | undefined;
}

interface Combination {
  readonly of: AskerClass;
  readonly model: string;
  readonly operation: OperationKind;
}

type Askers = ReadonlyMap<string, EffectAsker>;

/** What a stack that is not there answers depends on the plan alone, so the rules at the shared host are part of the key. */
function classesOf(was: Askers, will: Askers, organisation: string | undefined): AskerClass[] {
  const all = [...new Map([...will, ...was]).values()];
  const asked = organisation === undefined ? all : all.filter((asker) => asker.organisation === organisation);
  // Rules are texts of JSON, so no two lists of them are one text.
  const rulesOf = (asker: Pick<EffectAsker, 'organisation' | 'host'>): string => {
    const id = askerId(asker);
    return `${was.get(id)?.rules ?? ''}\n${will.get(id)?.rules ?? ''}`;
  };
  const classes = groupBy(asked, (asker) => {
    const { organisation, host } = asker;
    if (host !== sharedHost) return `${rulesOf(asker)}\n${rulesOf({ organisation, host: sharedHost })}`;
    return organisation === undefined ? `visitors\n${rulesOf(asker)}` : rulesOf(asker);
  });
  return [...classes.values()].map((askers) => {
    const id = askerId(askers[0]);
    return { askers, was: was.get(id), will: will.get(id) };
  });
}

/** A stack may change its surface, so a model may be asked in one way before and in another after. */
function* combinationsOf(of: AskerClass): Iterable<Combination> {
  const { was, will } = of;
  const models = new Set([...(was?.models.keys() ?? []), ...(will?.models.keys() ?? [])]);
  for (const model of models) {
    const [before = [], after = []] = [was?.models.get(model), will?.models.get(model)];
    for (const operation of new Set([...before, ...after])) yield { of, model, operation };
  }
}

/** Of the first asker of its class, for all of them. */
function questionFor({ of, model, operation }: Combination, nowMs: number): Question {
  const { organisation, host } = of.askers[0];
  const facts = factsOf({
    operation,
    model,
    promptTokens: 1,
    maxTokens: 1,
    credential: { organisation: organisation ?? '' },
    visitor: organisation === undefined ? 'v-effect' : undefined,
    host: host === sharedHost ? 'shared' : 'stack',
    stack: host === sharedHost ? undefined : host,
  });
  return { facts, counters: emptyCounters, fenced: false, outboxFull: false, nowMs };
}

interface Turned extends Combination {
  readonly from: AnswerLabel;
  readonly to: AnswerLabel;
}

/** What is counted and compared, on the state before and after. */
interface Compared {
  readonly turned: readonly Turned[];
  /** Served before or after, of which `turned` are those with another answer. */
  readonly combinations: number;
  readonly limits: readonly LoweredLimit[];
  readonly recorded?: FoundRecorded;
}

type Previewed = <Result>(read: (db: Database) => Result) => Result;

/** Reads the state after the events; throws CommandError Conflict where one of them does not fit. */
function previewOf(snapshot: Snapshot, { events, by, nowMs }: EffectQuestion): Previewed {
  const context: EventContext = { seq: snapshot.seq + 1, atMs: nowMs, by };
  return (read) =>
    snapshot.stateAt({ kind: 'previewed', events, context }, ({ db }, passedOver) => {
      if (passedOver.length === 0) return read(db);
      throw new CommandError('Conflict', `the state has changed: ${passedOver[0]}`, { next: 'ask again' });
    });
}

/** Each combination that is served before or after, and which of them are answered otherwise after. The state must be the same after each step. */
export function* compareAnswers(snapshot: Snapshot, question: EffectQuestion): Generator<void, Compared> {
  const { nowMs, records, organisation, busiest = new Map() } = question;
  const previewed = previewOf(snapshot, question);
  const was = askersOn(snapshot.db);
  yield;
  const wasLimits = limitsOn(snapshot.db);
  // The state before is read again after this: an asker or a model may be new.
  const will = previewed(askersOn);
  yield;
  const asked = classesOf(was, will, organisation).flatMap((each) => [...combinationsOf(each)]);
  yield;
  const before = new Answers(snapshot.db);
  const from = asked.map((each) => before.of(questionFor(each, nowMs)));
  const peaks = peaksOf(busiest, records ?? []);
  yield;
  const recorded = records && (yield* recordedOn(previewed, before, notMeant(records, question.meant)));
  yield;
  return previewed((db) => {
    const after = new Answers(db);
    const answered = asked
      .map((each, at): Turned => ({ ...each, from: from[at] ?? '', to: after.of(questionFor(each, nowMs)) }))
      .filter((each) => isServed(each.from) || isServed(each.to));
    return {
      turned: answered.filter((each) => each.from !== each.to),
      combinations: countOf(answered),
      limits: lowered(wasLimits, limitsOn(db), { peaks, only: organisation }),
      ...(recorded && { recorded }),
    };
  });
}

function* recordedOn(
  previewed: Previewed,
  before: Answers,
  records: readonly SampledDecision[],
): Generator<void, FoundRecorded> {
  const served = yield* recordedAnswers(before, records);
  const beganMs = performance.now();
  previewed(() => undefined);
  const madeMs = performance.now() - beganMs;
  const turned: TurnedRecord[] = [];
  for (const piece of piecesOf(served, madeMs)) {
    yield;
    turned.push(...previewed((db) => turnedOf(new Answers(db), piece)));
  }
  return recordedEffect(served, turned);
}

function countOf(of: readonly Combination[]): number {
  return of.reduce((sum, { of: { askers } }) => sum + askers.length, 0);
}

/** In steps between which others have their turn. Throws CommandError Conflict where the events do not fit the state any more. */
export function* effectSteps(snapshot: Snapshot, asked: EffectQuestion): Generator<void, FoundEffect> {
  const { turned, combinations, limits, recorded } = yield* compareAnswers(snapshot, asked);
  return { static: staticEffect(turned, combinations), limits: [...limits], ...(recorded && { recorded }) };
}

function staticEffect(turned: readonly Turned[], combinations: number): FoundEffect['static'] {
  const groups = [
    ...groupBy(turned, ({ of: { askers }, model, operation, from, to }) => {
      const [{ organisation, host }] = askers;
      return JSON.stringify([organisation === undefined, host === sharedHost, model, operation, from, to]);
    }).values(),
  ].map(staticGroup);
  groups.sort((a, b) => b.count - a.count);
  return {
    combinations,
    differ: countOf(turned),
    refused: countOf(turned.filter(isRefusedAfter)),
    groups: groups.slice(0, groupsMax),
    ...(groups.length > groupsMax && { more: true as const }),
  };
}

function staticGroup(group: readonly [Turned, ...Turned[]]): StaticGroup {
  const [{ of, model, operation, from, to }] = group;
  const [{ organisation, host }] = of.askers;
  const count = countOf(group);
  const isOne = count === 1 && organisation !== undefined;
  const some = group.flatMap(({ of: { askers } }) => askers.slice(0, examplesMax)).slice(0, examplesMax);
  return {
    ...(isOne && { organisation }),
    host: isOne || host === sharedHost ? host : severalStacks,
    model,
    ...(operation !== 'chat' && { operation }),
    from,
    to,
    count,
    examples: some.map(({ organisation: id = 'visitors', host: at }) =>
      at === sharedHost ? id : `${id} at ${at}`,
    ),
  };
}
