import Fastify from 'fastify';
import { expect, test } from 'vitest';
import { guardRoutes } from './access.ts';
import type { AdminContext } from './context.ts';

test('a server with a route that does not declare who may call it does not start', () => {
  const app = Fastify();
  // No request arrives, so nothing of the context is read.
  guardRoutes(app, {} as AdminContext);
  app.get('/declared', { config: { access: 'operator' } }, () => 'x');
  expect(() => app.get('/undeclared', () => 'x')).toThrow(/GET \/undeclared does not declare/);
});
