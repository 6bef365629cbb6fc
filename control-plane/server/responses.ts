/**
 * Declares what each route answers, from the table in schemas/admin.ts, for the OpenAPI document. A server with a route
 * that is not in the table fails to start. Answers are not filtered by their schemas: what a handler returns is sent.
 */
import type { FastifyInstance, RouteOptions } from 'fastify';
import { z } from 'zod';
import { adminErrorSchema, adminResponses, adminStreams } from '../../schemas/admin.ts';

const responses: Readonly<Record<string, z.ZodType>> = adminResponses;
const streams: Readonly<Record<string, { mediaType: string; line: z.ZodType | undefined }>> = adminStreams;
const binary = z.string().meta({ format: 'binary' });

/** Call it before the first route of the API is added. `prefix` is the part of each URL that the table leaves out. */
export function declareResponses(app: FastifyInstance, prefix: string): void {
  app.setSerializerCompiler(() => (answer) => JSON.stringify(answer));
  app.addHook('onRoute', (route) => {
    if (route.websocket === true) return;
    const success = successOf(route, prefix);
    if (success === undefined)
      throw new Error(`the route ${String(route.method)} ${route.url} does not declare what it answers`);
    route.schema = { ...route.schema, response: { 200: success, default: adminErrorSchema } };
  });
}

function successOf({ method, url }: RouteOptions, prefix: string): object | undefined {
  // Fastify adds a HEAD route to each GET route.
  const verb = method === 'HEAD' ? 'GET' : String(method);
  const name = `${verb} ${url.startsWith(prefix) ? url.slice(prefix.length) : url}`;
  const stream = streams[name];
  if (stream === undefined) return responses[name];
  const schema = stream.line ?? binary;
  const description = stream.line === undefined ? 'A file' : 'One JSON document a line';
  return { description, content: { [stream.mediaType]: { schema } } };
}
