import { afterAll, beforeAll, expect, test } from 'vitest';
import { adminOperations } from '../../schemas/admin/admin.ts';
import { checkAnswer } from '../../test/support/admin-answers.ts';
import { chat } from '../../test/support/api.ts';
import { askAdmin } from '../../test/support/ask-admin.ts';
import { operatorToken, startFleet, type TestFleet } from '../../test/support/fleet.ts';

let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet();
});
afterAll(() => fleet.close());

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}
async function admin(
  method: string,
  path: string,
  options: { body?: unknown; headers?: Record<string, string>; token?: string } = {},
): Promise<Answer> {
  const { body, headers = {}, token = operatorToken } = options;
  const response = await fetch(`${fleet.controlPlane.admin}/admin/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const answer = (await response.json()) as Record<string, unknown>;
  checkAnswer(method, path, response.status, answer);
  return { status: response.status, body: answer };
}
const errorType = ({ body }: Answer): unknown => (body['error'] as { type?: unknown } | undefined)?.type;

test('repeating an Idempotency-Key repeats no command, and does not show the value again', async () => {
  const headers = { 'idempotency-key': 'repeat-of-a-key-1' };
  const body = { organisation: 'acme', name: 'once', expires: 'never' };
  const first = await admin('POST', '/keys', { body, headers });
  const second = await admin('POST', '/keys', { body, headers });
  expect(first.body['value']).toMatch(/^hg_/);
  expect(second.body).toMatchObject({
    id: first.body['id'],
    repeated: true,
    position: first.body['position'],
  });
  expect(second.body['value']).toBeUndefined();
  const viewer = await admin('POST', '/keys', { body, headers: { ...headers, 'x-headgate-as': 'vic' } });
  expect([viewer.status, errorType(viewer)]).toEqual([403, 'Forbidden']);
  const other = await admin('POST', '/keys', { body: { ...body, name: 'another' }, headers });
  expect([other.status, errorType(other)]).toEqual([409, 'Conflict']);
});

test('If-Match refuses a command if the position has moved, and changes nothing', async () => {
  const position = Number((await admin('GET', '/status')).body['position']);
  const at = (n: number): Promise<Answer> =>
    admin('PUT', '/organisations/acme/members/max', {
      body: { role: 'member' },
      headers: { 'if-match': `"${n}"` },
    });
  expect((await at(position)).status).toBe(200);
  const moved = await admin('PUT', '/organisations/acme/members/max', {
    body: { role: 'viewer' },
    headers: { 'if-match': String(position) },
  });
  expect([moved.status, errorType(moved)]).toEqual([409, 'PositionMoved']);
  const members = (await admin('GET', '/members?organisation=acme')).body['items'];
  expect(members).toContainEqual({ organisation: 'acme', person: 'max', role: 'member' });
});

test('a dry run shows the outcome and appends nothing', async () => {
  const before = (await admin('GET', '/status')).body['position'];
  const answer = await admin('POST', '/stacks?dryRun=true', {
    body: { organisation: 'cedar', id: 'stk-dry-run-1' },
  });
  expect(answer.body).toMatchObject({ id: 'stk-dry-run-1', organisation: 'cedar', dryRun: true });
  expect((await admin('GET', '/status')).body['position']).toBe(before);
  expect((await admin('GET', '/stacks/stk-dry-run-1')).status).toBe(404);
});

test('a read at a past position is answered from the state at that position', async () => {
  const { body } = await admin('POST', '/stacks', {
    body: { organisation: 'cedar', id: 'stk-time-travel-1' },
  });
  const made = Number(body['position']);
  expect((await admin('GET', `/stacks/stk-time-travel-1?at=${made}`)).status).toBe(200);
  expect((await admin('GET', `/stacks/stk-time-travel-1?at=${made - 1}`)).status).toBe(404);
  expect((await admin('GET', `/stacks?at=${made + 1000}`)).status).toBe(404);
  const then = (await admin('GET', `/status?at=${made - 1}`)).body;
  expect(then['position']).toBe(made - 1);
});

test('invalid bodies and queries are refused by name, and no value is repeated', async () => {
  const broken = await fetch(`${fleet.controlPlane.admin}/admin/v1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${operatorToken}`, 'content-type': 'application/json' },
    body: '{"name": hg_secret',
  });
  expect(broken.status).toBe(400);
  expect(await broken.text()).not.toContain('hg_secret');
  const wrong = await admin('POST', '/keys', { body: { organisation: 'ACME!', name: '', expires: '2y' } });
  const details = (wrong.body['error'] as { details: { path: string }[] }).details.map(({ path }) => path);
  expect(details).toEqual(['organisation', 'name', 'expires']);
  expect((await admin('GET', '/keys?limit=many')).status).toBe(400);
  expect((await admin('GET', '/keys?limit=1001')).status).toBe(400);
});

test('events are listed from the first commit on, with the ids of created resources', async () => {
  const { body } = await admin('GET', '/events');
  const items = body['items'] as { position: number; type: string; data: { id?: string } }[];
  expect(items[0]).toMatchObject({ position: 1, type: 'log.created' });
  const { id } = await fleet.key('birch');
  const created = (await admin('GET', '/events?type=key.created')).body['items'] as typeof items;
  expect(created.at(-1)?.data.id).toBe(id);
  expect(JSON.stringify(items)).not.toContain('hg_');
});

test('completed requests are exported one per line, with the key’s name and without the prompt', async () => {
  const { id, value } = await fleet.key('birch');
  const { name: keyName } = (await admin('GET', `/keys/${id}`)).body;
  await fleet.settle();
  const prompt = 'text that must stay private';
  await chat({
    port: fleet.port(),
    key: value,
    model: 'echo-small',
    more: { messages: [{ role: 'user', content: prompt }] },
  });
  const exported = async (): Promise<string> => {
    return (await askAdmin(fleet.controlPlane.admin, '/usage/export?organisation=birch')).text();
  };
  await expect.poll(exported, { timeout: 5000 }).not.toBe('');
  const text = await exported();
  expect(JSON.parse(text)).toMatchObject({
    ...{ organisation: 'birch', model: 'echo-small', draw: 'pool', key: id, keyName },
  });
  expect(adminOperations['usage.export'].answer.parse(JSON.parse(text))).toEqual(JSON.parse(text));
  expect(text).not.toContain('private');
});
