/** Tests over real HTTP, on a real control plane, that one member's load never keeps others from running commands. */
import { Agent, request } from 'node:http';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { boundDefaults } from '../../schemas/shapes.ts';
import { startControlPlaneAlone, type TestControlPlane } from '../../test/support/control-plane.ts';
import { operatorToken } from '../../test/support/fleet.ts';
import { CallerQueue } from '../state/caller-queue.ts';
import { CommandShares, commandCaller } from './command-shares.ts';
import { commands } from './registry.ts';

let plane: TestControlPlane;
beforeAll(async () => {
  plane = await startControlPlaneAlone();
});
afterAll(() => plane.close());

/** Each test uses other people, because no test waits until the minute has passed. */
let round = 0;
const person = (name: string) => `${name}-${round}`;
const anyRate = { commandsPerPersonPerMinute: 1_000_000, commandsPerOrganisationPerMinute: 1_000_000 };
beforeEach(async () => {
  round++;
  const members = ['mem', 'own', 'two'].map((name) => ({ person: person(name), role: 'owner' as const }));
  await plane.admin.apply({
    version: 1,
    bounds: {},
    organisations: [
      { id: person('acme'), name: 'Acme', members },
      { id: person('birch'), name: 'Birch', members: [{ person: person('ben'), role: 'owner' }] },
    ],
  });
});
const setBounds = (bounds: object) => plane.admin.apply({ version: 1, bounds });

interface Sent {
  readonly status: number;
  readonly type: string | undefined;
  readonly retryAfter: string | undefined;
}

function send(method: string, path: string, body: unknown, as?: string, agent?: Agent): Promise<Sent> {
  const headers = {
    authorization: `Bearer ${operatorToken}`,
    ...(method !== 'DELETE' && { 'content-type': 'application/json' }),
    ...(as !== undefined && { 'x-headgate-as': as }),
  };
  return new Promise((resolve, reject) => {
    const sent = request(`${plane.url}/admin/v1${path}`, { method, headers, agent }, async (answer) => {
      let text = '';
      for await (const part of answer) text += part;
      const type = (JSON.parse(text) as { error?: { type: string } }).error?.type;
      resolve({ status: answer.statusCode ?? 0, type, retryAfter: answer.headers['retry-after'] });
    });
    sent.on('error', reject);
    sent.end(method === 'DELETE' ? undefined : JSON.stringify(body));
  });
}

const createKey = (organisation: string, as?: string, agent?: Agent, query = '') =>
  send('POST', `/keys${query}`, { organisation: person(organisation), name: 'k', expires: '30d' }, as, agent);

test.each([['without a rate', anyRate] as const, ['with the default bounds', {}] as const])(
  'a member who floods keeps neither operators nor other organisations out, %s',
  async (_name, bounds) => {
    await setBounds(bounds);
    const keys: string[] = [];
    for (let n = 0; n < 5; n++)
      keys.push(
        (
          await plane.admin.call('POST', '/keys', {
            organisation: person('birch'),
            name: 'k',
            expires: '30d',
          })
        ).id,
      );
    // Uses another address than the other callers, as a real client would.
    const agent = new Agent({
      keepAlive: true,
      localAddress: process.platform === 'linux' ? '127.0.0.9' : undefined,
    });
    let [done, refused] = [0, 0];
    const flood = Array.from({ length: 1200 }, async () => {
      // This test is not about connections that fail, so ignore their errors.
      const answer = await createKey('acme', person('mem'), agent).catch(() => undefined);
      if (answer?.status === 200) done++;
      else refused++;
    });
    await expect.poll(() => refused, { timeout: 60_000, interval: 1 }).toBeGreaterThan(0);
    const others = await Promise.all([
      ...keys.map((id) => send('POST', `/keys/${id}/revoke`, {})),
      ...keys.map(() => createKey('birch', person('ben'))),
    ]);
    const doneBefore = done;
    await Promise.all(flood);
    agent.destroy();
    expect(others.map(({ status }) => status)).toEqual(others.map(() => 200));
    expect(doneBefore).toBeLessThan(600);
  },
);

const ofMembers = commands.filter(({ access }) => access !== 'operator');

test.each(ofMembers)('$name uses up the person’s share, whatever its outcome', async ({ method, path }) => {
  await setBounds({ commandsPerPersonPerMinute: 1 });
  const url = path.replaceAll(/:[a-z]+/g, 'nothing');
  const first = await send(method, `${url}?dryRun=true`, {}, person('mem'));
  expect([400, 403]).toContain(first.status);
  const second = await send(method, url, {}, person('mem'));
  expect(second).toMatchObject({ status: 429, type: 'TooManyRequests' });
  expect(Number(second.retryAfter)).toBeGreaterThan(50);
  expect(Number(second.retryAfter)).toBeLessThanOrEqual(60);
  for (const as of [undefined, person('own')]) expect((await send(method, url, {}, as)).status).not.toBe(429);
});

test('refused commands and dry runs count as much as successful ones', async () => {
  await setBounds({ commandsPerPersonPerMinute: 5 });
  const as = person('mem');
  const statuses = [
    await createKey('acme', as, undefined, '?dryRun=true'),
    await createKey('acme', as),
    await send('POST', '/keys', { organisation: person('acme') }, as),
    await createKey('birch', as),
    await send('DELETE', `/organisations/${person('acme')}/members/nobody`, {}, as),
    await createKey('acme', as),
  ].map(({ status }) => status);
  expect(statuses).toEqual([200, 200, 400, 403, 404, 429]);
});

test('an organisation’s members share its allowance, which nobody else can use up', async () => {
  await setBounds({ commandsPerOrganisationPerMinute: 2 });
  for (let n = 0; n < 4; n++) expect((await createKey('acme', person('ben'))).status).toBe(403);
  expect((await createKey('acme', person('mem'))).status).toBe(200);
  expect((await createKey('acme', person('own'))).status).toBe(200);
  expect(await createKey('acme', person('two'))).toMatchObject({ status: 429, type: 'TooManyRequests' });
  expect((await createKey('birch', person('ben'))).status).toBe(200);
  expect((await createKey('acme')).status).toBe(200);
});

test('bounds in a fleet file apply at once, are exported, and can be undone with their commit', async () => {
  expect(await plane.admin.call('GET', '/bounds')).toEqual(boundDefaults);
  const { position, changes } = await setBounds({ activeKeysPerOrganisation: 1 });
  expect(changes).toMatchObject([{ kind: 'bounds', fields: ['activeKeysPerOrganisation'] }]);
  expect((await setBounds({ activeKeysPerOrganisation: 1 })).changes).toEqual([]);
  expect((await plane.admin.exportFleet()).bounds).toEqual({ activeKeysPerOrganisation: 1 });
  expect((await createKey('acme', person('mem'))).status).toBe(200);
  expect(await createKey('acme', person('mem'))).toMatchObject({ status: 409, type: 'Conflict' });
  expect((await createKey('acme')).status).toBe(409);
  await plane.admin.call('POST', `/events/${position}/undo`);
  expect((await createKey('acme', person('mem'))).status).toBe(200);
  expect(await plane.admin.call('GET', '/bounds')).toEqual(boundDefaults);
});

test('in every minute, a person may give exactly as many commands as the bound allows', () => {
  const gaps = fc.array(fc.oneof(fc.nat(2000), fc.nat(40_000)), { maxLength: 60 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 6 }), gaps, (commandsPerPersonPerMinute, waits) => {
      let nowMs = 0;
      const shares = new CommandShares(() => nowMs);
      const given: number[] = [];
      for (const wait of waits) {
        nowMs += wait;
        const recent = given.filter((atMs) => atMs > nowMs - 60_000).length;
        const give = () =>
          shares.countPerson({ person: 'ana' }, { ...boundDefaults, commandsPerPersonPerMinute });
        if (recent < commandsPerPersonPerMinute) {
          give();
          given.push(nowMs);
        } else expect(give).toThrow(expect.objectContaining({ type: 'TooManyRequests' }));
      }
    }),
  );
});

const waitMs = 10_000;
const sizes = {
  what: 'commands',
  concurrencyMax: 1,
  waitersMax: 20,
  waitersPerCallerMax: 3,
  waitersPerOrganisationMax: 5,
  waitMs,
};

/**
 * Returns the callers in the order in which they were served while another call ran, then `busy` for those that found the
 * queue full.
 */
async function served(names: readonly string[]): Promise<string[]> {
  const queue = new CallerQueue(sizes);
  const end = await queue.acquire('running');
  const order: string[] = [];
  const refused: string[] = [];
  const waiting = names.map(async (name) => {
    const [who, organisation] = name.split('@');
    const caller =
      who === 'operator' ? { caller: who, isFirst: true } : commandCaller({ person: who }, organisation);
    try {
      const next = await queue.acquire(caller);
      order.push(name);
      setImmediate(next);
    } catch (error) {
      expect(error).toMatchObject({ type: 'Busy', status: 503 });
      refused.push(`busy ${name}`);
    }
  });
  await new Promise(setImmediate);
  end();
  await Promise.all(waiting);
  return [...order, ...refused];
}

test.each<[rule: string, waiting: string[], order: string[]]>([
  ['persons alternate', ['a@x', 'a@x', 'b@y'], ['a@x', 'b@y', 'a@x']],
  [
    'organisations alternate, whatever their number of persons',
    ['a@x', 'b@x', 'c@x', 'd@y'],
    ['a@x', 'd@y', 'b@x', 'c@x'],
  ],
  [
    'a person has one share across all organisations',
    ['a@x', 'a@y', 'a@z', 'b@w'],
    ['a@x', 'b@w', 'a@y', 'a@z'],
  ],
  ['operators come first', ['a@x', 'b@y', 'operator', 'operator'], ['operator', 'operator', 'a@x', 'b@y']],
  ['a person can fill one share', ['a@x', 'a@y', 'a@z', 'a@w'], ['a@x', 'a@y', 'a@z', 'busy a@w']],
  [
    'an organisation can fill one share',
    ['a@x', 'b@x', 'c@x', 'd@x', 'e@x', 'f@x'],
    ['a@x', 'b@x', 'c@x', 'd@x', 'e@x', 'busy f@x'],
  ],
])('in the queue %s', async (_rule, waiting, order) => {
  expect(await served(waiting)).toEqual(order);
});

test('a queue full of members’ commands has room for operators and the replica', async () => {
  const members = Array.from({ length: 25 }, (_, index) => `p${index}@o${index}`);
  const order = await served([...members, 'operator']);
  expect(order[0]).toBe('operator');
  expect(order.filter((name) => name.startsWith('busy'))).toHaveLength(5);
});
