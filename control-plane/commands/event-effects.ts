/** What each event can do to the answers of requests: by it the guard on effect knows what it works out, and when that still holds. */
import type { EventTypeName } from '../../schemas/event-definitions.ts';
import type { KnownEvent } from '../../schemas/events.ts';

/**
 * `nothing`: no request is answered otherwise. `serves`: some that were refused are served, or it follows from what nodes do.
 * `refuses`: some that were served may be refused. `counts`: the same, by counters alone, which are empty where combinations are
 * decided. `meant`: it refuses those whom it names, which is what it is for.
 */
type EventEffect = 'nothing' | 'serves' | 'refuses' | 'counts' | 'meant';

const effects: Readonly<Record<EventTypeName, EventEffect>> = {
  'log.created': 'nothing',
  'log.signers_set': 'nothing',
  'tier.set': 'refuses',
  'tier.removed': 'refuses',
  'anonymous.set': 'refuses',
  'bounds.set': 'nothing',
  'model.set': 'counts',
  'model.removed': 'refuses',
  'organisation.set': 'refuses',
  'organisation.suspended': 'meant',
  'organisation.removed': 'meant',
  'member.set': 'nothing',
  'member.removed': 'nothing',
  'key.created': 'nothing',
  'key.revoked': 'meant',
  'key.forgotten': 'nothing',
  'usage.adjusted': 'counts',
  'stack.created': 'nothing',
  'stack.surface_set': 'refuses',
  'stack.removed': 'refuses',
  'stack.model_installed': 'serves',
  'stack.model_uninstalled': 'refuses',
  'pool.model_installed': 'serves',
  'pool.model_uninstalled': 'refuses',
  'node.registered': 'refuses',
  'node.drained': 'refuses',
  'node.undrained': 'serves',
  'node.removed': 'refuses',
  'node.token_created': 'nothing',
  'node.token_revoked': 'nothing',
  'node.joined': 'serves',
  'node.health_changed': 'serves',
  'session.ended': 'nothing',
  // What it refuses is watched, or is decided by the events that follow its end.
  'change.staged': 'nothing',
  'change.advanced': 'serves',
  'change.withdrawn': 'serves',
  'change.completed': 'serves',
  checkpoint: 'nothing',
  no_op: 'nothing',
};

export function effectOfEvent(type: EventTypeName): EventEffect {
  return effects[type];
}

/** Of a type that this build does not know, too. */
export function mayTurnAnswers(type: string): boolean {
  return !Object.hasOwn(effects, type) || effects[type as EventTypeName] !== 'nothing';
}

/** Whether they may refuse somebody whom they do not name. */
export function mayRefuse(events: readonly KnownEvent[]): boolean {
  return events.some(({ type }) => effects[type] === 'refuses' || effects[type] === 'counts');
}

/** Whose requests are meant to be refused. */
export interface MeantRefusals {
  readonly organisations: readonly string[];
  readonly keys: readonly string[];
}

export function meantBy(events: readonly KnownEvent[]): MeantRefusals {
  const organisations: string[] = [];
  const keys: string[] = [];
  for (const { type, data } of events)
    if (type === 'key.revoked') keys.push(data.id);
    else if (type === 'organisation.removed' || type === 'organisation.suspended')
      organisations.push(data.id);
  return { organisations, keys };
}
