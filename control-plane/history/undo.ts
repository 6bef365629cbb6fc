/** The commands that take a commit back: where each of its events has an inverse, and nothing that it set has changed since. */
import type { CommandName, InputOf } from '../../schemas/admin.ts';
import type { EventTypeName } from '../../schemas/event-definitions.ts';
import { type EventData, type KnownEvent, readEvent, type StoredEvent } from '../../schemas/events.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError } from '../core/command-error.ts';
import { findNode, findPool, findStack, findToken } from '../state/capacity.ts';
import { findAnonymous, findBoundsSet, findModel, findTier } from '../state/catalog.ts';
import { findKey, findMember, findOrganisation } from '../state/tenants.ts';

export interface UndoCommand {
  readonly name: CommandName;
  readonly input: object;
}

/**
 * The inverse of a commit, for as long as what the commit set is as the commit left it. It depends on the past alone, so it is
 * found once, and the present is only compared with it. Plain data, which crosses threads.
 */
export interface CommitInverse {
  /** In the order in which they are to be sent. */
  readonly commands: readonly UndoCommand[];
  /** What each event was about, right after the commit; JSON. */
  readonly subjects: readonly { readonly event: StoredEvent; readonly was: string | undefined }[];
}

interface Inverse<Data> {
  /** What the event is about; it must be now as it was after the event. */
  subject(db: Database, data: Data): unknown;
  /** A text: why there is none. */
  command(before: Database, data: Data): UndoCommand | string;
}

/** Of the states around the commit. Throws CommandError Conflict, with the reason, where an event has no inverse. */
export function inverseOfCommit(
  events: readonly StoredEvent[],
  states: { readonly before: Database; readonly after: Database },
  position: number,
): CommitInverse {
  if (events.length === 0) throw noInverse(position, 'it has no events');
  const commands = new Map<string, UndoCommand>();
  const subjects: CommitInverse['subjects'][number][] = [];
  // The last one first: what an event made may be what a later one is about.
  for (const event of events.toReversed()) {
    const refused = (reason: string) => noInverse(position, reason, events.length > 1 ? event : undefined);
    const inverse = inverseOrReason(event);
    if (typeof inverse === 'string') throw refused(inverse);
    const command = inverse.command(states.before);
    if (typeof command === 'string') throw refused(command);
    subjects.push({ event, was: JSON.stringify(inverse.subject(states.after)) });
    // Two events of one subject have one inverse: what was before both.
    commands.set(JSON.stringify(command), command);
  }
  return { commands: [...commands.values()], subjects };
}

/** Throws CommandError Conflict where what the commit set has changed since. */
export function checkUnchanged({ subjects }: CommitInverse, now: Database, position: number): void {
  for (const { event, was } of subjects) {
    const inverse = inverseOrReason(event);
    if (typeof inverse !== 'string' && JSON.stringify(inverse.subject(now)) === was) continue;
    throw noInverse(position, 'what it set has changed since', subjects.length > 1 ? event : undefined);
  }
}

/** `of`: the event that it is about, where the commit has several. */
function noInverse(position: number, reason: string, of?: StoredEvent): CommandError {
  const why = of === undefined ? reason : `${of.type}: ${reason}`;
  return new CommandError('Conflict', `commit ${position} has no inverse: ${why}`, {
    next: `headgate export --at ${Math.max(1, position - 1)} shows the fleet before it, which can be applied`,
  });
}

interface InverseOfEvent {
  subject(db: Database): unknown;
  command(before: Database): UndoCommand | string;
}

/** A text: why there is none. */
function inverseOrReason(stored: StoredEvent): InverseOfEvent | string {
  const read = readEvent(stored);
  if (read.outcome !== 'known') return 'this build does not know its event';
  const { type, data } = read.event;
  const ofAll: Readonly<Record<EventTypeName, Inverse<KnownEvent['data']> | string | undefined>> = inverses;
  const inverse = ofAll[type] ?? `${type} cannot be taken back`;
  if (typeof inverse === 'string') return inverse;
  return {
    subject: (db) => inverse.subject(db, data),
    command: (before) => inverse.command(before, data),
  };
}

function undo<Name extends CommandName>(name: Name, input: InputOf<Name>): UndoCommand {
  return { name, input };
}

const noReport = 'it is a report, which the next report replaces';

function installed(name: 'pool.install' | 'pool.uninstall'): Inverse<EventData<'pool.model_installed'>> {
  return {
    subject: (db, { model }) => findPool(db).models.includes(model),
    command: (_before, { model }) => undo(name, { model }),
  };
}

function installedOn(name: 'stack.install' | 'stack.uninstall'): Inverse<EventData<'stack.model_installed'>> {
  return {
    subject: (db, { stack, model }) => findStack(db, stack)?.models.includes(model),
    command: (_before, { stack: id, model }) => undo(name, { id, model }),
  };
}

function draining(name: 'node.drain' | 'node.undrain'): Inverse<{ readonly id: string }> {
  return {
    subject: (db, { id }) => findNode(db, id)?.drained,
    command: (_before, { id }) => undo(name, { id }),
  };
}

/** A node as it was registered. */
function registration(db: Database, id: string): InputOf<'node.register'> | undefined {
  const node = findNode(db, id);
  if (!node) return undefined;
  const { place, url, dialect, credential, models, agent } = node;
  return { id, place, url, dialect, credential, models, agent };
}

const member: Inverse<EventData<'member.removed'>> = {
  subject: (db, { organisation, person }) => findMember(db, organisation, person),
  command: (before, { organisation: id, person }) => {
    const role = findMember(before, id, person)?.role;
    return role ? undo('member.set', { id, person, role }) : undo('member.remove', { id, person });
  },
};

const tier: Inverse<{ readonly id: string }> = {
  subject: (db, { id }) => findTier(db, id),
  command: (before, { id }) => {
    const was = findTier(before, id);
    return was ? undo('tier.set', was) : undo('tier.delete', { id });
  },
};

const model: Inverse<{ readonly id: string }> = {
  subject: (db, { id }) => findModel(db, id),
  command: (before, { id }) => {
    const was = findModel(before, id);
    return was ? undo('model.set', was) : undo('model.delete', { id });
  },
};

/** Of each event, or why there is none. */
const inverses: {
  readonly [Name in EventTypeName]: Inverse<EventData<Name>> | string | undefined;
} = {
  'log.created': undefined,
  'log.signers_set': undefined,
  checkpoint: undefined,
  'session.ended': undefined,
  no_op: undefined,
  'node.joined': noReport,
  'node.health_changed': noReport,
  'pool.model_installed': installed('pool.uninstall'),
  'pool.model_uninstalled': installed('pool.install'),
  'stack.model_installed': installedOn('stack.uninstall'),
  'stack.model_uninstalled': installedOn('stack.install'),
  'stack.surface_set': {
    subject: (db, { id }) => findStack(db, id)?.surface,
    command: (before, { id }) => {
      const surface = findStack(before, id)?.surface;
      return surface ? undo('stack.set-surface', { id, surface }) : 'there was no such stack';
    },
  },
  'stack.created': {
    subject: (db, { id }) => findStack(db, id),
    command: (_before, { id }) => undo('stack.delete', { id }),
  },
  'stack.removed': 'its nodes and models went with it; apply the fleet file of the position before',
  'node.drained': draining('node.undrain'),
  'node.undrained': draining('node.drain'),
  'node.registered': {
    subject: (db, { id }) => registration(db, id),
    command: (before, { id }) => {
      const was = registration(before, id);
      return was ? undo('node.register', was) : undo('node.delete', { id });
    },
  },
  'node.removed': {
    subject: (db, { id }) => registration(db, id),
    command: (before, { id }) => {
      const was = registration(before, id);
      if (was?.agent) return 'the tokens of its agent went with it; register it again';
      return was ? undo('node.register', was) : 'there was no such node';
    },
  },
  'node.token_created': {
    subject: (db, { id }) => findToken(db, id)?.state,
    command: (_before, { id }) => undo('node-token.revoke', { id }),
  },
  'node.token_revoked': 'a revoked token stays revoked; create another',
  'key.created': {
    subject: (db, { id }) => findKey(db, id, 0)?.state,
    command: (_before, { id }) => undo('key.revoke', { id }),
  },
  'key.revoked': 'a revoked key stays revoked; create another',
  'organisation.set': {
    subject: (db, { id }) => ({ ...findOrganisation(db, id), suspended: undefined }),
    command: (before, { id }) => {
      const was = findOrganisation(before, id);
      if (!was) return undo('organisation.delete', { id });
      return undo('organisation.update', { id, name: was.name, tier: was.tier, anchor: was.anchor });
    },
  },
  'organisation.suspended': {
    subject: (db, { id }) => findOrganisation(db, id)?.suspended,
    command: (before, { id }) =>
      undo('organisation.update', { id, suspended: findOrganisation(before, id)?.suspended ?? false }),
  },
  'organisation.removed': 'its keys, stacks and nodes went with it',
  'member.set': member,
  'member.removed': member,
  'tier.set': tier,
  'tier.removed': tier,
  'model.set': model,
  'model.removed': model,
  'anonymous.set': {
    subject: findAnonymous,
    command: (before) => {
      const was = findAnonymous(before);
      return was ? undo('anonymous.set', was) : 'visitors had no limits before, and cannot have none again';
    },
  },
  'bounds.set': {
    subject: findBoundsSet,
    command: (before) => undo('bounds.set', { ...findBoundsSet(before) }),
  },
  'usage.adjusted': 'adjust the usage again, by the opposite number',
};
