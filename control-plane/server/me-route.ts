/** Who the caller is, and which commands are open to them: computed from the registry that decides it. */
import type { FastifyInstance } from 'fastify';
import type { AdminResponse } from '../../schemas/admin.ts';
import type { Role } from '../../schemas/names.ts';
import { actorName, managingRoles, membershipsOf, readingRoles } from '../commands/authorise.ts';
import { commands } from '../commands/registry.ts';
import { findOrganisation } from '../state/tenants.ts';
import { type AdminContext, actorOf } from './context.ts';

/** Commands of routes outside the registry. */
const furtherCommands: readonly { readonly name: string; readonly roles: 'operator' | readonly Role[] }[] = [
  { name: 'member.link', roles: managingRoles },
  { name: 'member.invite', roles: managingRoles },
  { name: 'gateway.forget', roles: 'operator' },
  { name: 'commit.undo', roles: 'operator' },
];

function commandsOf(role: Role | 'operator'): string[] {
  return [...commands, ...furtherCommands]
    .filter(({ roles }) => role === 'operator' || (roles !== 'operator' && roles.includes(role)))
    .map(({ name }) => name)
    .sort();
}

export function registerMeRoute(app: FastifyInstance, { snapshot }: AdminContext): void {
  const config = { access: readingRoles };
  app.get(
    '/me',
    { config, schema: { summary: 'Who calls, and which commands they may give' } },
    (request): AdminResponse<'GET /me'> => {
      const caller = actorOf(request);
      const { person } = caller;
      const actor = actorName(caller);
      const { db, seq: position } = snapshot;
      if (person === undefined)
        return { operator: true, actor, organisations: [], commands: commandsOf('operator'), position };
      const organisations = membershipsOf(db, caller).map(({ organisation, role }) => ({
        id: organisation,
        name: findOrganisation(db, organisation)?.name ?? organisation,
        role,
        commands: commandsOf(role),
      }));
      return { operator: false, person, actor, organisations, commands: [], position };
    },
  );
}
