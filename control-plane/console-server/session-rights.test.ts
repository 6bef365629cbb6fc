/**
 * Tests that no session ever has more rights than it was given, however it began and whatever happens to its person later.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Role } from '../../schemas/names.ts';
import { startControlPlaneAlone, type TestControlPlane } from '../../test/support/control-plane.ts';
import { operatorToken } from '../../test/support/fleet.ts';
import { IdentityProvider } from '../../test/support/identity-provider.ts';
import { until } from '../../test/support/until.ts';

const ways = [
  'operator token',
  'operator’s link',
  'owner’s link',
  'admin’s link',
  'demo',
  'invitation',
  'operator of the provider',
] as const;
type Way = (typeof ways)[number];
const laters = [
  'nothing',
  'promoted',
  'demoted',
  'removed',
  'removed and back',
  'organisation suspended',
  'organisation removed',
  'ended elsewhere',
] as const;
type Later = (typeof laters)[number];

/**
 * Rights of a session: those of the operator or of a role, `nothing` if the person is signed in without rights, or `over` if
 * the session has ended.
 */
type Rights = 'operator' | Role | 'nothing' | 'over';

function rightsAfter(way: Way, later: Later): Rights {
  if (later === 'ended elsewhere') return 'over';
  if (way === 'operator token' || way === 'operator of the provider') return 'operator';
  const isBound = way === 'owner’s link' || way === 'admin’s link';
  switch (later) {
    case 'promoted':
      return way === 'admin’s link' ? 'over' : 'owner';
    case 'demoted':
      return 'viewer';
    case 'removed':
    case 'organisation removed':
      return isBound ? 'over' : 'nothing';
    case 'removed and back':
      return isBound ? 'over' : 'member';
    default:
      return 'member';
  }
}

/** Statuses of four calls with each kind of rights: a read, a member's command, an owner's command, and a wait. */
const statusesOf: Record<Exclude<Rights, 'approver'>, readonly number[]> = {
  operator: [200, 200, 200, 200],
  owner: [200, 200, 200, 200],
  admin: [200, 200, 403, 200],
  member: [200, 200, 403, 200],
  viewer: [200, 403, 403, 200],
  nothing: [403, 403, 403, 403],
  over: [401, 401, 401, 401],
};

let provider: IdentityProvider;
let plane: TestControlPlane;
const cells = ways.flatMap((way) => laters.map((later) => [way, later] as const));
const organisationOf = (way: Way, later: Later): string =>
  `org-${ways.indexOf(way)}-${laters.indexOf(later)}`;
beforeAll(async () => {
  provider = await IdentityProvider.start(() => [`${plane.console}/oidc/callback`], { olga: ['headgate'] });
  const { issuer, client } = provider;
  const oidc = { issuer, clientId: client.id, clientSecret: client.secret, operatorGroup: 'headgate' };
  plane = await startControlPlaneAlone({
    console: { bind: '127.0.0.1', port: 0, hosts: [], oidc, demo: true },
  });
  await plane.admin.apply({
    version: 1,
    models: [],
    tiers: [{ id: 'Pro', models: '*' }],
    organisations: cells.map(([way, later]) => {
      const id = organisationOf(way, later);
      const members = [
        { person: `own-${id}`, role: 'owner' as const },
        { person: `adm-${id}`, role: 'admin' as const },
        { person: `per-${id}`, role: 'member' as const },
        { person: `oth-${id}`, role: 'viewer' as const },
      ];
      return { id, name: id, tier: 'Pro', members };
    }),
  });
});
afterAll(async () => {
  await plane?.close();
  await provider?.close();
});

async function call(cookie: string, method: string, path: string, body?: object): Promise<Response> {
  const headers = { cookie, 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' };
  const answer = await fetch(`${plane.console}/api${path}`, {
    method,
    headers,
    ...(body && { body: JSON.stringify(body) }),
  });
  return answer;
}
const cookieIn = (answer: Response, name: RegExp): string =>
  answer.headers
    .getSetCookie()
    .map((line) => line.split(';', 1)[0] ?? '')
    .find((pair) => name.test(pair) && !pair.endsWith('=')) ?? '';

async function signIn(body: object): Promise<string> {
  const answer = await call('', 'POST', '/session', body);
  expect(answer.status).toBe(200);
  await answer.text();
  return cookieIn(answer, /^__Host-headgate-\d/);
}

async function byProvider(account: string, invitation?: string): Promise<string> {
  const begun = await call('', 'POST', '/oidc', { invitation });
  const { url } = (await begun.json()) as { url: string };
  const answer = await fetch(await provider.signIn(url, account), {
    redirect: 'manual',
    headers: { cookie: cookieIn(begun, /^__Host-headgate-oidc/) },
  });
  return cookieIn(answer, /^__Host-headgate-\d/);
}

/** Creates a link and returns the part of its address after the `#`. */
async function made(cookie: string, path: string, body: object): Promise<string> {
  const answer = await call(cookie, 'POST', path, body);
  const { url } = (await answer.json()) as { url: string };
  return url.split('#')[1] ?? '';
}

async function begin(way: Way, id: string): Promise<string> {
  const link = async (maker: object): Promise<string> =>
    signIn({ link: await made(await signIn(maker), `/organisations/${id}/members/per-${id}/link`, {}) });
  if (way === 'operator token') return signIn({ operatorToken });
  if (way === 'operator’s link') return link({ operatorToken });
  if (way === 'owner’s link') return link({ demo: `own-${id}` });
  if (way === 'admin’s link') return link({ demo: `adm-${id}` });
  if (way === 'demo') return signIn({ demo: `per-${id}` });
  if (way === 'operator of the provider') return byProvider('olga');
  const text = await made(await signIn({ demo: `own-${id}` }), `/organisations/${id}/invitations`, {
    role: 'member',
  });
  return byProvider(`acc-${id}`, text.replace('invitation.', ''));
}

async function happen(later: Later, id: string, person: string, cookie: string): Promise<void> {
  const member = `/organisations/${id}/members/${person}`;
  const { admin } = plane;
  if (later === 'promoted') await admin.call('PUT', member, { role: 'owner' });
  if (later === 'demoted') await admin.call('PUT', member, { role: 'viewer' });
  if (later.startsWith('removed')) await admin.call('DELETE', member);
  if (later === 'removed and back') await admin.call('PUT', member, { role: 'member' });
  if (later === 'organisation suspended')
    await admin.call('PATCH', `/organisations/${id}`, { suspended: true });
  if (later === 'organisation removed') await admin.call('DELETE', `/organisations/${id}?force=true`);
  if (later === 'ended elsewhere') await (await call(cookie, 'DELETE', '/session', {})).text();
}

class Following {
  text = '';
  isOver = false;
  #leave: () => Promise<void>;

  constructor(answer: Response) {
    const reader = (answer.body as ReadableStream<Uint8Array>)
      .pipeThrough(new TextDecoderStream())
      .getReader();
    this.#leave = () => reader.cancel();
    const read = async (): Promise<void> => {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        this.text += value;
      }
      this.isOver = true;
    };
    read().catch(() => {
      this.isOver = true;
    });
  }

  /** Whether the stream continues until it has reported this position. */
  async continuesTo(position: number): Promise<boolean> {
    const numbers = (): number[] =>
      [...this.text.matchAll(/"position":(\d+)/g)].map(([, number]) => Number(number));
    await until(async () => this.isOver || Math.max(0, ...numbers()) >= position);
    if (!this.isOver) await this.#leave();
    return !this.text.includes('event: ended');
  }
}

describe('what a session may do', () => {
  test.each(cells)('by %s, then %s', async (way, later) => {
    const id = organisationOf(way, later);
    const cookie = await begin(way, id);
    const { person = `per-${id}` } = (await (await call(cookie, 'GET', '/me')).json()) as { person?: string };
    const stream = new Following(await call(cookie, 'GET', '/stream'));
    await until(async () => stream.text.includes('event: pulse'));
    await happen(later, id, person, cookie);
    const model = { family: 'f', added: '2026-01-01T00:00:00Z', weight: 1 };
    const { position } = await plane.admin.call('PUT', `/models/m-${id}`, model);
    const rights = rightsAfter(way, later);
    const continued = await stream.continuesTo(Number(position));
    const answers = [
      await call(cookie, 'GET', `/keys?organisation=${id}`),
      await call(cookie, 'POST', '/keys?dryRun=true', { organisation: id, name: 'k', expires: '30d' }),
      await call(cookie, 'PUT', `/organisations/${id}/members/oth-${id}?dryRun=true`, { role: 'owner' }),
      await call(cookie, 'GET', '/confirmations/1?timeoutSeconds=0'),
    ];
    const isGone = rights === 'operator' && later === 'organisation removed';
    expect([answers.map(({ status }) => status), continued]).toEqual([
      isGone ? [200, 404, 404, 200] : statusesOf[rights as keyof typeof statusesOf],
      rights === 'operator' ||
        (statusesOf[rights as keyof typeof statusesOf][0] === 200 && !later.startsWith('removed')),
    ]);
  });
});
