/**
 * Who may give a command, and who may read (Authentication 5). Operators may do everything; a person only what their
 * role in the organisation concerned allows. For a person, what is not there and what is another organisation's are
 * refused alike, so that nobody can learn what others have.
 */
import type { Member } from '../../schemas/admin/admin.ts';
import type { Access } from '../../schemas/admin/admin-row.ts';
import type { Role } from '../../schemas/names.ts';
import { operatorName } from '../../schemas/shapes.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError } from '../core/command-error.ts';
import { findMember, listMemberships } from '../state/tenants.ts';

/** `person` acts as a member; without it, the operator acts. */
export interface Actor {
  readonly person?: string | undefined;
  /** Which of several operators acts, where that is known. Records name it; it gives no rights. */
  readonly operator?: string | undefined;
  /** The only organisation in which the person may act: who gave them the session has no say in others. */
  readonly within?: string | undefined;
  /** Roles that give the actor nothing: who gave them the session could not have given these. */
  readonly exceptRoles?: readonly Role[] | undefined;
}

export const operator: Actor = {};

/** The actor as records name it: `operator`, `operator:ID`, or the person's id, which is never one of them. */
export function actorName({ person, operator: id }: Actor): string {
  return person ?? (id === undefined ? operatorName : `${operatorName}:${id}`);
}

/** In whose name work is counted. Who came by a link of an organisation may be anybody, so they take nothing of the person elsewhere. */
export function callerName({ person, within }: Actor): string {
  return person === undefined ? operatorName : [within, person].join(' ');
}

function covers({ within, exceptRoles = [] }: Actor, { organisation, role }: Member): boolean {
  return (within ?? organisation) === organisation && !exceptRoles.includes(role);
}

/** What a person is a member of, as far as they may act there. */
export function membershipsOf(db: Database, actor: Actor): Member[] {
  const all = actor.person === undefined ? [] : listMemberships(db, actor.person);
  return all.filter((member) => covers(actor, member));
}

/** The role by which a person may act in an organisation. */
export function findRole(db: Database, actor: Actor, organisation: string): Role | undefined {
  const member = actor.person === undefined ? undefined : findMember(db, organisation, actor.person);
  return member && covers(actor, member) ? member.role : undefined;
}

/** Throws CommandError Forbidden unless the actor may. `organisationOf` gives undefined where nothing is there. */
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
    throw new CommandError('Forbidden', `${person} may not do this, or it is not there`, {
      next: `it takes one of the roles ${access.join(', ')} in the organisation concerned`,
    });
}
