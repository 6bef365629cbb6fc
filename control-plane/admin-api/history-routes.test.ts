import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { askAdmin } from '../../test/support/ask-admin.ts';
import { startFleet, type TestFleet } from '../../test/support/fleet.ts';
import { until } from '../../test/support/until.ts';

type Json = Record<string, unknown>;
let fleet: TestFleet;
beforeAll(async () => {
  fleet = await startFleet();
});
afterAll(() => fleet.close());

async function call(
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ status: number; body: Json }> {
  const response = await askAdmin(fleet.controlPlane.admin, path, { method, body, headers });
  return { status: response.status, body: (await response.json()) as Json };
}
async function done(method: string, path: string, body?: unknown): Promise<Json> {
  const answer = await call(method, path, body);
  expect([path, answer.status, answer.body]).toEqual([path, 200, answer.body]);
  return answer.body;
}
const messageOf = ({ body }: { body: Json }): string => String((body['error'] as Json)['message']);
const types = (answer: Json): unknown[] => (answer['items'] as Json[]).map(({ type }) => type);

test('a commit is shown with each field of each row before and after, without hashes', async () => {
  const set = await done('PUT', '/tiers/Time', { models: '*', concurrency: 2 });
  const changed = await done('PUT', '/tiers/Time', { models: '*', concurrency: 5 });
  const shown = await done('GET', `/events/${changed['position']}`);
  expect(shown['changes']).toEqual([
    {
      action: 'change',
      table: 'tier',
      id: 'Time',
      fields: [{ field: 'concurrency', before: 2, after: 5 }],
    },
  ]);
  const between = await done('GET', `/changes?from=${Number(set['position']) - 1}&to=${set['position']}`);
  expect(between['items']).toMatchObject([
    { action: 'create', table: 'tier', id: 'Time' },
    { action: 'create', table: 'tier_model', id: 'Time/*' },
  ]);
  const key = await done('POST', '/keys', { organisation: 'acme', name: 'shown', expires: 'never' });
  const made = JSON.stringify(await done('GET', `/changes?from=${Number(key['position']) - 1}`));
  expect(made).toContain('shown');
  expect(made).not.toContain('hash');
});

test('events are listed from the newest, filtered by subject', async () => {
  const { id } = await done('POST', '/keys', { organisation: 'acme', name: 'listed', expires: 'never' });
  await done('POST', `/keys/${id}/revoke?why=it+leaked`);
  await done('PUT', '/organisations/acme/members/lea', { role: 'viewer' });
  const newest = await done('GET', '/events?order=desc&limit=1');
  expect(types(newest)).toEqual(['member.set']);
  expect(newest['nextTo']).toBe(Number(newest['position']) - 1);
  expect(types(await done('GET', `/events?key=${id}`))).toEqual(['key.created', 'key.revoked']);
  expect(types(await done('GET', `/events?order=desc&organisation=acme&limit=3`))).toEqual([
    'member.set',
    'key.revoked',
    'key.created',
  ]);
  expect(types(await done('GET', `/events?text=IT+LEAKED`))).toEqual(['key.revoked']);
  expect(types(await done('GET', `/events?organisation=nobody`))).toEqual([]);
  expect(types(await done('GET', `/events?key=${id}&type=key.revoked&actor=operator`))).toEqual([
    'key.revoked',
  ]);
  const before = await done('GET', `/events?at=${Number(newest['position']) - 1}&order=desc&limit=1`);
  expect(types(before)).toEqual(['key.revoked']);
  const pages: unknown[] = [];
  for (let to: unknown; ; ) {
    const page = await done('GET', `/events?order=desc&limit=4${to === undefined ? '' : `&to=${to}`}`);
    pages.push(...(page['items'] as Json[]).map(({ position, index }) => `${position}/${index}`));
    to = page['nextTo'];
    if (to === undefined) break;
  }
  const all = (await done('GET', '/events'))['items'] as Json[];
  expect(pages.reverse().slice(0, all.length)).toEqual(
    all.map(({ position, index }) => `${position}/${index}`),
  );
  const { at } = all.at(-3) ?? {};
  const later = all.filter((event) => String(event['at']) >= String(at));
  for (const [since, expected] of [
    [at, later],
    ['10000d', all],
    ['2999-01-01T00:00:00Z', []],
  ] as const) {
    expect((await done('GET', `/events?since=${since}`))['items']).toEqual(expected);
    const latest = await done('GET', `/events?since=${since}&order=desc&limit=2`);
    expect(latest['items']).toEqual(expected.toReversed().slice(0, 2));
  }
});

test('a read of the past uses that time and its clock, and resources without a past refuse it by name', async () => {
  const { id, position } = await done('POST', '/keys', { organisation: 'acme', name: 'a', expires: '30d' });
  await done('POST', `/keys/${id}/revoke`);
  expect(await done('GET', `/keys/${id}?at=${position}`)).toMatchObject({ state: 'active' });
  const { at } = await done('GET', `/events/${position}`);
  expect(await done('GET', `/keys/${id}?at=${at}`)).toMatchObject({ name: 'a' });
  expect((await call('GET', `/keys/${id}?at=1`)).status).toBe(404);
  for (const path of ['/gateways?at=3', '/usage?organisation=acme&at=3', '/usage/export?at=3', '/log?at=3']) {
    const refused = await call('GET', path);
    const name = path.slice(1, path.indexOf('?'));
    expect([refused.status, messageOf(refused)]).toEqual([400, `GET ${name} shows only the present`]);
  }
  expect(messageOf(await call('GET', '/keys?at=yesterday'))).toContain('at takes a position, a time');
});

const inverses: [string, string, unknown, string][] = [
  ['POST', '/nodes/pool-1/drain?force=true', undefined, 'POST /nodes/pool-1/undrain'],
  ['PUT', '/organisations/acme/members/uma', { role: 'viewer' }, 'DELETE /organisations/acme/members/uma'],
  ['PUT', '/tiers/Undone', { models: '*', concurrency: 3 }, 'DELETE /tiers/Undone'],
  ['PUT', '/models/undone-7b', { family: 'Undone' }, 'DELETE /models/undone-7b'],
  ['PATCH', '/organisations/acme', { suspended: true }, 'PATCH /organisations/acme'],
  ['POST', '/stacks', { organisation: 'acme', id: 'stk-undo-me-1' }, 'DELETE /stacks/stk-undo-me-1'],
];

test.each(inverses)(
  '%s %s can be undone, and leaves the state as it was',
  async (method, path, body, line) => {
    const before = await done('GET', '/status');
    const { position } = await done(method, path, body);
    const inverse = await done('GET', `/events/${position}/undo`);
    expect(`${inverse['method']} ${inverse['path']}`).toBe(line);
    await done(String(inverse['method']), String(inverse['path']), inverse['body']);
    const after = await done('GET', `/changes?from=${before['position']}`);
    expect((after['items'] as Json[]).filter(({ table }) => table !== 'node')).toEqual([]);
  },
);

test('a commit of several events is undone by one commit, with a command for each, last one first', async () => {
  const before = await done('GET', '/status');
  const stack = 'stk-undo-all-1';
  const fleet = {
    version: 1,
    models: [{ id: 'undone-8b', family: 'Undone', weight: 1 }],
    tiers: [{ id: 'Undone', models: ['undone-8b'] }],
    organisations: [
      { id: 'newt', name: 'Newt', tier: 'Undone', stacks: [{ id: stack, models: ['undone-8b'] }] },
    ],
  };
  const { position } = await done('POST', '/fleet/apply', { fleet });
  const { commands, ...others } = await done('GET', `/events/${position}/undo`);
  const lines = (commands as Json[]).map(({ method, path }) => `${method} ${path}`);
  expect(lines).toEqual([
    `DELETE /stacks/${stack}/models/undone-8b`,
    `DELETE /stacks/${stack}`,
    'DELETE /organisations/newt',
    'DELETE /tiers/Undone',
    'DELETE /models/undone-8b',
  ]);
  // A client that does not know the field `commands` must not find any command elsewhere in the answer.
  expect(others).toEqual({ of: position, position });
  const undo = `/events/${position}/undo`;
  const dry = await done('POST', `${undo}?dryRun=true`);
  expect(dry).toMatchObject({ of: position, commands, dryRun: true });
  const moved = await call('POST', undo, undefined, { 'if-match': `"${Number(position) - 1}"` });
  expect(moved).toMatchObject({ status: 409, body: { error: { type: 'PositionMoved' } } });
  expect(await done('GET', `/stacks/${stack}`)).toMatchObject({ id: stack });
  const { position: ifAt } = await done('GET', '/status');
  const once = { 'idempotency-key': 'undo-of-newt', 'if-match': `"${ifAt}"` };
  const first = await call('POST', undo, undefined, once);
  expect(first).toMatchObject({ status: 200, body: { of: position, commands } });
  const { position: undone } = first.body;
  const { events } = await done('GET', `/events/${undone}`);
  expect((events as Json[]).map(({ type }) => type)).toEqual([
    ...['stack.model_uninstalled', 'stack.removed', 'organisation.removed', 'tier.removed', 'model.removed'],
  ]);
  const after = await done('GET', `/changes?from=${before['position']}`);
  expect((after['items'] as Json[]).filter(({ table }) => table !== 'node')).toEqual([]);
  // A client whose connection broke can repeat the undo, although there is nothing left to undo.
  const again = await call('POST', undo, undefined, once);
  expect(again).toMatchObject({ status: 200, body: { of: position, repeated: true, position: undone } });
});

test('if one command of an undo is refused, none is carried out', async () => {
  const models = [{ id: 'undone-9b', family: 'Undone', weight: 1 }];
  const tiers = [{ id: 'Undone-9', models: ['undone-9b'] }];
  const organisations = [{ id: 'olm', name: 'Olm', tier: 'Undone-9' }];
  const fleet = { version: 1, models, tiers, organisations };
  const { position } = await done('POST', '/fleet/apply', { fleet });
  // The commit's organisation could be removed, but by now another organisation uses its tier.
  const later = await done('POST', '/organisations', { id: 'elm', name: 'Elm', tier: 'Undone-9' });
  const refused = await call('POST', `/events/${position}/undo`);
  expect(refused.status).toBe(409);
  expect(messageOf(refused)).toContain('Undone-9');
  expect(await done('GET', '/organisations/olm')).toMatchObject({ tier: 'Undone-9' });
  expect(types(await done('GET', `/events?from=${later['position']}`))).toEqual(['organisation.set']);
});

test('commits that cannot be undone, or whose rows have changed since, are refused by name', async () => {
  const { id } = await done('POST', '/keys', { organisation: 'acme', name: 'gone', expires: 'never' });
  const { position } = await done('POST', `/keys/${id}/revoke`);
  expect(messageOf(await call('GET', `/events/${position}/undo`))).toBe(
    `commit ${position} has no inverse: a revoked key stays revoked; create a new one`,
  );
  const first = await done('PUT', '/tiers/Twice', { models: '*', concurrency: 3 });
  await done('PUT', '/tiers/Twice', { models: '*', concurrency: 4 });
  expect(messageOf(await call('GET', `/events/${first['position']}/undo`))).toContain('have changed since');
  expect((await call('GET', '/events/999999/undo')).status).toBe(404);
});

test('a commit can be undone while others keep committing', async () => {
  const { position } = await done('PATCH', '/organisations/acme', { name: 'Acme & Sons' });
  let isOver = false;
  let commits = 0;
  const member = async (tier: string): Promise<void> => {
    while (!isOver) await done('PUT', `/tiers/${tier}`, { models: '*', concurrency: ++commits });
  };
  // Runs so many writers that another commit is always waiting.
  const members = Array.from({ length: 20 }, (_, index) => member(`Busy-${index}`));
  await until(() => commits > 40);
  const undone = await call('POST', `/events/${position}/undo`).finally(() => {
    isOver = true;
  });
  await Promise.all(members);
  expect([undone.status, undone.body]).toMatchObject([200, { of: position }]);
  expect(Number(undone.body['position'])).toBeGreaterThan(Number(position) + 20);
  expect(await done('GET', '/organisations/acme')).not.toMatchObject({ name: 'Acme & Sons' });
});

// This test must run last, because it cuts the fleet's history.
test('a repeated undo is answered even if the history has been cut since', async () => {
  const { position } = await done('PATCH', '/organisations/acme', { name: 'Acme Cut' });
  const undo = `/events/${position}/undo`;
  const once = { 'idempotency-key': 'undo-before-the-cut' };
  const first = await call('POST', undo, undefined, once);
  expect(first.status).toBe(200);
  const { position: undone } = first.body;
  // Waits until the history contains the commit.
  await done('GET', `/events/${undone}`);
  const history = openDatabase(join(fleet.dir, 'control-plane', 'history.db'), { durability: 'normal' });
  // Simulates a cut of the history, which never removes the last span.
  history.prepare('UPDATE span SET seq = ?').run(undone);
  history.close();
  expect(await call('POST', undo)).toMatchObject({ status: 404, body: { error: { type: 'NotFound' } } });
  const again = await call('POST', undo, undefined, once);
  expect(again).toMatchObject({ status: 200, body: { of: position, repeated: true, position: undone } });
  const other = await call('POST', `/events/${undone}/undo`, undefined, once);
  expect(other).toMatchObject({ status: 409, body: { error: { type: 'Conflict' } } });
});
