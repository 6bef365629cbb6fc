/**
 * Converts the table of operations to routes. Path, access, limits and description come only from the table. Responses are
 * sent as handlers return them and are not filtered by their schemas.
 */
import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  RouteHandlerMethod,
  RouteOptions,
} from 'fastify';
import { z } from 'zod';
import {
  adminOperations,
  type CommandName,
  type OperationAnswer,
  type OperationBody,
  type OperationParams,
  type OperationQuery,
  type StateReadName,
} from '../../schemas/admin/admin.ts';
import { adminErrorSchema } from '../../schemas/admin/admin-resources.ts';
import {
  type OperationName,
  operationNames,
  operationRoute,
  questions,
} from '../../schemas/admin/admin-routes.ts';
import { commandQuerySchema, manyBody, type OperationRow } from '../../schemas/admin/admin-row.ts';
import { commands } from '../commands/registry.ts';
import { parseQuery } from './context.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    operation?: OperationName;
  }
}

/** A call of an operation, whose parts have been parsed with their schemas. */
export interface AskedOf<Name extends OperationName> {
  readonly params: OperationParams<Name>;
  readonly query: OperationQuery<Name>;
  readonly body: OperationBody<Name>;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

type StreamName = {
  [Name in OperationName]: (typeof adminOperations)[Name] extends { mediaType: string } ? Name : never;
}[OperationName];
/** Result of a handler. The handler of a stream sends the response itself, so its result is the reply. */
type Sent<Name extends OperationName> = Name extends StreamName ? FastifyReply : OperationAnswer<Name>;
type Handler<Name extends OperationName> = (asked: AskedOf<Name>) => Sent<Name> | Promise<Sent<Name>>;
export type OperationHandlers<Names extends OperationName> = { readonly [Name in Names]: Handler<Name> };

type OwnName = Exclude<OperationName, CommandName | StateReadName>;
/** Operations that only programs and gateways use. The console does not serve them. */
export type ProgramName = 'document.get' | 'event.tail' | 'request.tail' | 'snapshot.get' | 'counters.get';
export type SharedName = Exclude<OwnName, ProgramName | 'commit.undo'>;

const lines = { description: 'One JSON document a line' };
const file = { description: 'A file' };
/** Media type of responses that last until the client disconnects. */
const eventStream = 'text/event-stream';
const binary = z.string().meta({ format: 'binary' });

function success({ answer, many, mediaType }: OperationRow): object | undefined {
  if (mediaType === undefined) return answer && many ? z.union([answer, many.answer]) : answer;
  return { ...(answer ? lines : file), content: { [mediaType]: { schema: answer ?? binary } } };
}

/** Whether the operation may change something. */
export function isCommand(name: OperationName): boolean {
  return operationRoute(name).method !== 'GET' && !questions.some((question) => question === name);
}

const commandNames: ReadonlySet<string> = new Set(commands.map(({ name }) => name));

export function routeOptions(name: OperationName): Omit<RouteOptions, 'handler'> {
  const row: OperationRow = adminOperations[name];
  const { method, path: url } = operationRoute(name);
  const { summary, access, params, many, past, opens } = row;
  const body = many ? z.union([row.body ?? z.never(), manyBody(row)]) : row.body;
  const query = row.query ?? (commandNames.has(name) ? commandQuerySchema : undefined);
  return {
    method,
    url,
    config: {
      ...{ operation: name, access, body: row.bodyKind ?? (body ? 'small' : 'tiny') },
      ...(past && { past }),
      ...(opens && { opens }),
    },
    schema: {
      ...{ summary, response: { 200: success(row), default: adminErrorSchema } },
      ...(isCommand(name) && { operationId: name }),
      ...(params && { params }),
      ...(query && { querystring: query }),
      ...(body && { body }),
    },
    // Gateways use only GET, and a HEAD request would build the whole response for nothing.
    ...((access === 'gateway' || row.mediaType === eventStream) && { exposeHeadRoute: false }),
  };
}

/** Adds a route whose handler parses the request itself. */
export function addRoute(app: FastifyInstance, name: OperationName, handler: RouteHandlerMethod): void {
  app.route({ ...routeOptions(name), handler });
}

export function addHandlers<Names extends OperationName>(
  app: FastifyInstance,
  handlers: OperationHandlers<Names>,
): void {
  for (const name of operationNames.filter((each): each is Names => each in handlers)) {
    const { params, query, body }: OperationRow = adminOperations[name];
    const handler = handlers[name];
    addRoute(app, name, (request, reply) => {
      const asked = {
        params: params && parseQuery(params, request.params),
        query: query && parseQuery(query, request.query),
        body: body && parseQuery(body, request.body ?? {}),
      } as Pick<AskedOf<Names>, 'params' | 'query' | 'body'>;
      return handler({ ...asked, request, reply });
    });
  }
}

/** Refuses routes that are not in the table. It must be called before the first route of the admin API is added. */
export function refuseOthers(app: FastifyInstance): void {
  app.addHook('onRoute', ({ method, url, config, websocket }) => {
    if (config?.operation === undefined && websocket !== true)
      throw new Error(`the route ${String(method)} ${url} is not an operation in the table`);
  });
}
