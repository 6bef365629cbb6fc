/** Routes for signing in with the methods that this replica offers, and for signing out. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { personSchema } from '../../schemas/shapes.ts';
import { isSameSecret } from '../../shared/runtime/secrets.ts';
import { AttemptLimit } from '../admin-api/attempt-limit.ts';
import { type AdminContext, parseQuery } from '../admin-api/context.ts';
import { CommandError } from '../core/command-error.ts';
import type { SignInLinks, Ticket } from '../sessions/sign-in-links.ts';
import { findMember, listMembers, listMemberships } from '../state/tenants.ts';
import { requireSession, type SessionGuard } from './session-guard.ts';
import type { ConsoleSession, Identity, Sessions } from './sessions.ts';

type Context = Pick<AdminContext, 'snapshot' | 'operatorToken' | 'logger'>;

const signInSchema = z.union([
  z.strictObject({ link: z.string().max(2048) }),
  z.strictObject({ operatorToken: z.string().max(4096) }),
  z.strictObject({ demo: personSchema }),
]);
const signOutSchema = z.strictObject({ everywhere: z.boolean().optional() });

/** Number of wrong tokens allowed per minute from one address. `attemptsOfAll` is the number from all addresses together. */
const attemptsPerAddress = 5;
const attemptsOfAll = 100;
/** Maximum number of members for whom a demo's sign-in page shows a button. */
const demoMembersMax = 12;

export interface SignInOptions {
  readonly context: Context;
  readonly sessions: Sessions;
  readonly guard: SessionGuard;
  readonly links: SignInLinks;
  /** Whether members sign in without credentials, which only `headgate dev` allows. */
  readonly demo: boolean;
  readonly oidc: boolean;
}

export function registerSignInRoutes(api: FastifyInstance, options: SignInOptions): void {
  const { context, sessions, guard, demo, oidc } = options;
  const attempts = new AttemptLimit({
    perAddress: attemptsPerAddress,
    all: attemptsOfAll,
    logger: context.logger,
  });
  api.get('/sign-in', { config: { access: 'public' } }, async (request) => ({
    operatorToken: true,
    oidc,
    session: shownSession(await guard.peek(request)),
    demo: demo
      ? listMembers(context.snapshot.db, undefined, demoMembersMax).map(({ organisation, person, role }) => ({
          organisation,
          person,
          role,
        }))
      : [],
  }));
  api.post('/session', { config: { access: 'public', body: 'tiny' } }, async (request, reply) => {
    const identity = await identify(request, options, attempts);
    const session = sessions.begin(identity);
    guard.set(request, reply, session);
    return { person: identity.person ?? null };
  });
  api.delete('/session', { config: { access: 'operator' } }, (request, reply) =>
    signOut(request, reply, options),
  );
}

/** Describes the current session to the page, so that it can ask before a sign-in link replaces the session. */
function shownSession(session: ConsoleSession | undefined): { readonly person: string | null } | null {
  return session ? { person: session.person ?? null } : null;
}

async function identify(
  request: FastifyRequest,
  { context, sessions, links, demo }: SignInOptions,
  attempts: AttemptLimit,
): Promise<Identity> {
  const body = parseQuery(signInSchema, request.body);
  if ('demo' in body) {
    if (!demo || listMemberships(context.snapshot.db, body.demo).length === 0)
      throw new CommandError('Unauthorized', 'this console has no such demo member');
    return { person: body.demo };
  }
  if ('operatorToken' in body) {
    // The token is checked before the limit, so that wrong tokens from others never lock out an operator.
    if (isSameSecret(body.operatorToken, context.operatorToken)) return {};
    const wrong = new CommandError('Unauthorized', 'this is not the operator token', {
      next: 'it is in HEADGATE_OPERATOR_TOKEN, or in the data folder of `headgate dev`',
    });
    throw attempts.refuse(request, wrong);
  }
  const ticket = links.open(body.link);
  if (!ticket)
    throw new CommandError('Unauthorized', 'this sign-in link is no longer valid', {
      next: 'ask for a new link; operators run `headgate console open`',
    });
  await sessions.useLink(ticket, () => checkTicket(ticket, context));
  const { person, within, exceptRoles } = ticket;
  return { person, within, exceptRoles };
}

/** Throws `CommandError` unless the membership and role that justified the link still exist. */
function checkTicket({ person, within, exceptRoles }: Ticket, { snapshot: { db } }: Context): void {
  if (person === undefined || within === undefined) return;
  const role = findMember(db, within, person)?.role;
  if (role === undefined || exceptRoles.includes(role))
    throw new CommandError('Unauthorized', 'the role of this person changed after the link was made', {
      next: 'ask for a new link',
    });
}

async function signOut(
  request: FastifyRequest,
  reply: FastifyReply,
  { sessions, guard }: SignInOptions,
): Promise<object> {
  const { everywhere = false } = parseQuery(signOutSchema, request.body ?? {});
  await sessions.end(requireSession(request), everywhere);
  guard.clear(request, reply);
  return { ended: everywhere ? 'all' : 'this' };
}
