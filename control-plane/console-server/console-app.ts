/**
 * Serves the console: the built pages, and under /api the routes of the admin API with the rights of the person who is signed
 * in. The room `control-plane/console-server` signs people in and keeps their sessions. Its listener is an origin of its own,
 * apart from tenants' hosts and from the admin API. It must not accept bearer tokens, which only the admin API takes.
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

/** Addresses of gateways as clients reach them, for settings that the pages show; what is not known is left out. */
export interface ServiceAddresses {
  readonly shared?: string | undefined;
  readonly stackDomain?: string | undefined;
  readonly stacks?: Readonly<Record<string, string>> | undefined;
}

export interface ConsoleOptions {
  /** Names by which it may be asked for, in addition to loopback. */
  readonly hosts: readonly string[];
  /** Members sign in without anything: for `headgate dev` alone. */
  readonly demo: boolean;
  readonly links: SignInLinks;
  readonly ended: EndedSessions;
  /** Of the gateways, as clients reach them. */
  readonly addresses: () => ServiceAddresses;
  /** Absent: nobody signs in by an identity provider. */
  readonly oidc?: OidcSettings | undefined;
  /** The address that browsers use, where it is not the listener's. */
  readonly publicUrl?: string | undefined;
}

const readMethods: readonly string[] = ['GET', 'HEAD'];
/** Where the pages are; all are drawn by one document. */
const pagePaths =
  /^\/(?:$|(?:fleet|gateways|nodes|stacks|orgs|models|tiers|requests|keys|usage|limits|events|changes|explain|doctor|sign-in)(?:\/[^/]{1,300})?\/?$)/;

interface FirstAnswers {
  readonly byPath: object;
  /** Renews the session. */
  readonly cookie: string | undefined;
}

/**
 * What every page of a person reads first, by path, so that it is drawn at once. By the API's own routes, with the cookie of
 * the page: nobody gets here what they would be refused there, and who is not signed in gets nothing. A person asked for the
 * page, so the session is renewed as by a call of theirs.
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

/** The document with the answers in a block that no browser runs; kept by no cache. */
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
        .send('this console does not answer to this name; see --console-host\n');
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

/** Of stacks those that the actor may read: an address names its stack. */
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

/** Whatever no route answers: the pages, and the files that they consist of. */
function servePages(app: FastifyInstance, logger: Logger, ended: EndedSessions): void {
  const files = new StaticFiles(builtFolder('console'));
  const document = String(files.find('/index.html', {})?.body ?? '');
  app.setNotFoundHandler(async (request, reply) => {
    const path = request.url.split('?', 1)[0] ?? '/';
    if (path.startsWith('/api/') || !readMethods.includes(request.method))
      return answerError(
        new CommandError('NotFound', 'no such route in the console'),
        request,
        reply,
        logger,
      );
    if (!files.isBuilt)
      return reply
        .code(503)
        .type('text/plain; charset=utf-8')
        .send('the pages were not built: npm run build\n');
    const isPage = pagePaths.test(path);
    // A page waits for no log: without the answers it is only slower.
    const hasAnswers = isPage && !path.startsWith('/sign-in') && ended.isReady();
    const answers = hasAnswers && (await firstAnswers(app, request));
    const file = answers
      ? embedAnswers(answers, document)
      : files.find(isPage ? '/index.html' : path, request.headers);
    if (file) return reply.code(file.status).headers(file.headers).send(file.body);
    return sendMistyped(files, request, reply);
  });
}

/** A person gets a page with the way back; what loads a file gets a line. */
function sendMistyped(files: StaticFiles, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const page = request.headers.accept?.includes('text/html') ? files.find('/index.html', {}) : undefined;
  if (page) return reply.code(404).headers(page.headers).send(page.body);
  return reply.code(404).type('text/plain; charset=utf-8').send('not found\n');
}

/** Why a call of the API cannot come from the console's own page; undefined where it can. */
function foreignCall({ method, headers }: FastifyRequest): CommandError | undefined {
  if (!isOwnCall(method, headers))
    return new CommandError('Forbidden', 'only the console itself may call this');
  return isSafe(method) || isJson(headers)
    ? undefined
    : new CommandError('InvalidCommand', 'a write needs content-type: application/json');
}
