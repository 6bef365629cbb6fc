/**
 * Lists the routes that a control plane's HTTP servers really register. Records them at registration, so new routes are
 * included.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { FastifyInstance, RouteOptions } from 'fastify';
import type { Access } from '../../schemas/admin/admin-row.ts';

export interface Route {
  readonly method: string;
  /** Path as registered, with parameter names. */
  readonly url: string;
  readonly access: Access;
  readonly isWebSocket: boolean;
  /** Names of the query parameters that the route declares, or undefined if it declares none. */
  readonly query: readonly string[] | undefined;
  readonly body: readonly string[] | undefined;
}

/** Records the routes of all servers created until `stop` is called. */
export function watchRoutes(): { readonly routes: readonly Route[]; stop(): void } {
  const routes: Route[] = [];
  const onApp = (message: unknown): void => {
    const { fastify } = message as { readonly fastify: FastifyInstance };
    fastify.addHook('onRoute', (route) => {
      if (route.method !== 'HEAD') routes.push(described(route));
    });
  };
  subscribe('fastify.initialization', onApp);
  return { routes, stop: () => unsubscribe('fastify.initialization', onApp) };
}

function described({ method, url, config, schema, websocket }: RouteOptions): Route {
  return {
    method: String(method),
    url,
    access: config?.access ?? 'operator',
    isWebSocket: websocket === true,
    query: namesOf(schema?.querystring),
    body: namesOf(schema?.body),
  };
}

function namesOf(schema: unknown): string[] | undefined {
  const shape = (schema as { readonly shape?: object } | undefined)?.shape;
  return shape === undefined ? undefined : Object.keys(shape);
}
