/**
 * Finds out how a list of events would change the outcomes of requests. It decides the last hour's requests again, with and
 * without the events. Recorded requests are decided with their recorded counter values. The events are applied to a snapshot
 * and then undone.
 */
import type { Effect } from '../../schemas/admin/effect.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import type { EventContext } from '../../shared/snapshot/effect.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import type { MeantRefusals } from '../commands/event-effects.ts';
import { CommandError } from '../core/command-error.ts';
import { Answers } from './answer-labels.ts';
import { findLoweredLimits, readLimits } from './effect-limits.ts';
import { computePeaks } from './effect-peaks.ts';
import {
  findTurnedRequests,
  notMeant,
  type RecordedEffect,
  recordedAnswers,
  recordedEffect,
  splitIntoPieces,
  type TurnedRequests,
} from './effect-recorded.ts';
import { type ReportedRequests, reportedAnswers } from './effect-reported.ts';
import type { SampledDecision } from './sampled.ts';

export interface EffectQuestion {
  readonly events: readonly KnownEvent[];
  readonly by: string;
  readonly nowMs: number;
  /** Recorded decisions of the last hour, or undefined if the gateways were not asked. */
  readonly records?: readonly SampledDecision[] | undefined;
  /** Requests of the last hour that are known only from the gateways' traffic reports. */
  readonly reported?: readonly ReportedRequests[] | undefined;
  /** Number of requests in the busiest minute of the last hour, by organisation. Absent if unknown. */
  readonly busiest?: ReadonlyMap<string, number> | undefined;
  /** Callers whose requests the command intends to refuse. Their requests are omitted. */
  readonly meant?: MeantRefusals | undefined;
  /** If set, only this organisation's limits are compared. */
  readonly organisation?: string | undefined;
}

export type FoundEffect = Pick<Effect, 'limits'> & { readonly recorded?: RecordedEffect };

type PreviewReader = <Result>(read: (db: Database) => Result) => Result;

/** Returns a function that reads the state after the events, or throws a `Conflict` error if an event does not apply. */
export function previewEvents(
  snapshot: Snapshot,
  { events, by, nowMs }: Pick<EffectQuestion, 'events' | 'by' | 'nowMs'>,
): PreviewReader {
  const context: EventContext = { seq: snapshot.seq + 1, atMs: nowMs, by };
  return (read) =>
    snapshot.stateAt({ kind: 'previewed', events, context }, ({ db }, passedOver) => {
      if (passedOver.length === 0) return read(db);
      throw new CommandError('Conflict', `the state has changed: ${passedOver[0]}`, { next: 'ask again' });
    });
}

/** Computes the effect in steps. The state must not change between them. Throws `Conflict` if an event does not apply. */
export function* effectSteps(snapshot: Snapshot, question: EffectQuestion): Generator<void, FoundEffect> {
  const { records, organisation, busiest = new Map() } = question;
  const previewed = previewEvents(snapshot, question);
  const wasLimits = readLimits(snapshot.db);
  const peaks = computePeaks(busiest, records ?? []);
  yield;
  const limits = previewed((db) =>
    findLoweredLimits(wasLimits, readLimits(db), { peaks, only: organisation }),
  );
  if (records === undefined) return { limits };
  yield;
  return { limits, recorded: yield* recordedSteps(snapshot, previewed, { ...question, records }) };
}

function* recordedSteps(
  { db }: Snapshot,
  previewed: PreviewReader,
  { records, reported = [], meant, nowMs }: EffectQuestion & { readonly records: readonly SampledDecision[] },
): Generator<void, RecordedEffect> {
  const before = new Answers(db);
  const asked = notMeant(records, reported, meant);
  const served = [
    ...(yield* recordedAnswers(before, asked.records)),
    ...reportedAnswers(before, asked.reported, nowMs),
  ];
  const beganMs = performance.now();
  previewed(() => undefined);
  const madeMs = performance.now() - beganMs;
  const turned: TurnedRequests[] = [];
  for (const piece of splitIntoPieces(served, madeMs)) {
    yield;
    turned.push(...previewed((after) => findTurnedRequests(new Answers(after), piece)));
  }
  return recordedEffect(served, turned);
}
