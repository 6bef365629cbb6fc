import fastify from 'fastify';
import { expect, test } from 'vitest';
import { type OidcRoutesOptions, registerOidcCallback } from './oidc-routes.ts';
import { ProviderCalls } from './provider-calls.ts';

test('one address may use half of the twenty simultaneous calls, and each end makes room again', () => {
  const calls = new ProviderCalls(600);
  const begin = (count: number, address: string): string[] =>
    Array.from({ length: count }, (_, n) => calls.begin(`${address} ${n}`, address));
  expect(begin(11, 'a')).toEqual([...Array(10).fill('begun'), 'busy']);
  expect(begin(6, 'b')).toEqual(Array(6).fill('begun'));
  expect(begin(5, 'c')).toEqual([...Array(4).fill('begun'), 'busy']);
  calls.end('b');
  expect(calls.begin('a 10', 'a')).toBe('busy');
  expect(calls.begin('c 4', 'c')).toBe('begun');
  calls.end('a');
  expect(calls.begin('a 10', 'a')).toBe('begun');
});

test('a sign-in refused as busy has not used up its response', () => {
  const calls = new ProviderCalls(600);
  for (let n = 0; n < 10; n++) calls.begin(`other ${n}`, 'a');
  for (let n = 0; n < 5; n++) expect(calls.begin('mine', 'a')).toBe('busy');
  for (let n = 0; n < 10; n++) calls.end('a');
  const uses = Array.from({ length: 4 }, () => calls.begin('mine', 'a'));
  expect(uses).toEqual(['begun', 'begun', 'begun', 'used']);
});

test('a busy response keeps the cookie so that the callback can be reloaded, and failures log one line', async () => {
  const lines: object[] = [];
  let answer = (): void => undefined;
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const finish = async (): Promise<never> => {
    await answered;
    throw new Error('no answer');
  };
  const app = fastify();
  registerOidcCallback(app, {
    context: { logger: { warn: (fields: object) => lines.push(fields) } },
    ...{ provider: { isBegun: () => true, finish }, guard: {}, sessions: {} },
  } as unknown as OidcRoutesOptions);
  const load = async (state: string) => {
    const { headers } = await app.inject({ url: `/oidc/callback?state=${state}` });
    return { to: headers.location, cookie: headers['set-cookie'] };
  };
  const running = Array.from({ length: 10 }, (_, n) => load(`s-${n}`));
  await app.ready();
  expect(await load('mine')).toEqual({ to: '/sign-in?failed=busy', cookie: undefined });
  answer();
  const failed = {
    to: '/sign-in?failed=provider',
    cookie: expect.stringMatching(/^__Host-headgate-oidc-\d+=; .*Max-Age=0$/),
  };
  expect(await Promise.all(running)).toEqual(Array(10).fill(failed));
  expect(await load('mine')).toEqual(failed);
  expect(lines).toEqual([{ failures: { provider: 1 }, name: 'Error', reason: 'no answer' }]);
  await app.close();
});
