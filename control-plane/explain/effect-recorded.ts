/**
 * Decides recorded requests of the last hour again, before and after a change. The records are a sample, so each one
 * represents several requests. `decided` is the number of records; all other counts refer to the represented requests.
 */
import type { Effect, RecordedGroup } from '../../schemas/admin/effect.ts';
import type { OperationKind } from '../../schemas/api/operations.ts';
import type { MeantRefusals } from '../commands/event-effects.ts';
import { type AnswerLabel, type Answers, isRefusedAfter, isServed } from './answer-labels.ts';
import { type Question, questionFromRecord } from './question.ts';
import type { SampledDecision, SampledRecord } from './sampled.ts';

const sharedHost = 'shared';
/** Maximum number of groups in a response. `examplesMax` limits the example ids in each group. */
const groupsMax = 200;
const examplesMax = 5;

export type RecordedEffect = Omit<
  NonNullable<Effect['recorded']>,
  'since' | 'gatewaysSilent' | 'gatewaysUnseen'
>;

/** Requests of one kind that are served before the change. */
export interface ServedRequests {
  /** Organisation that made the requests. Absent for visitors. */
  readonly organisation?: string | undefined;
  readonly stack?: string | undefined;
  readonly model?: string | undefined;
  readonly operation: OperationKind;
  readonly requests: number;
  /** Id of one of the requests. Absent if they are known only from traffic reports. */
  readonly req?: string | undefined;
  readonly question: Question;
  readonly from: AnswerLabel;
}

export interface TurnedRequests extends ServedRequests {
  readonly to: AnswerLabel;
}

/** Omits callers that the command intends to refuse. Traffic reports name no keys, so only their organisations are checked. */
export function notMeant<Reported extends { readonly organisation: string }>(
  records: readonly SampledDecision[],
  reported: readonly Reported[],
  { organisations, keys }: MeantRefusals = { organisations: [], keys: [] },
) {
  const meant = [new Set(organisations), new Set(keys)] as const;
  return {
    records: records.filter(
      ({ record: { organisation = '', key = '' } }) => !meant[0].has(organisation) && !meant[1].has(key),
    ),
    reported: reported.filter(({ organisation }) => !meant[0].has(organisation)),
  };
}

/** Returns the recorded requests that are served before the change. The change cannot cause the refusal of any others. */
export function* recordedAnswers(
  before: Answers,
  records: readonly SampledDecision[],
): Generator<void, ServedRequests[]> {
  const found: ServedRequests[] = [];
  for (const [at, { record, requests }] of records.entries()) {
    if (at % pieceMin === 0) yield;
    if (!isDecidedByRules(record) || isOfNobody(record)) continue;
    const question = questionFromRecord(record);
    const from = before.of(question);
    const { organisation, stack, model, operation, req } = record;
    if (isServed(from)) found.push({ organisation, stack, model, operation, req, requests, question, from });
  }
  return found;
}

/** Minimum number of requests decided in one turn of the event loop. Other callers hardly notice so few. */
const pieceMin = 500;
/** Maximum total time in ms for rebuilding the changed state, which happens once per piece. */
const remadeMsMax = 300;

/** Splits requests into pieces. `madeMs` is the time for rebuilding the changed state, which each piece needs. */
export function* splitIntoPieces(
  served: readonly ServedRequests[],
  madeMs: number,
): Iterable<readonly ServedRequests[]> {
  const piecesMax = Math.max(1, Math.floor(remadeMsMax / Math.max(1, madeMs)));
  const size = Math.max(pieceMin, Math.ceil(served.length / piecesMax));
  for (let from = 0; from < served.length; from += size) yield served.slice(from, from + size);
}

/** Decides requests on the state after the change and returns those with a different answer. */
export function findTurnedRequests(after: Answers, served: readonly ServedRequests[]): TurnedRequests[] {
  const turned: TurnedRequests[] = [];
  for (const each of served) {
    const to = after.of(each.question);
    if (to !== each.from) turned.push({ ...each, to });
  }
  return turned;
}

/** Whether rules alone decided the request. If not, a change to the rules cannot change its outcome. */
function isDecidedByRules({ stage }: SampledRecord): boolean {
  return stage === 'admission' || stage === 'answer';
}

/** Whether the caller is unknown. Anyone can send many such requests, to hide the real ones that a change would refuse. */
function isOfNobody({ key, organisation, visitor }: SampledRecord): boolean {
  return (key ?? organisation ?? visitor) === undefined;
}

export function recordedEffect(
  served: readonly ServedRequests[],
  turned: readonly TurnedRequests[],
): RecordedEffect {
  const byKind = groupBy(turned, ({ organisation, stack, model, operation, from, to }) =>
    JSON.stringify([organisation, stack, model, operation, from, to]),
  );
  const groups = [...byKind.values()].map(recordedGroup).sort((a, b) => b.requests - a.requests);
  return {
    decided: served.length,
    asked: sumRequests(served),
    differ: sumRequests(turned),
    refused: sumRequests(turned.filter(isRefusedAfter)),
    lost: findLostOrganisations(served, turned),
    groups: groups.slice(0, groupsMax),
    ...(groups.length > groupsMax && { more: true as const }),
  };
}

/** Lists organisations whose requests are served before the change and all refused after it. */
function findLostOrganisations(
  served: readonly ServedRequests[],
  turned: readonly TurnedRequests[],
): string[] {
  const countOf = (of: readonly ServedRequests[]): ReadonlyMap<string, number> =>
    new Map(
      [...groupBy(of, ({ organisation = '' }) => organisation)].map(([name, own]) => [name, own.length]),
    );
  const refused = countOf(turned.filter(isRefusedAfter));
  return [...countOf(served)]
    .filter(([organisation, count]) => organisation !== '' && refused.get(organisation) === count)
    .map(([organisation]) => organisation)
    .sort();
}

function sumRequests(of: readonly ServedRequests[]): number {
  return Math.round(of.reduce((sum, { requests }) => sum + requests, 0));
}

function recordedGroup(of: readonly [TurnedRequests, ...TurnedRequests[]]): RecordedGroup {
  const [{ organisation, stack, model, operation, from, to }] = of;
  return {
    ...(organisation !== undefined && { organisation }),
    host: stack ?? sharedHost,
    ...(model !== undefined && { model }),
    ...(operation !== 'chat' && { operation }),
    ...{ from, to },
    requests: sumRequests(of),
    examples: of.flatMap(({ req }) => req ?? []).slice(0, examplesMax),
  };
}

/** Groups items by key, in order of each key's first occurrence. */
function groupBy<Item>(
  items: Iterable<Item>,
  keyOf: (item: Item) => string,
): ReadonlyMap<string, readonly [Item, ...Item[]]> {
  const groups = new Map<string, [Item, ...Item[]]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
