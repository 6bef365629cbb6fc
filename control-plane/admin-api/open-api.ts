/** Builds the OpenAPI document of the admin API from the server's routes, on first use because few clients request it. */
import type { FastifyInstance, FastifySchema, RouteOptions } from 'fastify';
import { z } from 'zod';
import type { OperationAnswer } from '../../schemas/admin/admin.ts';
import { accessDocument, securitySchemes } from './access.ts';

export type ApiDocument = OperationAnswer<'document.get'>;

/** Schemas of one route, as `routeOptions` sets them. */
interface RouteSchema {
  readonly summary: string;
  readonly operationId?: string;
  readonly params?: z.ZodType;
  readonly querystring?: z.ZodType;
  readonly body?: z.ZodType;
  readonly response: Readonly<Record<string, z.ZodType | FileAnswer>>;
}
interface FileAnswer {
  readonly description: string;
  readonly content: Readonly<Record<string, { readonly schema: z.ZodType }>>;
}

/** Describes the routes that are added after this call. The returned function builds the document when it is first called. */
export function buildDocument(app: FastifyInstance): () => ApiDocument {
  const paths: Record<string, Record<string, () => object>> = {};
  app.addHook('onRoute', ({ method, url, schema, config }) => {
    if (method === 'HEAD' || !isDescribed(schema)) return;
    const path = url.replace(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [String(method).toLowerCase()]: () => describe(schema, config) };
  });
  let document: ApiDocument | undefined;
  return () => {
    document ??= {
      openapi: '3.1.0',
      info: { title: 'Headgate admin API', version: '1' },
      components: { securitySchemes },
      paths: mapValues(paths, (methods) => mapValues(methods, (make) => make())),
    };
    return document;
  };
}

function isDescribed(schema: FastifySchema | undefined): schema is FastifySchema & RouteSchema {
  return schema?.response !== undefined;
}

function describe(schema: RouteSchema, config: RouteOptions['config']): object {
  const { summary, operationId, params, querystring, body, response } = schema;
  return {
    summary,
    ...(operationId && { operationId }),
    ...(body && { requestBody: { required: true, content: jsonContent(body, 'input') } }),
    parameters: [...parameters('query', querystring), ...parameters('path', params)],
    responses: mapValues(response, (answer) =>
      answer instanceof z.ZodType
        ? { description: 'Default Response', content: jsonContent(answer, 'output') }
        : {
            ...answer,
            content: mapValues(answer.content, (each) => ({ schema: jsonSchema(each.schema, 'output') })),
          },
    ),
    ...accessDocument(config?.access),
  };
}

function parameters(place: 'query' | 'path', schema: z.ZodType | undefined): object[] {
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = jsonSchema(schema, 'input');
  return Object.entries(properties).map(([name, each]) => ({
    in: place,
    name,
    required: required.includes(name),
    schema: each,
  }));
}

function jsonContent(schema: z.ZodType, io: 'input' | 'output'): object {
  return { 'application/json': { schema: jsonSchema(schema, io) } };
}

/** Describes a schema. Responses may contain more properties, because clients must accept fields of later versions. */
function jsonSchema(schema: z.ZodType, io: 'input' | 'output') {
  const { $schema, ...described } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema: made }) => {
      const { def } = zodSchema._zod;
      if (def.type === 'object' && def.catchall === undefined) delete made.additionalProperties;
    },
  });
  return described;
}

function mapValues<From, To>(record: Readonly<Record<string, From>>, change: (value: From) => To) {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}
