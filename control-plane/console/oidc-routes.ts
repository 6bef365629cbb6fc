/** Routes of the sign-in by an identity provider: the page asks where to go, and the provider sends the browser back. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { portAsked } from '../../shared/runtime/browser-rules.ts';
import { peerOf } from '../../shared/runtime/connections.ts';
import { CommandError } from '../core/command-error.ts';
import { parseQuery } from '../server/context.ts';
import { AttemptLimit } from './attempt-limit.ts';
import { type Oidc, transactionSeconds } from './oidc.ts';
import { cookieOf } from './session-guard.ts';
import type { SignInOptions } from './sign-in-routes.ts';

const beginSchema = z.strictObject({ invitation: z.string().max(1024).optional() });
/** Longer answers of a provider are none. */
const queryLengthMax = 8192;
/** Failed sign-ins of one address in a minute, and of all: each costs a call of the provider. */
const attemptsPerAddress = 20;
const attemptsOfAll = 200;
const path = '/oidc/callback';

export interface OidcRoutesOptions extends SignInOptions {
  readonly provider: Oidc;
  /** The address that browsers use, where it is not the one they ask for. */
  readonly publicUrl: string | undefined;
  readonly isTls: boolean;
}

/** Below `/api`: the page asks where to go. */
export function registerOidcStart(api: FastifyInstance, options: OidcRoutesOptions): void {
  const { provider, publicUrl, isTls } = options;
  api.post('/oidc', { config: { access: 'public' } }, async (request, reply) => {
    const { invitation } = parseQuery(beginSchema, request.body ?? {});
    const base = publicUrl ?? `${isTls ? 'https' : 'http'}://${request.headers.host ?? ''}`;
    const { url, sealed } = await provider.begin(base, invitation);
    setCookie(request, reply, options, sealed, transactionSeconds);
    return { url };
  });
}

/** The provider's page leads here, so this answers to a navigation from another site. */
export function registerOidcCallback(app: FastifyInstance, options: OidcRoutesOptions): void {
  const attempts = new AttemptLimit(attemptsPerAddress, attemptsOfAll);
  const { context, sessions, guard, links, provider } = options;
  app.get(path, { config: { access: 'public' } }, async (request, reply) => {
    reply.header('cache-control', 'no-store');
    const sealed = cookieOf(request, cookieName(request, options)) ?? '';
    setCookie(request, reply, options, '', 0);
    const query = request.url.split('?', 2)[1] ?? '';
    const address = peerOf(request.raw.socket.remoteAddress);
    if (!isAnswer(provider, sealed, query) || !attempts.allows(address))
      return reply.redirect('/sign-in?failed=expired', 303);
    try {
      const { identity, invitation } = await provider.finish(sealed, query);
      const { person } = identity;
      if (invitation !== undefined && person !== undefined)
        await sessions.acceptInvitation(links, invitation, person, context);
      guard.set(request, reply, sessions.begin(identity));
      return reply.redirect('/', 303);
    } catch (error) {
      attempts.add(address);
      return reply.redirect(`/sign-in?failed=${failureOf(error, context)}`, 303);
    }
  });
}

/** Whether it answers a sign-in that this browser began. */
function isAnswer(provider: Oidc, sealed: string, query: string): boolean {
  const state = new URLSearchParams(query.slice(0, queryLengthMax)).get('state') ?? '';
  return query.length <= queryLengthMax && provider.isBegun(sealed, state);
}

function failureOf(error: unknown, { logger }: SignInOptions['context']): 'invitation' | 'provider' {
  const { name, message } = error instanceof Error ? error : new Error('unknown');
  // Not the whole error: its cause may hold what the provider answered.
  logger.warn({ name, reason: message }, 'a sign-in by the identity provider failed');
  return error instanceof CommandError && error.type !== 'LogUnavailable' ? 'invitation' : 'provider';
}

function cookieName({ headers }: FastifyRequest, { isTls }: OidcRoutesOptions): string {
  return `__Secure-headgate-oidc-${portAsked(headers.host, isTls)}`;
}

/** Lax, because the provider's page brings the browser back; for the callback alone. */
function setCookie(
  request: FastifyRequest,
  reply: FastifyReply,
  options: OidcRoutesOptions,
  value: string,
  seconds: number,
): void {
  const attributes = `Path=${path}; Secure; HttpOnly; SameSite=Lax; Max-Age=${seconds}`;
  reply.header('set-cookie', `${cookieName(request, options)}=${value}; ${attributes}`);
}
