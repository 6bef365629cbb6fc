/**
 * Protects owners. Only an owner may change owners, and the last one cannot be removed, except by an operator who uses force.
 */
import type { KnownEvent } from '../../schemas/events/events.ts';
import type { Role } from '../../schemas/names.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError } from '../core/command-error.ts';
import { findMember, listMembers } from '../state/tenants.ts';
import { type Actor, findRole } from './authorise.ts';

interface OwnershipChange {
  readonly organisation: string;
  readonly person: string;
  /** New role, or undefined if the person leaves the organisation. */
  readonly role: Role | undefined;
}

function listOwnershipChanges(events: readonly KnownEvent[]): OwnershipChange[] {
  return events.flatMap(({ type, data }): OwnershipChange[] => {
    if (type === 'member.set') return [{ ...data }];
    return type === 'member.removed' ? [{ ...data, role: undefined }] : [];
  });
}

/** Throws `CommandError` if the events change owners in a way that is not allowed for this actor. */
export function* checkOwners(
  db: Database,
  actor: Actor,
  events: readonly KnownEvent[],
  force = false,
): Generator<void, void> {
  const changes = listOwnershipChanges(events);
  if (changes.length === 0) return;
  if (actor.person !== undefined) checkActor(db, actor, changes);
  const removed = new Set(
    events.flatMap(({ type, data }) => (type === 'organisation.removed' ? data.id : [])),
  );
  for (const [organisation, theirs] of byOrganisation(changes)) {
    yield;
    if (removed.has(organisation) || !losesLastOwner(db, organisation, theirs)) continue;
    if (actor.person !== undefined)
      throw new CommandError('Forbidden', `${organisation} must keep its last owner`, {
        next: 'make another person an owner first',
      });
    if (!force)
      throw new CommandError('GuardRefused', `this would leave ${organisation} without an owner`, {
        next: 'make another person an owner first, or repeat it with force',
      });
  }
}

function checkActor(db: Database, actor: Actor, changes: readonly OwnershipChange[]): void {
  for (const change of changes) {
    const touchesOwner =
      change.role === 'owner' || findMember(db, change.organisation, change.person)?.role === 'owner';
    if (touchesOwner && findRole(db, actor, change.organisation) !== 'owner')
      throw new CommandError('Forbidden', `${actor.person} may not make, change or remove an owner`, {
        next: 'act as an owner of the organisation',
      });
  }
}

function byOrganisation(changes: readonly OwnershipChange[]): Map<string, OwnershipChange[]> {
  const groups = new Map<string, OwnershipChange[]>();
  for (const change of changes) {
    const group = groups.get(change.organisation);
    if (group) group.push(change);
    else groups.set(change.organisation, [change]);
  }
  return groups;
}

function losesLastOwner(db: Database, organisation: string, changes: readonly OwnershipChange[]): boolean {
  const owners = new Set(
    listMembers(db, organisation)
      .filter(({ role }) => role === 'owner')
      .map(({ person }) => person),
  );
  if (owners.size === 0) return false;
  for (const { person, role } of changes) {
    if (role === 'owner') owners.add(person);
    else owners.delete(person);
  }
  return owners.size === 0;
}
