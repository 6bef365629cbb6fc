/** Access control: every route must declare its access, and token and role are checked before anything is parsed. */
import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify';
import type { Access, BodyKind } from '../../schemas/admin/admin-row.ts';
import { isSameSecret } from '../../shared/runtime/secrets.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { type Actor, authorise, membershipsOf } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { type AdminContext, requestActor } from './context.ts';

type Context = Pick<
  AdminContext,
  'snapshot' | 'attempts' | 'operatorToken' | 'gatewayToken' | 'previousGatewayToken'
>;

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: Access;
    /** Size class of request bodies that the route accepts. */
    body?: BodyKind;
    /** Whether the route accepts the parameter `at`, a moment in the past. All other routes refuse it. */
    past?: boolean;
  }
}

/** Guards all routes that are added afterwards, so it must be called before the first route is added. */
export function guardRoutes(app: FastifyInstance, context: Context): void {
  app.addHook('onRoute', checkDeclared);
  app.addHook('onRequest', (request, _reply, done) => done(refusal(request, context) ?? noPast(request)));
}

const methodsWithBody: readonly string[] = ['POST', 'PUT', 'PATCH'];

/** Throws an error unless the route declares who may call it and, if its method has a body, how large the body may be. */
export function checkDeclared({ method, url, config }: RouteOptions): void {
  const name = `the route ${String(method)} ${url}`;
  if (config?.access === undefined) throw new Error(`${name} does not declare who may call it`);
  const { access, body } = config;
  if (body === undefined && [method].flat().some((each) => methodsWithBody.includes(each)))
    throw new Error(`${name} does not declare how large its body may be`);
  if (access === 'public' && body !== undefined && body !== 'tiny')
    throw new Error(`${name} is public, and declares a body that is not tiny`);
}

/** Returns the part of the OpenAPI document that describes a route's access. */
export function accessDocument(access: Access = 'operator'): object {
  const described = typeof access === 'string' ? [access] : ['operator', ...access];
  return {
    'x-headgate-access': described,
    security: access === 'public' ? [] : [{ [access === 'node' ? 'nodeToken' : 'operatorToken']: [] }],
  };
}

export const securitySchemes = {
  operatorToken: {
    type: 'http',
    scheme: 'bearer',
    description:
      'HEADGATE_OPERATOR_TOKEN; if x-headgate-access contains gateway, also HEADGATE_GATEWAY_TOKEN. With the header x-headgate-as, the operator acts as a person.',
  },
  nodeToken: { type: 'http', scheme: 'bearer', description: 'the token of one node' },
} as const;

/** Refuses `at` on routes that know only the present, because their response would be misleading. */
function noPast({ query, routeOptions, method }: FastifyRequest): CommandError | undefined {
  const { config, url = '' } = routeOptions;
  const isAsked = typeof query === 'object' && query !== null && 'at' in query;
  if (!isAsked || config.past === true || config.access === undefined) return undefined;
  const name = url.replace(/^\/admin\/v1\//, '');
  return new CommandError('InvalidCommand', `${method} ${name} shows only the present`, {
    next: 'leave out --at',
  });
}

function refusal(request: FastifyRequest, context: Context): CommandError | undefined {
  // An unknown path requires the operator token, so that a 404 reveals nothing about routes to anyone else.
  const { access = 'operator' } = request.routeOptions.config;
  if (access === 'public' || access === 'node') return undefined;
  const token = readToken(request);
  const isGateway = isGatewayToken(token, context);
  if (!isOperator(request, context) && !(access === 'gateway' && isGateway)) {
    const wrong = new CommandError('Unauthorized', 'the operator token is missing or not valid', {
      next: 'set HEADGATE_TOKEN, or run in the folder of a service started with `npm start`',
    });
    return token === undefined || isGateway ? wrong : context.attempts.refuse(request, wrong);
  }
  try {
    checkAccess(context.snapshot.db, requestActor(request), access);
    return undefined;
  } catch (error) {
    if (error instanceof CommandError) return error;
    throw error;
  }
}

export function isOperator(request: FastifyRequest, { operatorToken }: Context): boolean {
  return isSameSecret(readToken(request), operatorToken);
}

function readToken({ headers }: FastifyRequest): string | undefined {
  return /^bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
}

function isGatewayToken(token: string | undefined, { gatewayToken, previousGatewayToken }: Context): boolean {
  return isSameSecret(token, gatewayToken) || isSameSecret(token, previousGatewayToken);
}

/** Throws `CommandError` if the actor may not call routes with this access. Does not consider a route's parameters. */
export function checkAccess(db: Database, actor: Actor, access: Access): void {
  if (actor.person === undefined) return;
  if (typeof access === 'string') authorise(db, actor, 'operator', () => undefined);
  else if (!membershipsOf(db, actor).some(({ role }) => access.includes(role)))
    throw new CommandError('Forbidden', `${actor.person} may not do this, or it does not exist`, {
      next: `ask an owner of the organisation for one of these roles: ${access.join(', ')}`,
    });
}
