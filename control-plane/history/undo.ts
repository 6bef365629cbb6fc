/** The commands that take a commit back: where each of its events has an inverse, and nothing that it set has changed since. */
import { type KnownEvent, readEvent, type StoredEvent } from '../../schemas/events.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError } from '../core/command-error.ts';
import { findNode, findPool, findStack, findToken } from '../state/capacity.ts';
import { findAnonymous, findBoundsSet, findModel, findTier } from '../state/catalog.ts';
import { findKey, findMember, findOrganisation } from '../state/tenants.ts';

export interface UndoCommand {
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: Record<string, unknown>;
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

interface Inverse {
  /** What the event is about; it must be now as it was after the event. */
  subject(db: Database): unknown;
  /** A text: why there is none. */
  command(before: Database): UndoCommand | string;
}

const part = encodeURIComponent;
const noReport = 'it is a report, which the next report replaces';
const reasons: Readonly<Record<string, string>> = {
  'organisation.removed': 'its keys, stacks and nodes went with it',
  'stack.removed': 'its nodes and models went with it; apply the fleet file of the position before',
  'key.revoked': 'a revoked key stays revoked; create another',
  'node.token_revoked': 'a revoked token stays revoked; create another',
  'usage.adjusted': 'adjust the usage again, by the opposite number',
  'node.joined': noReport,
  'node.health_changed': noReport,
};

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

/** A text: why there is none. */
function inverseOrReason(stored: StoredEvent): Inverse | string {
  const read = readEvent(stored);
  if (read.outcome !== 'known') return 'this build does not know its event';
  return inverseOf(read.event) ?? reasons[stored.type] ?? `${stored.type} cannot be taken back`;
}

function inverseOf(event: KnownEvent): Inverse | undefined {
  return (
    inverseOfCapacity(event) ?? inverseOfNode(event) ?? inverseOfTenants(event) ?? inverseOfCatalog(event)
  );
}

function inverseOfCapacity({ type, data }: KnownEvent): Inverse | undefined {
  switch (type) {
    case 'pool.model_installed':
    case 'pool.model_uninstalled': {
      const method = type === 'pool.model_installed' ? 'DELETE' : 'PUT';
      return {
        subject: (db) => findPool(db).models.includes(data.model),
        command: () => ({ method, path: `/pool/models/${part(data.model)}` }),
      };
    }
    case 'stack.model_installed':
    case 'stack.model_uninstalled': {
      const method = type === 'stack.model_installed' ? 'DELETE' : 'PUT';
      return {
        subject: (db) => findStack(db, data.stack)?.models.includes(data.model),
        command: () => ({ method, path: `/stacks/${part(data.stack)}/models/${part(data.model)}` }),
      };
    }
    case 'stack.surface_set':
      return {
        subject: (db) => findStack(db, data.id)?.surface,
        command: (before) => ({
          method: 'PUT',
          path: `/stacks/${part(data.id)}/surface`,
          body: { surface: findStack(before, data.id)?.surface },
        }),
      };
    case 'stack.created':
      return {
        subject: (db) => findStack(db, data.id),
        command: () => ({ method: 'DELETE', path: `/stacks/${part(data.id)}` }),
      };
    default:
      return undefined;
  }
}

/** A node as it was registered. */
function registration(db: Database, id: string): Record<string, unknown> | undefined {
  const node = findNode(db, id);
  if (!node) return undefined;
  const { place, url, dialect, credential, models, agent } = node;
  return { id, place, url, dialect, credential, models, agent };
}

function inverseOfNode({ type, data }: KnownEvent): Inverse | undefined {
  switch (type) {
    case 'node.drained':
    case 'node.undrained': {
      const verb = type === 'node.drained' ? 'undrain' : 'drain';
      return {
        subject: (db) => findNode(db, data.id)?.drained,
        command: () => ({ method: 'POST', path: `/nodes/${part(data.id)}/${verb}` }),
      };
    }
    case 'node.registered':
      return {
        subject: (db) => registration(db, data.id),
        command: (before) => {
          const body = registration(before, data.id);
          return body
            ? { method: 'POST', path: '/nodes', body }
            : { method: 'DELETE', path: `/nodes/${part(data.id)}` };
        },
      };
    case 'node.removed':
      return {
        subject: (db) => registration(db, data.id),
        command: (before) => {
          const body = registration(before, data.id);
          if (findNode(before, data.id)?.agent)
            return 'the tokens of its agent went with it; register it again';
          return body ? { method: 'POST', path: '/nodes', body } : 'there was no such node';
        },
      };
    case 'node.token_created':
      return {
        subject: (db) => findToken(db, data.id)?.state,
        command: () => ({ method: 'POST', path: `/tokens/${part(data.id)}/revoke` }),
      };
    default:
      return undefined;
  }
}

function inverseOfTenants({ type, data }: KnownEvent): Inverse | undefined {
  switch (type) {
    case 'key.created':
      return {
        subject: (db) => findKey(db, data.id, 0)?.state,
        command: () => ({ method: 'POST', path: `/keys/${part(data.id)}/revoke` }),
      };
    case 'organisation.set':
      return {
        subject: (db) => ({ ...findOrganisation(db, data.id), suspended: undefined }),
        command: (before) => {
          const was = findOrganisation(before, data.id);
          const path = `/organisations/${part(data.id)}`;
          if (!was) return { method: 'DELETE', path };
          return { method: 'PATCH', path, body: { name: was.name, tier: was.tier, anchor: was.anchor } };
        },
      };
    case 'organisation.suspended':
      return {
        subject: (db) => findOrganisation(db, data.id)?.suspended,
        command: (before) => ({
          method: 'PATCH',
          path: `/organisations/${part(data.id)}`,
          body: { suspended: findOrganisation(before, data.id)?.suspended ?? false },
        }),
      };
    case 'member.set':
    case 'member.removed':
      return {
        subject: (db) => findMember(db, data.organisation, data.person),
        command: (before) => {
          const was = findMember(before, data.organisation, data.person);
          const path = `/organisations/${part(data.organisation)}/members/${part(data.person)}`;
          return was ? { method: 'PUT', path, body: { role: was.role } } : { method: 'DELETE', path };
        },
      };
    default:
      return undefined;
  }
}

function inverseOfCatalog({ type, data }: KnownEvent): Inverse | undefined {
  switch (type) {
    case 'tier.set':
    case 'tier.removed':
      return putOrDelete(`/tiers/${part(data.id)}`, (db) => findTier(db, data.id));
    case 'model.set':
    case 'model.removed':
      return putOrDelete(`/models/${part(data.id)}`, (db) => findModel(db, data.id));
    case 'anonymous.set':
      return {
        subject: findAnonymous,
        command: (before) => {
          const body = findAnonymous(before);
          return body
            ? { method: 'PUT', path: '/anonymous', body: { ...body } }
            : 'visitors had no limits before, and cannot have none again';
        },
      };
    case 'bounds.set':
      return {
        subject: findBoundsSet,
        command: (before) => ({ method: 'PUT', path: '/bounds', body: { ...findBoundsSet(before) } }),
      };
    default:
      return undefined;
  }
}

function putOrDelete(path: string, find: (db: Database) => object | undefined): Inverse {
  return {
    subject: find,
    command: (before) => {
      const was = find(before);
      if (!was) return { method: 'DELETE', path };
      const { id: _id, ...body } = was as { readonly id: string };
      return { method: 'PUT', path, body };
    },
  };
}
