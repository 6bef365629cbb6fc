/**
 * The console's listener: the built pages, and under /api the routes of the admin API with the rights of the person signed
 * in. An origin of its own, apart from tenants’ hosts and from the admin API, which continues to take bearer tokens alone.
 */
import type { FastifyInstance } from 'fastify';
import { isOwnHost, securityHeaders } from '../../shared/runtime/browser-rules.ts';
import { builtFolder, StaticFiles } from '../../shared/runtime/static-files.ts';
import { readingRoles } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { registerSharedRoutes } from '../server/app.ts';
import type { AdminContext } from '../server/context.ts';
import { answerError, createHttpApp, type HttpListener } from '../server/http-app.ts';
import type { EndedSessions } from '../sessions/ended-sessions.ts';
import type { SignInLinks } from '../sessions/sign-in-links.ts';
import { foreignCall } from './browser-rules.ts';
import { registerLiveStream } from './live-stream.ts';
import { Oidc, type OidcSettings } from './oidc.ts';
import { registerOidcCallback, registerOidcStart } from './oidc-routes.ts';
import { SessionGuard } from './session-guard.ts';
import { type ConsoleSession, Sessions } from './sessions.ts';
import { registerSignInRoutes } from './sign-in-routes.ts';

export interface ConsoleOptions {
  /** Names by which it may be asked for, in addition to loopback. */
  readonly hosts: readonly string[];
  /** Members sign in without anything: for `headgate dev` alone. */
  readonly demo: boolean;
  readonly links: SignInLinks;
  readonly ended: EndedSessions;
  /** Of the gateways, as clients reach them. */
  readonly addresses: () => object;
  /** Absent: nobody signs in by an identity provider. */
  readonly oidc?: OidcSettings | undefined;
  /** The address that browsers use, where it is not the listener's. */
  readonly publicUrl?: string | undefined;
}

/** Where the pages are; all are drawn by one document. */
const pagePaths =
  /^\/(?:$|(?:fleet|gateways|nodes|stacks|orgs|keys|usage|limits|events|explain|doctor|sign-in)(?:\/[^/]{1,300})?\/?$)/;

/**
 * What every page of a person reads first: the browser asks for it while it loads the program of the pages. Nothing where
 * nobody is signed in, because each answer would be a refusal.
 */
function preloadsOf(session: ConsoleSession | undefined): Record<string, string> {
  if (!session) return {};
  const paths = session.kind === 'operator' ? ['/api/me', '/api/gateways'] : ['/api/me'];
  return { link: paths.map((path) => `<${path}>; rel=preload; as=fetch; crossorigin`).join(', ') };
}

export async function createConsoleApp(
  context: AdminContext,
  listener: Pick<HttpListener, 'connections' | 'certificate'>,
  options: ConsoleOptions,
): Promise<FastifyInstance> {
  const { logger } = context;
  const app = createHttpApp({ ...listener, name: 'console', logger });
  const files = new StaticFiles(builtFolder('console'));
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
  app.setSerializerCompiler(() => (answer) => JSON.stringify(answer));
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
      api.get('/addresses', { config: { access: readingRoles } }, () => options.addresses());
      done();
    },
    { prefix: '/api' },
  );
  if (provider) registerOidcCallback(app, { ...ways, provider, publicUrl: options.publicUrl, isTls });
  app.setNotFoundHandler(async (request, reply) => {
    const path = request.url.split('?', 1)[0] ?? '/';
    if (path.startsWith('/api/') || (request.method !== 'GET' && request.method !== 'HEAD'))
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
    // Never "not modified": the browser would go by the preloads that came with what it has.
    const file = isPage
      ? files.find('/index.html', { ...request.headers, 'if-none-match': undefined })
      : files.find(path, request.headers);
    if (!file) return reply.code(404).type('text/plain; charset=utf-8').send('not found\n');
    // A page waits for no log: without its preloads it is only slower.
    if (isPage && !path.startsWith('/sign-in') && options.ended.isReady())
      reply.headers(preloadsOf(await guard.peek(request)));
    return reply.code(file.status).headers(file.headers).send(file.body);
  });
  return app;
}
