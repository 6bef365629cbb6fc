/**
 * The OpenAPI document of the admin API, from the routes of its server. What makes it is loaded once somebody asks for the document:
 * few do, and it would make up a tenth of the modules of a control plane.
 */
import Fastify, { type FastifyInstance, type RouteOptions } from 'fastify';
import type { AnswerOf } from '../../schemas/admin/admin.ts';
import { accessDocument, securitySchemes } from './access.ts';
import { compilersFactory } from './http-app.ts';

const openApiVersion = '3.1.0';

export type ApiDocument = AnswerOf<'document.get'>;

/** Call it before the routes are added. What it returns makes the document where it is called first. */
export function documentOf(app: FastifyInstance): () => Promise<ApiDocument> {
  const routes: RouteOptions[] = [];
  app.addHook('onRoute', ({ method, url, schema, config }) => {
    if (method === 'HEAD') return;
    const handler = () => undefined;
    routes.push({ method, url, handler, ...(schema && { schema }), ...(config && { config }) });
  });
  let made: Promise<ApiDocument> | undefined;
  return () => {
    made ??= makeDocument(routes).catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}

/** On an instance that serves nobody: the library describes the routes that were added after it. */
async function makeDocument(routes: readonly RouteOptions[]): Promise<ApiDocument> {
  const { default: swagger } = await import('@fastify/swagger');
  const transform = await schemaTransform();
  const described = Fastify({ exposeHeadRoutes: false, schemaController: { compilersFactory } });
  await described.register(swagger, {
    openapi: {
      openapi: openApiVersion,
      info: { title: 'Headgate admin API', version: '1' },
      components: { securitySchemes },
    },
    transform: (route) => {
      const { schema, url } = transform(route as Parameters<typeof transform>[0]);
      return { url, schema: { ...schema, ...accessDocument(route.route.config?.access) } };
    },
  });
  for (const route of routes) described.route(route);
  await described.ready();
  return { ...described.swagger(), openapi: openApiVersion };
}

/** Without `additionalProperties: false` in responses: a client must accept fields of later versions. */
async function schemaTransform() {
  const { createJsonSchemaTransform } = await import('fastify-type-provider-zod');
  return createJsonSchemaTransform({
    zodToJsonConfig: {
      override: ({ zodSchema, jsonSchema }) => {
        const { def } = zodSchema._zod;
        if (def.type === 'object' && def.catchall === undefined) delete jsonSchema.additionalProperties;
      },
    },
  });
}
