/** Routes that create sign-in links to the console, for operators and for members of an organisation. */
import type { z } from 'zod';
import { type commandQuerySchema, managingRoles } from '../../schemas/admin/admin-row.ts';
import { daySeconds } from '../../schemas/durations.ts';
import { authorise, findRole } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import type { SignInLink, SignInLinks } from '../sessions/sign-in-links.ts';
import { findMember, findOrganisation } from '../state/tenants.ts';
import { type AdminContext, requestActor } from './context.ts';
import type { AskedOf, OperationHandlers } from './operations.ts';

type Context = Pick<AdminContext, 'snapshot' | 'links'>;

const operatorLinkSeconds = 60;
const linkSecondsDefault = 7 * daySeconds;

function requireLinks({ links }: Context): SignInLinks {
  if (links) return links;
  throw new CommandError('Conflict', 'this replica does not serve a console', {
    next: 'start it with --console-port, or use a replica that has one',
  });
}

/** Removes the ticket from the link in a dry run, so that nobody can sign in with the link. */
function shown(link: SignInLink, { dryRun }: z.output<typeof commandQuerySchema>): SignInLink {
  return dryRun === 'true' ? { ...link, url: link.url.split('#', 1)[0] ?? '' } : link;
}

function linkOfMember(
  context: Context,
  { params: { id, person }, query, body, request }: AskedOf<'member.link'>,
): SignInLink {
  const { seconds = linkSecondsDefault } = body;
  const { db } = context.snapshot;
  const actor = requestActor(request);
  authorise(db, actor, managingRoles, () => id);
  const member = findMember(db, id, person);
  if (!member) throw new CommandError('NotFound', `${person} is not a member of ${id}`);
  const exceptRoles = findRole(db, actor, id) === 'admin' ? (['owner'] as const) : [];
  if (exceptRoles.some((role) => role === member.role))
    throw new CommandError('Forbidden', 'only an owner or the operator may create links for an owner');
  const within = actor.person === undefined ? undefined : id;
  return shown(requireLinks(context).make({ person, within, exceptRoles: [...exceptRoles], seconds }), query);
}

function invitation(
  context: Context,
  { params: { id: organisation }, query, body, request }: AskedOf<'member.invite'>,
): SignInLink {
  const { role, seconds = linkSecondsDefault } = body;
  const { db } = context.snapshot;
  const actor = requestActor(request);
  const { person: by } = actor;
  authorise(db, actor, managingRoles, () => organisation);
  if (!findOrganisation(db, organisation))
    throw new CommandError('NotFound', `there is no organisation ${organisation}`);
  if (role === 'owner' && by !== undefined && findRole(db, actor, organisation) !== 'owner')
    throw new CommandError('Forbidden', 'only an owner or the operator may invite an owner');
  return shown(requireLinks(context).invite({ organisation, role, by, seconds }), query);
}

export function linkHandlers(
  context: Context,
): OperationHandlers<'console.link' | 'member.link' | 'member.invite'> {
  return {
    'console.link': ({ query }) =>
      shown(requireLinks(context).make({ exceptRoles: [], seconds: operatorLinkSeconds }), query),
    'member.link': (asked) => linkOfMember(context, asked),
    'member.invite': (asked) => invitation(context, asked),
  };
}
