/** Tells how events affect requests. The effect guard uses this to decide what to compute and when to compute it again. */
import type { EventTypeName } from '../../schemas/events/event-definitions.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { type AnswerEffect, countedEvents } from './counted-events.ts';

export function effectOfEvent(type: EventTypeName): AnswerEffect {
  return countedEvents[type].answers;
}

/** Whether events of this type can change a request's outcome. True for types that this build does not know. */
export function mayTurnAnswers(type: string): boolean {
  return !Object.hasOwn(countedEvents, type) || effectOfEvent(type as EventTypeName) !== 'nothing';
}

/** Whether the events may cause refusals for callers that they do not name. */
export function mayRefuse(events: readonly KnownEvent[]): boolean {
  return events.some(({ type }) => effectOfEvent(type) === 'refuses');
}

/** Callers whose requests the command intends to refuse. */
export interface MeantRefusals {
  readonly organisations: readonly string[];
  readonly keys: readonly string[];
}

export function intendedRefusals(events: readonly KnownEvent[]): MeantRefusals {
  const organisations: string[] = [];
  const keys: string[] = [];
  for (const { type, data } of events)
    if (type === 'key.revoked') keys.push(data.id);
    else if (type === 'organisation.removed' || type === 'organisation.suspended')
      organisations.push(data.id);
  return { organisations, keys };
}
