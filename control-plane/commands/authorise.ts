/**
 * Decides who may run a command and who may read (Authentication 5). A person gets the same refusal for a missing resource
 * and for one that belongs to another organisation, so nobody can learn what other organisations have.
 */
import type { Member } from '../../schemas/admin/admin.ts';
import type { Access } from '../../schemas/admin/admin-row.ts';
import type { Role } from '../../schemas/names.ts';
import { operatorName } from '../../schemas/shapes.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError } from '../core/command-error.ts';
import { findMember, listMemberships } from '../state/tenants.ts';

/** Caller of a command: a member, identified by `person`, or an operator if `person` is undefined. */
export interface Actor {
  readonly person?: string | undefined;
  /** The operator's id, if known. The log records it as an author, but it grants no rights. */
  readonly operator?: string | undefined;
  /** If set, the only organisation in which the person may act, because the session's issuer has no authority over others. */
  readonly within?: string | undefined;
  /** Roles that give the person no rights in this session, because the session's issuer could not have granted them. */
  readonly exceptRoles?: readonly Role[] | undefined;
}

export const operator: Actor = {};

/** Returns the actor's name in the log: `operator`, `operator:ID`, or a person's id, which never looks like the other two. */
export function actorName({ person, operator: id }: Actor): string {
  return person ?? (id === undefined ? operatorName : `${operatorName}:${id}`);
}

/** Returns the name under which limits count a caller's work. A session from an organisation's link counts separately. */
export function callerName({ person, within }: Actor): string {
  return person === undefined ? operatorName : [within, person].join(' ');
}

function covers({ within, exceptRoles = [] }: Actor, { organisation, role }: Member): boolean {
  return (within ?? organisation) === organisation && !exceptRoles.includes(role);
}

/** Lists the person's memberships in organisations where this actor may act. */
export function membershipsOf(db: Database, actor: Actor): Member[] {
  const all = actor.person === undefined ? [] : listMemberships(db, actor.person);
  return all.filter((member) => covers(actor, member));
}

/** Returns the role with which the actor may act in the organisation, or undefined if the actor may not act there. */
export function findRole(db: Database, actor: Actor, organisation: string): Role | undefined {
  const member = actor.person === undefined ? undefined : findMember(db, organisation, actor.person);
  return member && covers(actor, member) ? member.role : undefined;
}

/** Throws `Forbidden` unless the actor may act in the resource's organisation, which is undefined if there is no resource. */
export function authorise(
  db: Database,
  actor: Actor,
  access: Access,
  findOrganisation: () => string | undefined,
): void {
  const { person } = actor;
  if (person === undefined) return;
  if (typeof access === 'string')
    throw new CommandError('Forbidden', 'only operators may do this', { next: 'act as the operator' });
  const organisation = findOrganisation();
  const role = organisation === undefined ? undefined : findRole(db, actor, organisation);
  if (role === undefined || !access.includes(role))
    throw new CommandError('Forbidden', `${person} may not do this, or it does not exist`, {
      next: `ask an owner of the organisation for one of these roles: ${access.join(', ')}`,
    });
}
