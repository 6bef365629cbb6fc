/**
 * Tests signing in through a real identity provider: who can sign in, with which invitation, and which answers are rejected.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { Sealer } from '../../shared/runtime/sealed-text.ts';
import { askAdmin } from '../../test/support/ask-admin.ts';
import { startControlPlaneAlone, type TestControlPlane } from '../../test/support/control-plane.ts';
import { operatorToken } from '../../test/support/fleet.ts';
import { IdentityProvider, strangeKey } from '../../test/support/identity-provider.ts';
import { until } from '../../test/support/until.ts';

let provider: IdentityProvider;
let plane: TestControlPlane;
beforeAll(async () => {
  provider = await IdentityProvider.start(() => [`${plane.console}/oidc/callback`], {
    olga: ['headgate'],
    otto: ['headgate'],
  });
  const { issuer, client } = provider;
  const oidc = { issuer, clientId: client.id, clientSecret: client.secret, operatorGroup: 'headgate' };
  plane = await startControlPlaneAlone({ console: { bind: '127.0.0.1', port: 0, hosts: [], oidc } });
  await plane.admin.apply({
    version: 1,
    models: [],
    tiers: [{ id: 'Pro', models: '*' }],
    organisations: [
      {
        id: 'acme',
        name: 'Acme',
        tier: 'Pro',
        members: [
          { person: 'own', role: 'owner' },
          { person: 'ada', role: 'admin' },
        ],
      },
    ],
  });
});
afterAll(async () => {
  await plane?.close();
  await provider?.close();
});

const cookieIn = (answer: Response, name: RegExp): string | undefined =>
  answer.headers
    .getSetCookie()
    .map((line) => line.split(';', 1)[0] ?? '')
    .find((pair) => name.test(pair) && !pair.endsWith('='));
const own = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' };

async function begin(invitation?: string): Promise<{ url: string; cookie: string; flags: string }> {
  const answer = await fetch(`${plane.console}/api/oidc`, {
    method: 'POST',
    headers: own,
    body: JSON.stringify({ invitation }),
  });
  expect(answer.status).toBe(200);
  const { url } = (await answer.json()) as { url: string };
  const cookie = cookieIn(answer, /^__Host-headgate-oidc-/) ?? '';
  return { url, cookie, flags: answer.headers.getSetCookie().join('\n') };
}

/** Delivers the provider's answer as a browser does. Returns the target of the redirect, and the session if there is one. */
async function comeBack(address: string, cookie: string) {
  const answer = await fetch(address, {
    redirect: 'manual',
    headers: { cookie, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' },
  });
  await answer.text();
  return { to: answer.headers.get('location'), session: cookieIn(answer, /^__Host-headgate-\d/) };
}

async function signIn(account: string, invitation?: string) {
  const { url, cookie } = await begin(invitation);
  return comeBack(await provider.signIn(url, account), cookie);
}

interface Me {
  readonly operator: boolean;
  readonly person?: string;
  readonly actor?: string;
  readonly organisations: readonly { readonly id: string; readonly role: string }[];
}
async function me(cookie: string | undefined): Promise<Me> {
  const answer = await fetch(`${plane.console}/api/me`, { headers: { cookie: cookie ?? '' } });
  return (await answer.json()) as Me;
}

async function invite(role: string, as?: string): Promise<{ status: number; invitation: string }> {
  const answer = await askAdmin(plane.url, '/organisations/acme/invitations', { body: { role }, as });
  const { url = '' } = (await answer.json()) as { url?: string };
  return { status: answer.status, invitation: url.split('#invitation.')[1] ?? '' };
}

describe('signing in with a provider', () => {
  test('makes a person in the operators’ group an operator', async () => {
    const { to, session } = await signIn('olga');
    expect([to, (await me(session)).operator]).toEqual(['/', true]);
  });

  test('names each operator in the log, and signing out everywhere ends only that operator’s sessions', async () => {
    const [olga, otto] = [(await signIn('olga')).session, (await signIn('otto')).session];
    const send = (method: string, path: string, session = '', body: object = {}) =>
      fetch(`${plane.console}/api${path}`, {
        method,
        headers: { ...own, cookie: session },
        body: JSON.stringify(body),
      });
    const names: string[] = [];
    for (const session of [olga, otto]) {
      const key = { organisation: 'acme', name: 'by an operator', expires: '30d' };
      const { position } = (await (await send('POST', '/keys', session, key)).json()) as { position: number };
      const { items } = await plane.admin.call('GET', `/events?from=${position}&to=${position}`);
      names.push(String((items as { by: string }[])[0]?.by));
      expect((await me(session)).actor).toBe(names.at(-1));
    }
    expect(names).toEqual(Array(2).fill(expect.stringMatching(/^operator:p-[a-z2-7]{20}$/)));
    expect(names[0]).not.toBe(names[1]);
    expect((await send('DELETE', '/session', olga, { everywhere: true })).status).toBe(200);
    await until(async () => (await me(olga)).operator === undefined);
    expect((await me(otto)).operator).toBe(true);
  });

  test('gives anyone else a stable opaque id and no membership', async () => {
    const [first, second] = [await signIn('sam'), await signIn('sam')];
    const { operator, person = '', organisations } = await me(first.session);
    expect([operator, organisations]).toEqual([false, []]);
    expect(person).toMatch(/^p-[a-z2-7]{20}$/);
    expect((await me(second.session)).person).toBe(person);
    expect((await me((await signIn('tom')).session)).person).not.toBe(person);
  });
});

describe('invitations', () => {
  test('an invitation makes one person a member with its role, once', async () => {
    const { invitation } = await invite('member', 'ada');
    const { session } = await signIn('ina', invitation);
    expect((await me(session)).organisations).toMatchObject([{ id: 'acme', role: 'member' }]);
    const second = await signIn('ivo', invitation);
    expect([second.to, second.session]).toEqual(['/sign-in?failed=invitation', undefined]);
    // An existing member is not changed and does not use up the invitation.
    const other = await invite('viewer', 'ada');
    await signIn('ina', other.invitation);
    expect((await me(session)).organisations).toMatchObject([{ role: 'member' }]);
    expect((await me((await signIn('ivo', other.invitation)).session)).organisations).toMatchObject([
      { role: 'viewer' },
    ]);
  });

  test('nobody can invite with a role that they cannot give, even if only later', async () => {
    expect((await invite('owner', 'ada')).status).toBe(403);
    expect((await invite('viewer', 'nobody')).status).toBe(403);
    const { invitation } = await invite('viewer', 'ada');
    await plane.admin.call('PUT', '/organisations/acme/members/ada', { role: 'viewer' });
    expect((await signIn('una', invitation)).to).toBe('/sign-in?failed=invitation');
    await plane.admin.call('PUT', '/organisations/acme/members/ada', { role: 'admin' });
  });

  test('a text that is not an invitation is refused', async () => {
    const forged = await signIn('eve', 'a'.repeat(400));
    expect([forged.to, forged.session]).toEqual(['/sign-in?failed=invitation', undefined]);
  });
});

describe('a sign-in response', () => {
  test('is tied to its request by PKCE, state and nonce, in a cookie that no sibling name can set', async () => {
    const { url, flags } = await begin();
    const query = new URL(url).searchParams;
    expect(query.get('code_challenge_method')).toBe('S256');
    for (const name of ['state', 'nonce', 'code_challenge'])
      expect(query.get(name)?.length).toBeGreaterThan(40);
    expect(flags).toMatch(
      /^__Host-headgate-oidc-\d+=[\w-]+; Path=\/; Secure; HttpOnly; SameSite=Lax; Max-Age=600$/,
    );
  });

  test('is refused from another browser, without a cookie, twice, with another state, or if it is a refusal', async () => {
    const [mine, theirs] = [await begin(), await begin()];
    const address = await provider.signIn(mine.url, 'sam');
    expect((await comeBack(address, theirs.cookie)).to).toBe('/sign-in?failed=expired');
    expect((await comeBack(address, '')).to).toBe('/sign-in?failed=expired');
    const wrong = new URL(address);
    wrong.searchParams.set('state', 'x');
    expect((await comeBack(wrong.href, mine.cookie)).to).toBe('/sign-in?failed=expired');
    expect((await comeBack(address, mine.cookie)).session).toBeDefined();
    const again = await comeBack(address, mine.cookie);
    expect([again.to, again.session]).toEqual(['/sign-in?failed=provider', undefined]);
    const refused = new URL(address);
    refused.search = `?error=access_denied&state=${new URL(address).searchParams.get('state')}`;
    expect((await comeBack(refused.href, mine.cookie)).to).toBe('/sign-in?failed=provider');
  });

  test('is refused with another sign-in’s code, even with the right state', async () => {
    const [mine, theirs] = [await begin(), await begin()];
    const stolen = new URL(await provider.signIn(theirs.url, 'sam'));
    stolen.searchParams.set('state', new URL(mine.url).searchParams.get('state') ?? '');
    const { to, session } = await comeBack(stolen.href, mine.cookie);
    expect([to, session]).toEqual(['/sign-in?failed=provider', undefined]);
  });
});

describe('an ID token', () => {
  test('signed with an unpublished key is refused, even if the provider publishes none', async () => {
    const { keys } = (await (await fetch(`${provider.issuer}/jwks`)).json()) as { keys: { kid: string }[] };
    for (const published of [[strangeKey()], [strangeKey(keys[0]?.kid)], []]) {
      provider.published = published;
      const refused = await signIn('olga');
      expect([refused.to, refused.session]).toEqual(['/sign-in?failed=provider', undefined]);
    }
    provider.published = undefined;
    expect((await signIn('olga')).session).toBeDefined();
  });

  test('signed with the provider’s new key is accepted at once', async () => {
    expect((await signIn('sam')).session).toBeDefined();
    provider.rotateKey();
    expect((await signIn('sam')).session).toBeDefined();
  });
});

describe('an operator’s rights from a provider', () => {
  test('last an hour whatever the operator does, so that leaving the group takes effect', async () => {
    const [name = '', value = ''] = ((await signIn('olga')).session ?? '').split('=');
    const sealer = new Sealer(operatorToken, 'console session');
    const session = z.looseObject({ endsMs: z.number() });
    const sealed = sealer.open(value, session);
    expect((sealed?.endsMs ?? 0) - Date.now()).toBeLessThanOrEqual(3600_000);
    const over = `${name}=${sealer.seal({ ...sealed, endsMs: Date.now() - 1 })}`;
    expect((await me(over)).operator).toBeUndefined();
  });
});

describe('calls to the provider', () => {
  const withCode = (address: string, code: string): string => {
    const changed = new URL(address);
    changed.searchParams.set('code', code);
    return changed.href;
  };

  test('one sign-in takes at most three responses, however many come at once', async () => {
    const { url, cookie } = await begin();
    const address = await provider.signIn(url, 'sam');
    const before = provider.tokenRequests;
    const answers = Array.from({ length: 30 }, (_, n) => comeBack(withCode(address, `guess-${n}`), cookie));
    const to = (await Promise.all(answers)).map((answer) => answer.to);
    expect(provider.tokenRequests - before).toBe(3);
    expect(to.filter((path) => path === '/sign-in?failed=provider')).toHaveLength(3);
    expect(to.filter((path) => path === '/sign-in?failed=expired')).toHaveLength(27);
  });

  test('failures of some clients keep nobody else at the same address out', async () => {
    for (let n = 0; n < 25; n++) {
      const { url, cookie } = await begin();
      const state = new URL(url).searchParams.get('state') ?? '';
      const refused = `${plane.console}/oidc/callback?error=access_denied&state=${state}`;
      expect((await comeBack(refused, cookie)).to).toBe('/sign-in?failed=provider');
    }
    expect((await signIn('sam')).session).toBeDefined();
  });
});

test('an issuer over plain HTTP on another machine is refused at the start', async () => {
  const oidc = { issuer: 'http://login.example', clientId: 'c', clientSecret: 's' };
  await expect(
    startControlPlaneAlone({ console: { bind: '127.0.0.1', port: 0, hosts: [], oidc } }),
  ).rejects.toThrow('https://');
});
