/** Describes the caller and the commands that the caller may run, from the table that decides access. */
import { adminOperations } from '../../schemas/admin/admin.ts';
import { operationNames } from '../../schemas/admin/admin-routes.ts';
import type { Access } from '../../schemas/admin/admin-row.ts';
import type { Role } from '../../schemas/names.ts';
import { actorName, membershipsOf } from '../commands/authorise.ts';
import { findOrganisation } from '../state/tenants.ts';
import { type AdminContext, requestActor } from './context.ts';
import { isCommand, type OperationHandlers } from './operations.ts';

type Context = Pick<AdminContext, 'snapshot'>;

/** All commands except the console link, which every operator can create. */
const commandNames = operationNames.filter((name) => isCommand(name) && name !== 'console.link');

function listCommands(role: Role | 'operator'): string[] {
  return commandNames
    .filter((name) => {
      const { access }: { readonly access: Access } = adminOperations[name];
      return role === 'operator' || access.includes(role);
    })
    .sort();
}

export function meHandlers({ snapshot }: Context): OperationHandlers<'me.get'> {
  return {
    'me.get': ({ request }) => {
      const caller = requestActor(request);
      const { person } = caller;
      const actor = actorName(caller);
      const { db, seq: position } = snapshot;
      if (person === undefined)
        return { operator: true, actor, organisations: [], commands: listCommands('operator'), position };
      const organisations = membershipsOf(db, caller).map(({ organisation, role }) => ({
        id: organisation,
        name: findOrganisation(db, organisation)?.name ?? organisation,
        role,
        commands: listCommands(role),
      }));
      return { operator: false, person, actor, organisations, commands: [], position };
    },
  };
}
