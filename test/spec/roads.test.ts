import { afterAll, beforeAll, expect, test } from 'vitest';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { comparable, rawRequest, requestText } from '../support/raw-http.ts';

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet({ gateways: 2 });
});
afterAll(() => fleet.close());

const chat = (model: string): string =>
  JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }] });
const post = (port: number, key: string, model: string, host = '127.0.0.1') =>
  rawRequest(
    port,
    requestText({
      method: 'POST',
      path: '/v1/chat/completions',
      host,
      headers: { Authorization: `Bearer ${key}` },
      body: chat(model),
    }),
  );

test('What the service does 1: a request with a key is answered from pool, own node and stack', async () => {
  const { value } = await fleet.key('acme');
  await fleet.settle();
  for (const [model, host] of [
    ['echo-large', '127.0.0.1'],
    ['echo-private', '127.0.0.1'],
    ['echo-large', 'stk-amber-otter-9k2f.stacks.test'],
  ] as const) {
    const answer = await post(fleet.port(), value, model, host);
    expect([model, host, answer.status]).toEqual([model, host, 200]);
  }
});

test('Limits 5: a revoked key is refused on every gateway, with the bytes of a key that never was', async () => {
  const { id, value } = await fleet.key('acme');
  await fleet.settle();
  expect((await post(fleet.port(), value, 'echo-small')).status).toBe(200);
  await fleet.admin.call('POST', `/keys/${id}/revoke`);
  await fleet.settle();
  const unknown = comparable(await post(fleet.port(0), 'hg_nonsense', 'echo-small'));
  for (const gateway of [0, 1]) {
    const answer = await post(fleet.port(gateway), value, 'echo-small');
    expect(answer.status).toBe(401);
    expect(comparable(answer)).toBe(unknown);
  }
});
