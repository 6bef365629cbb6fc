import Fastify from 'fastify';
import { expect, test } from 'vitest';
import { guardRoutes } from './access.ts';
import type { AdminContext } from './context.ts';

test('a server with a route that does not declare its callers does not start', () => {
  const app = Fastify();
  // The context can be empty, because no request arrives that would read it.
  guardRoutes(app, {} as AdminContext);
  app.get('/declared', { config: { access: 'operator' } }, () => 'x');
  expect(() => app.get('/undeclared', () => 'x')).toThrow(/GET \/undeclared does not declare/);
});

test('a server does not start with a route whose body is unlimited, or large for every caller', () => {
  const app = Fastify();
  guardRoutes(app, {} as AdminContext);
  app.post('/declared', { config: { access: 'operator', body: 'fleet' } }, () => 'x');
  for (const method of ['POST', 'PUT', 'PATCH'] as const)
    expect(() =>
      app.route({ method, url: '/large', config: { access: 'operator' }, handler: () => 'x' }),
    ).toThrow(/does not declare how large/);
  expect(() => app.post('/open', { config: { access: 'public', body: 'small' } }, () => 'x')).toThrow(
    /is public/,
  );
});
