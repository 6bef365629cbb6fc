/** Authenticates calls to the console's API: reads the session cookie, renews it, and tells the routes who the actor is. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { portAsked } from '../../shared/runtime/browser-rules.ts';
import { checkAccess, checkDeclared } from '../admin-api/access.ts';
import { type AdminContext, setCaller } from '../admin-api/context.ts';
import { CommandError } from '../core/command-error.ts';
import { actorOfSession, type ConsoleSession, type Sessions } from './sessions.ts';

type Context = Pick<
  AdminContext,
  'snapshot' | 'attempts' | 'operatorToken' | 'gatewayToken' | 'previousGatewayToken'
>;

const sessions = new WeakMap<FastifyRequest, ConsoleSession>();

/** Returns the session of a request that passed the guard. */
export function requireSession(request: FastifyRequest): ConsoleSession {
  const session = sessions.get(request);
  if (!session) throw new CommandError('Unauthorized', 'nobody is signed in');
  return session;
}

/** Header of calls that an open page makes automatically. They do not renew the session, because no person caused them. */
export const backgroundHeader = 'x-headgate-background';

export class SessionGuard {
  readonly #sessions: Sessions;
  readonly #isTls: boolean;

  constructor(sessionStore: Sessions, isTls: boolean) {
    this.#sessions = sessionStore;
    this.#isTls = isTls;
  }

  /** Requires a session on every route of the API, except on routes whose access is `public`. */
  guard(api: FastifyInstance, context: Context): void {
    api.addHook('onRoute', checkDeclared);
    api.addHook('onRequest', async (request, reply) => {
      const { access = 'operator' } = request.routeOptions.config;
      if (access === 'public') return;
      const session = await this.#identify(request, reply);
      const actor = actorOfSession(session);
      setCaller(request, { actor, via: 'console', session: session.id });
      // Every signed-in person may read their own identity, so that the page can recognise people without a membership.
      if (request.routeOptions.url !== '/api/me' && request.routeOptions.url !== '/api/session')
        checkAccess(context.snapshot.db, actor, access);
    });
  }

  /** Sets the cookie of a session that begins or continues. */
  set(request: FastifyRequest, reply: FastifyReply, session: ConsoleSession): void {
    reply.header('set-cookie', `${this.#cookie(request)}=${this.#sessions.seal(session)}${attributes}`);
  }

  clear(request: FastifyRequest, reply: FastifyReply): void {
    reply.header('set-cookie', `${this.#cookie(request)}=${attributes}; Max-Age=0`);
  }

  /** Returns the valid session of a request, or undefined. Used by routes that do not require a session. */
  async peek(request: FastifyRequest): Promise<ConsoleSession | undefined> {
    const text = readCookie(request, this.#cookie(request));
    return text === undefined ? undefined : this.#sessions.open(text).catch(() => undefined);
  }

  async #identify(request: FastifyRequest, reply: FastifyReply): Promise<ConsoleSession> {
    const text = readCookie(request, this.#cookie(request));
    const session = text === undefined ? undefined : await this.#sessions.open(text);
    if (!session) {
      if (text !== undefined) this.clear(request, reply);
      throw new CommandError('Unauthorized', 'nobody is signed in, or the session has ended', {
        next: 'sign in at /sign-in',
      });
    }
    sessions.set(request, session);
    if (this.#sessions.needsSealing(session) && request.headers[backgroundHeader] === undefined)
      this.set(request, reply, session);
    return session;
  }

  #cookie(request: FastifyRequest): string {
    return `__Host-headgate-${portAsked(request.headers.host, this.#isTls)}`;
  }
}

const attributes = '; Path=/; Secure; HttpOnly; SameSite=Strict';

/** Returns the value of a cookie. If several cookies have the name, the first one counts. */
export function readCookie({ headers }: FastifyRequest, name: string): string | undefined {
  const found = (headers.cookie ?? '').split(';').find((part) => part.trim().startsWith(`${name}=`));
  return found?.trim().slice(name.length + 1);
}
