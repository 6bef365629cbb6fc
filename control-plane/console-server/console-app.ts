/**
 * Serves the console: its pages and, under `/api`, the routes of the admin API with the rights of the signed-in person. Its
 * listener has its own origin, separate from tenants' hosts and from the admin API. It must not accept bearer tokens.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { readingRoles } from '../../schemas/admin/admin-row.ts';
import { isJson, isOwnCall, isOwnHost, isSafe, securityHeaders } from '../../shared/runtime/browser-rules.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { builtFolder, type StaticAnswer, StaticFiles } from '../../shared/runtime/static-files.ts';
import { registerSharedRoutes } from '../admin-api/app.ts';
import { type AdminContext, requestActor } from '../admin-api/context.ts';
import { answerError, createHttpApp, type HttpListener } from '../admin-api/http-app.ts';
import { type Actor, findRole } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import type { EndedSessions } from '../sessions/ended-sessions.ts';
import type { SignInLinks } from '../sessions/sign-in-links.ts';
import { findStack } from '../state/capacity.ts';
import { registerLiveStream } from './live-stream.ts';
import { Oidc, type OidcSettings } from './oidc.ts';
import { registerOidcCallback, registerOidcStart } from './oidc-routes.ts';
import { backgroundHeader, SessionGuard } from './session-guard.ts';
import { Sessions } from './sessions.ts';
import { registerSignInRoutes } from './sign-in-routes.ts';

/** Addresses at which clients reach the gateways, for the client settings that pages show. Unknown addresses are left out. */
export interface ServiceAddresses {
  readonly shared?: string | undefined;
  readonly stackDomain?: string | undefined;
  readonly stacks?: Readonly<Record<string, string>> | undefined;
}

export interface ConsoleOptions {
  /** Host names under which browsers may reach the console, in addition to loopback. */
  readonly hosts: readonly string[];
  /** Whether members sign in without credentials, which only `headgate dev` allows. */
  readonly demo: boolean;
  readonly links: SignInLinks;
  readonly ended: EndedSessions;
  readonly addresses: () => ServiceAddresses;
  /** Identity provider for signing in, if there is one. */
  readonly oidc?: OidcSettings | undefined;
  /** Address that browsers use, if it differs from the listener's. */
  readonly publicUrl?: string | undefined;
}

const readMethods: readonly string[] = ['GET', 'HEAD'];
/** Paths of the pages, all of which use the same HTML document. */
const pagePaths =
  /^\/(?:$|(?:fleet|gateways|nodes|stacks|orgs|models|tiers|requests|keys|usage|limits|events|changes|explain|doctor|sign-in)(?:\/[^/]{1,300})?\/?$)/;

interface FirstAnswers {
  readonly byPath: object;
  /** Cookie that renews the session. */
  readonly cookie: string | undefined;
}

/**
 * Returns the API responses that every signed-in page needs first, by path, so that the page renders at once. Returns
 * undefined without a session. The responses come from the API's own routes, called with the page's cookie. They renew the
 * session, because a person asked for the page.
 */
async function firstAnswers(
  app: FastifyInstance,
  { headers }: FastifyRequest,
): Promise<FirstAnswers | undefined> {
  if (headers.cookie === undefined) return undefined;
  const ofPage = ['host', 'cookie', 'sec-fetch-site'].filter((name) => headers[name] !== undefined);
  const own = Object.fromEntries(ofPage.map((name) => [name, headers[name]]));
  const me = await app.inject({ url: '/api/me', headers: own });
  if (me.statusCode !== 200) return undefined;
  const { operator } = me.json();
  const gateways =
    operator && (await app.inject({ url: '/api/gateways', headers: { ...own, [backgroundHeader]: '1' } }));
  const cookie = me.headers['set-cookie'];
  return {
    byPath: {
      '/me': me.json(),
      ...(gateways?.statusCode === 200 && { '/gateways': gateways.json() }),
    },
    cookie: Array.isArray(cookie) ? cookie[0] : cookie,
  };
}

/** Embeds the API responses in the HTML document, in a block that browsers do not execute. The result must not be cached. */
function embedAnswers({ byPath, cookie }: FirstAnswers, document: string): StaticAnswer {
  const block = `<script type="application/json" id="answers">${JSON.stringify(byPath).replaceAll('<', '\\u003c')}</script>`;
  return {
    status: 200,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      ...(cookie !== undefined && { 'set-cookie': cookie }),
    },
    body: Buffer.from(document.replace('</body>', () => `${block}</body>`)),
  };
}

export async function createConsoleApp(
  context: AdminContext,
  listener: Pick<HttpListener, 'connections' | 'certificate'>,
  options: ConsoleOptions,
): Promise<FastifyInstance> {
  const { logger } = context;
  const app = createHttpApp({ ...listener, name: 'console', logger, bodies: context.bodies });
  const sessions = new Sessions({
    operatorToken: context.operatorToken,
    ended: options.ended,
    writer: context.writer,
    state: () => context.snapshot,
  });
  const guard = new SessionGuard(sessions, listener.certificate !== undefined);
  const isTls = listener.certificate !== undefined;
  const provider = options.oidc && new Oidc(options.oidc, context.operatorToken);
  const ways = { ...options, context, sessions, guard, oidc: provider !== undefined };
  app.addHook('onRequest', async (request, reply) => {
    reply.headers(securityHeaders);
    if (!isOwnHost(request.headers.host, options.hosts))
      return reply
        .code(421)
        .type('text/plain; charset=utf-8')
        .send('this host name is not configured; add it with --console-host\n');
    return undefined;
  });
  await app.register(
    (api, _options, done) => {
      api.addHook('onRequest', (request, reply, next) => {
        reply.header('cache-control', 'no-store');
        next(foreignCall(request));
      });
      guard.guard(api, context);
      registerSharedRoutes(api, context);
      registerSignInRoutes(api, ways);
      if (provider) registerOidcStart(api, { ...ways, provider, publicUrl: options.publicUrl, isTls });
      registerLiveStream(api, context, sessions);
      api.get('/addresses', { config: { access: readingRoles } }, (request) =>
        shownAddresses(options.addresses(), context, requestActor(request)),
      );
      done();
    },
    { prefix: '/api' },
  );
  if (provider) registerOidcCallback(app, { ...ways, provider, publicUrl: options.publicUrl, isTls });
  servePages(app, logger, options.ended);
  return app;
}

/** Returns the addresses, but only those of stacks that the actor may read, because an address reveals its stack. */
function shownAddresses(
  { stacks, ...common }: ServiceAddresses,
  { snapshot: { db } }: AdminContext,
  actor: Actor,
): ServiceAddresses {
  const isShown = (id: string): boolean => {
    const organisation = findStack(db, id)?.organisation;
    const mayRead = organisation !== undefined && findRole(db, actor, organisation) !== undefined;
    return actor.person === undefined || mayRead;
  };
  return {
    ...common,
    ...(stacks && { stacks: Object.fromEntries(Object.entries(stacks).filter(([id]) => isShown(id))) }),
  };
}

/** Serves the pages and their files for every path that has no route. */
function servePages(app: FastifyInstance, logger: Logger, ended: EndedSessions): void {
  const files = new StaticFiles(builtFolder('console'));
  const document = String(files.find('/index.html', {})?.body ?? '');
  app.setNotFoundHandler(async (request, reply) => {
    const path = request.url.split('?', 1)[0] ?? '/';
    if (path.startsWith('/api/') || !readMethods.includes(request.method))
      return answerError(
        new CommandError('NotFound', 'the console has no such route'),
        request,
        reply,
        logger,
      );
    if (!files.isBuilt)
      return reply
        .code(503)
        .type('text/plain; charset=utf-8')
        .send('the pages are not built; run: npm run build\n');
    const isPage = pagePaths.test(path);
    // A page is served even before past ends of sessions are known. Without embedded responses, it only loads more slowly.
    const hasAnswers = isPage && !path.startsWith('/sign-in') && ended.isReady();
    const answers = hasAnswers && (await firstAnswers(app, request));
    const file = answers
      ? embedAnswers(answers, document)
      : files.find(isPage ? '/index.html' : path, request.headers);
    if (file) return reply.code(file.status).headers(file.headers).send(file.body);
    return sendMistyped(files, request, reply);
  });
}

/** Sends a 404: a page with a link back if the client accepts HTML, otherwise one line of text. */
function sendMistyped(files: StaticFiles, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const page = request.headers.accept?.includes('text/html') ? files.find('/index.html', {}) : undefined;
  if (page) return reply.code(404).headers(page.headers).send(page.body);
  return reply.code(404).type('text/plain; charset=utf-8').send('not found\n');
}

/** Returns an error if an API call cannot come from the console's own page. */
function foreignCall({ method, headers }: FastifyRequest): CommandError | undefined {
  if (!isOwnCall(method, headers))
    return new CommandError('Forbidden', 'only the console itself may call this');
  return isSafe(method) || isJson(headers)
    ? undefined
    : new CommandError('InvalidCommand', 'a write needs content-type: application/json');
}
