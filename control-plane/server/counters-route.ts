/** Serves the counters of all gateways, for a gateway that starts without a copy of its own. */
import { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import type { AdminContext } from './context.ts';

export function registerCountersRoute(app: FastifyInstance, { counters }: AdminContext): void {
  app.get(
    '/counters',
    {
      config: { access: 'gateway' },
      exposeHeadRoute: false,
      schema: { summary: 'Counters of all gateways: a line with the position, then one record a line' },
    },
    (_request, reply) => reply.type('application/x-ndjson').send(Readable.from(counters.lines())),
  );
}
