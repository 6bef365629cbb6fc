/**
 * Who may give a command, and who may read (Authentication 5). Operators may do everything; a person only what their
 * role in the organisation concerned allows. For a person, what is not there and what is another organisation's are
 * refused alike, so that nobody can learn what others have.
 */
import { type Role, roleSchema } from '../../schemas/names.ts';
import { operatorName } from '../../schemas/shapes.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError } from '../core/command-error.ts';
import { findMember } from '../state/tenants.ts';

/** `person` acts as a member; without it, the operator acts. */
export interface Actor {
  readonly person?: string | undefined;
  /** Which of several operators acts, where that is known. Records name it; it gives no rights. */
  readonly operator?: string | undefined;
  /** The only organisation in which the person may act: who gave them the session has no say in others. */
  readonly within?: string | undefined;
}

export const operator: Actor = {};

/** Roles that can create and revoke keys (Authentication 5). */
export const keyRoles: readonly Role[] = ['owner', 'admin', 'approver', 'member'];
/** Roles that manage stacks and members of their organisation. */
export const managingRoles: readonly Role[] = ['owner', 'admin'];
/** Roles that read what belongs to their organisation: all. */
export const readingRoles: readonly Role[] = roleSchema.options;

/** The actor as records name it: `operator`, `operator:ID`, or the person's id, which is never one of them. */
export function actorName({ person, operator: id }: Actor): string {
  return person ?? (id === undefined ? operatorName : `${operatorName}:${id}`);
}

/** Throws CommandError Forbidden unless the actor may. `organisationOf` gives undefined where nothing is there. */
export function authorise(
  db: Database,
  actor: Actor,
  roles: 'operator' | readonly Role[],
  organisationOf: () => string | undefined,
): void {
  const { person } = actor;
  if (person === undefined) return;
  if (roles === 'operator')
    throw new CommandError('Forbidden', 'only operators may do this', { next: 'act as the operator' });
  const organisation = organisationOf();
  const isReachable = organisation !== undefined && (actor.within ?? organisation) === organisation;
  const member = isReachable ? findMember(db, organisation, person) : undefined;
  if (!member || !roles.includes(member.role))
    throw new CommandError('Forbidden', `${person} may not do this, or it is not there`, {
      next: `it takes one of the roles ${roles.join(', ')} in the organisation concerned`,
    });
}
