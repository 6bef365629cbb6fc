/** Routes that make sign-in links to the console: for the operator, and for a member of an organisation. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { AdminResponse } from '../../schemas/admin.ts';
import { bodySchemas, pathSchemas } from '../../schemas/commands.ts';
import { daySeconds } from '../../schemas/durations.ts';
import { authorise, managingRoles, roleIn } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import type { SignInLink, SignInLinks } from '../sessions/sign-in-links.ts';
import { findMember, findOrganisation } from '../state/tenants.ts';
import { type AdminContext, actorOf, commandQuerySchema, parseQuery } from './context.ts';

const operatorLinkSeconds = 60;
const linkSecondsDefault = 7 * daySeconds;

function linksOf({ links }: AdminContext): SignInLinks {
  if (links) return links;
  throw new CommandError('Conflict', 'this replica serves no console', {
    next: 'start it with --console-port, or ask a replica that was',
  });
}

/** A dry run gives away nothing that works: it names the page, without the ticket. */
function answered(request: FastifyRequest, link: SignInLink): SignInLink {
  const { dryRun } = parseQuery(commandQuerySchema, request.query);
  return dryRun === 'true' ? { ...link, url: link.url.split('#', 1)[0] ?? '' } : link;
}

export function registerLinkRoutes(app: FastifyInstance, context: AdminContext): void {
  app.post(
    '/console/links',
    {
      config: { access: 'operator', body: 'tiny' },
      schema: { summary: 'A link that signs in the operator, once' },
    },
    (request): AdminResponse<'POST /console/links'> =>
      answered(request, linksOf(context).make({ exceptRoles: [], seconds: operatorLinkSeconds })),
  );
  app.post(
    '/organisations/:id/members/:person/link',
    {
      config: { access: managingRoles, body: 'small' },
      schema: {
        summary: 'A link that signs in a member, once',
        params: pathSchemas.member,
        body: bodySchemas.memberLink,
      },
      validatorCompiler: () => (data: unknown) => ({ value: data }),
    },
    (request): AdminResponse<'POST /organisations/:id/members/:person/link'> => {
      const { id, person } = parseQuery(pathSchemas.member, request.params);
      const { seconds = linkSecondsDefault } = parseQuery(bodySchemas.memberLink, request.body ?? {});
      const { db } = context.snapshot;
      const actor = actorOf(request);
      authorise(db, actor, managingRoles, () => id);
      const member = findMember(db, id, person);
      if (!member) throw new CommandError('NotFound', `${person} is not a member of ${id}`);
      const exceptRoles = roleIn(db, actor, id) === 'admin' ? (['owner'] as const) : [];
      if (exceptRoles.some((role) => role === member.role))
        throw new CommandError('Forbidden', 'only an owner or the operator makes links for an owner');
      const within = actor.person === undefined ? undefined : id;
      return answered(
        request,
        linksOf(context).make({ person, within, exceptRoles: [...exceptRoles], seconds }),
      );
    },
  );
  app.post(
    '/organisations/:id/invitations',
    {
      config: { access: managingRoles, body: 'small' },
      schema: {
        summary: 'A link that makes who signs in by it a member, once',
        params: pathSchemas.id,
        body: bodySchemas.invitation,
      },
      validatorCompiler: () => (data: unknown) => ({ value: data }),
    },
    (request): AdminResponse<'POST /organisations/:id/invitations'> => {
      const { id: organisation } = parseQuery(pathSchemas.id, request.params);
      const body = parseQuery(bodySchemas.invitation, request.body ?? {});
      const { role, seconds = linkSecondsDefault } = body;
      const { db } = context.snapshot;
      const actor = actorOf(request);
      const { person: by } = actor;
      authorise(db, actor, managingRoles, () => organisation);
      if (!findOrganisation(db, organisation))
        throw new CommandError('NotFound', `there is no organisation ${organisation}`);
      if (role === 'owner' && by !== undefined && roleIn(db, actor, organisation) !== 'owner')
        throw new CommandError('Forbidden', 'only an owner or the operator invites an owner');
      return answered(request, linksOf(context).invite({ organisation, role, by, seconds }));
    },
  );
}
