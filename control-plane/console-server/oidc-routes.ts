/**
 * Routes for signing in through an identity provider: the start, and the callback to which the provider sends the browser.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { portAsked } from '../../shared/runtime/browser-rules.ts';
import { peerPrefix } from '../../shared/runtime/connections.ts';
import { RateLimitedLine } from '../../shared/runtime/rate-limited-line.ts';
import { parseQuery } from '../admin-api/context.ts';
import { CommandError } from '../core/command-error.ts';
import { type Oidc, transactionSeconds } from './oidc.ts';
import { ProviderCalls } from './provider-calls.ts';
import { readCookie } from './session-guard.ts';
import type { Identity } from './sessions.ts';
import type { SignInOptions } from './sign-in-routes.ts';

const beginSchema = z.strictObject({ invitation: z.string().max(1024).optional() });
/** Maximum length of a provider's response in the query. Longer responses are rejected. */
const queryLengthMax = 8192;
const path = '/oidc/callback';

export interface OidcRoutesOptions extends SignInOptions {
  readonly provider: Oidc;
  /** Address that browsers use, if it differs from the one in their requests. */
  readonly publicUrl: string | undefined;
  readonly isTls: boolean;
}

/** Registers the route under `/api` that tells the sign-in page to which address it must send the browser. */
export function registerOidcStart(api: FastifyInstance, options: OidcRoutesOptions): void {
  const { provider, publicUrl, isTls } = options;
  api.post('/oidc', { config: { access: 'public', body: 'tiny' } }, async (request, reply) => {
    const { invitation } = parseQuery(beginSchema, request.body ?? {});
    const base = publicUrl ?? `${isTls ? 'https' : 'http'}://${request.headers.host ?? ''}`;
    const { url, sealed } = await provider.begin(base, invitation);
    setCookie(request, reply, options, sealed, transactionSeconds);
    return { url };
  });
}

/** Registers the callback route. It accepts navigation from another site, because the provider sends the browser to it. */
export function registerOidcCallback(app: FastifyInstance, options: OidcRoutesOptions): void {
  const calls = new ProviderCalls(transactionSeconds);
  const { context, provider } = options;
  const failures = new Failures(context.logger);
  app.addHook('onClose', async () => failures.close());
  app.get(path, { config: { access: 'public' } }, async (request, reply) => {
    reply.header('cache-control', 'no-store');
    const sealed = readCookie(request, cookieName(request, options)) ?? '';
    const query = request.url.split('?', 2)[1] ?? '';
    const address = peerPrefix(request.raw.socket.remoteAddress);
    const state = begunState(provider, sealed, query);
    const begun = state === undefined ? 'used' : calls.begin(state, address);
    // Keeps the cookie, so that the browser can try again by reloading the callback.
    if (begun !== 'begun')
      return reply.redirect(`/sign-in?failed=${begun === 'busy' ? 'busy' : 'expired'}`, 303);
    setCookie(request, reply, options, '', 0);
    try {
      options.guard.set(request, reply, options.sessions.begin(await identified(options, sealed, query)));
      return reply.redirect('/', 303);
    } catch (error) {
      return reply.redirect(`/sign-in?failed=${failures.add(error)}`, 303);
    } finally {
      calls.end(address);
    }
  });
}

/** Returns the identity from the provider's response. If the sign-in carries an invitation, also adds the member. */
async function identified(
  { context, sessions, links, provider }: OidcRoutesOptions,
  sealed: string,
  query: string,
): Promise<Identity> {
  const { identity, invitation, issuer, subject } = await provider.finish(sealed, query);
  const { person, operator } = identity;
  // Logs the issuer and subject, because events contain only an operator id, from which they cannot be derived.
  if (operator !== undefined)
    context.logger.info({ operator, issuer, subject }, 'an operator signed in through the identity provider');
  if (invitation !== undefined && person !== undefined)
    await sessions.acceptInvitation(links, invitation, person, context);
  return identity;
}

/** Returns the state of the sign-in that this browser began, or undefined if the query is not the response to it. */
function begunState(provider: Oidc, sealed: string, query: string): string | undefined {
  if (query.length > queryLengthMax) return undefined;
  const state = new URLSearchParams(query).get('state') ?? '';
  return provider.isBegun(sealed, state) ? state : undefined;
}

/** Logs failed sign-ins, at most one line per minute, because anyone can cause failures and could fill the disk. */
class Failures {
  readonly #line: RateLimitedLine;
  /** Name and reason of the last failure. */
  #fields: { readonly name: string; readonly reason: string } | undefined;

  constructor(logger: SignInOptions['context']['logger']) {
    this.#line = new RateLimitedLine((failures) =>
      logger.warn({ failures, ...this.#fields }, 'a sign-in through the identity provider failed'),
    );
  }

  add(error: unknown): 'invitation' | 'provider' {
    const { name, message } = error instanceof Error ? error : new Error('unknown');
    // Omits the rest of the error, because its cause may contain the provider's response.
    this.#fields = { name, reason: message };
    const kind = error instanceof CommandError && error.type !== 'LogUnavailable' ? 'invitation' : 'provider';
    this.#line.add(kind);
    return kind;
  }

  close(): void {
    this.#line.close();
  }
}

function cookieName({ headers }: FastifyRequest, { isTls }: OidcRoutesOptions): string {
  return `__Host-headgate-oidc-${portAsked(headers.host, isTls)}`;
}

/**
 * Sets the sign-in cookie. It is `SameSite=Lax`, because the provider's page sends the browser back. The prefix `__Host-`
 * requires the path `/`, and prevents other hosts of the same domain from setting this cookie.
 */
function setCookie(
  request: FastifyRequest,
  reply: FastifyReply,
  options: OidcRoutesOptions,
  value: string,
  seconds: number,
): void {
  const attributes = `Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=${seconds}`;
  reply.header('set-cookie', `${cookieName(request, options)}=${value}; ${attributes}`);
}
