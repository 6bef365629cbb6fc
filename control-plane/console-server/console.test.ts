/** Tests the console's listener of a running control plane: who can sign in, in which way, and what they can do then. */
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { Sealer } from '../../shared/runtime/sealed-text.ts';
import { startControlPlaneAlone, type TestControlPlane } from '../../test/support/control-plane.ts';
import { operatorToken, planeSettings } from '../../test/support/fleet.ts';
import { amber, peopleFleet, persons } from '../../test/support/people-fleet.ts';
import { until } from '../../test/support/until.ts';
import { startControlPlane } from '../main.ts';
import { backgroundHeader } from './session-guard.ts';

let plane: TestControlPlane;
let second: Awaited<ReturnType<typeof startControlPlane>>;
beforeAll(async () => {
  const console = {
    ...{ bind: '127.0.0.1', port: 0, hosts: ['console.example'], demo: true },
    addresses: () => ({ shared: 'http://127.0.0.1:1/v1', stacks: { [amber]: 'http://127.0.0.1:2/v1' } }),
  };
  plane = await startControlPlaneAlone({ console });
  await plane.admin.apply(peopleFleet);
  second = await startControlPlane({
    ...planeSettings(plane.dir, `sqlite:${join(plane.dir, 'log')}`),
    ...{ name: 'cp-2', dataDir: join(plane.dir, 'cp-2') },
    console: { ...console, demo: false },
  });
});
afterAll(async () => {
  await second.close();
  await plane.close();
});

interface Call {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly cookie?: string | undefined;
  readonly console?: string | undefined;
}
interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** Makes a call without `fetch`, which does not allow callers to set Host, Origin or Sec-Fetch-Site. */
function call({
  method = 'GET',
  path,
  headers,
  body,
  cookie,
  console = plane.console,
}: Call): Promise<Answer> {
  const own = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' };
  const url = new URL(path, console);
  return new Promise((resolve, reject) => {
    const sent = httpRequest(
      url,
      { method, headers: { ...(headers ?? own), ...(cookie !== undefined && { cookie }) } },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (piece: string) => {
          text += piece;
        });
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
        );
      },
    );
    const bytes = body === undefined ? undefined : JSON.stringify(body);
    if (bytes !== undefined) sent.setHeader('content-length', Buffer.byteLength(bytes));
    sent.on('error', reject).end(bytes);
  });
}

const cookieOf = (answer: Answer): string => String(answer.headers['set-cookie']).split(';', 1)[0] ?? '';

async function signIn(body: object, console?: string): Promise<string> {
  const answer = await call({ method: 'POST', path: '/api/session', body, console });
  expect(answer.status).toBe(200);
  return cookieOf(answer);
}
const asOperator = (): Promise<string> => signIn({ operatorToken });
const as = (person: string): Promise<string> => signIn({ demo: person });
const me = (cookie: string | undefined, console?: string): Promise<Answer> =>
  call({ path: '/api/me', cookie, console });
/** Renames one listener's cookie as another listener would call it, because the cookie's name contains the port. */
const moved = (cookie: string, from: string, to: string): string =>
  cookie.replace(new URL(from).port, new URL(to).port);

describe('signing in', () => {
  test('a link from `console open` signs the operator in once, across all replicas', async () => {
    const { url } = await plane.admin.consoleLink();
    expect(url).toMatch(new RegExp(`^${plane.console}/sign-in#[\\w-]+$`));
    const link = url.slice(url.indexOf('#') + 1);
    const cookie = await signIn({ link });
    expect(JSON.parse((await me(cookie)).text)).toMatchObject({ operator: true });
    for (const console of [plane.console, second.console]) {
      const again = await call({ method: 'POST', path: '/api/session', body: { link }, console });
      expect([again.status, again.text]).toEqual([401, expect.stringContaining('has already been used')]);
    }
  });

  test('the sign-in page learns who is signed in, so that it can ask before a link replaces them', async () => {
    const session = async (cookie?: string) =>
      JSON.parse((await call({ path: '/api/sign-in', cookie })).text).session;
    expect(await session()).toBe(null);
    expect(await session(`${(await as('olga')).split('=')[0]}=x`)).toBe(null);
    expect(await session(await as('olga'))).toEqual({ person: 'olga' });
    expect(await session(await asOperator())).toEqual({ person: null });
  });

  test('members see only the addresses of their own organisations’ stacks', async () => {
    const stacksOf = async (cookie: string) =>
      JSON.parse((await call({ path: '/api/addresses', cookie })).text).stacks;
    const own = { [amber]: 'http://127.0.0.1:2/v1' };
    expect(
      await Promise.all([asOperator(), as('vic'), as('ben')].map(async (by) => stacksOf(await by))),
    ).toEqual([...[own, own, {}]]);
  });

  test('if one link is used many times at once, one use succeeds', async () => {
    const { url } = await plane.admin.consoleLink();
    const body = { link: url.slice(url.indexOf('#') + 1) };
    const uses = [plane.console, second.console, plane.console, second.console].map((console) =>
      call({ method: 'POST', path: '/api/session', body, console }),
    );
    const statuses = (await Promise.all(uses)).map(({ status }) => status).sort();
    expect(statuses).toEqual([200, 401, 401, 401]);
  });

  test.each(['', 'x', 'a'.repeat(200), 'a'.repeat(5000)])('a bad link is refused: %#', async (link) => {
    const answer = await call({
      method: 'POST',
      path: '/api/session',
      body: { link },
      console: second.console,
    });
    expect([400, 401, 413, 503]).toContain(answer.status);
    expect(answer.headers['set-cookie']).toBeUndefined();
  });

  test('demo members can sign in only to a demo console', async () => {
    const ways = async (console?: string) => JSON.parse((await call({ path: '/api/sign-in', console })).text);
    expect((await ways()).demo).toContainEqual({ organisation: 'acme', person: 'olga', role: 'owner' });
    expect((await ways(second.console)).demo).toEqual([]);
    for (const [console, person] of [
      [second.console, 'olga'],
      [plane.console, 'unknown'],
    ])
      expect(
        (await call({ method: 'POST', path: '/api/session', body: { demo: person }, console })).status,
      ).toBe(401);
  });

  test('an owner’s link opens only that owner’s organisation; an operator’s opens all', async () => {
    const made = async (person: string | undefined, cookie: string) =>
      call({ method: 'POST', path: `/api/organisations/acme/members/${person}/link`, cookie, body: {} });
    const linkOf = ({ text }: Answer): string => String(JSON.parse(text).url).split('#')[1] ?? '';
    const organisations = async (cookie: string): Promise<string[]> =>
      JSON.parse((await me(cookie)).text).organisations.map(({ id }: { id: string }) => id);
    const byOwner = await signIn({ link: linkOf(await made('mia', await as('olga'))) });
    expect(await organisations(byOwner)).toEqual(['acme']);
    expect((await call({ path: '/api/keys?organisation=birch', cookie: byOwner })).status).toBe(403);
    expect((await call({ path: '/api/keys?organisation=acme', cookie: byOwner })).status).toBe(200);
    const operator = await signIn({ operatorToken });
    expect(await organisations(await signIn({ link: linkOf(await made('mia', operator)) }))).toEqual([
      'acme',
      'birch',
    ]);
    // Members cannot use a link to grant more than they could grant by a role.
    expect((await made('olga', await as('ada'))).status).toBe(403);
    expect((await made('mia', await as('mia'))).status).toBe(403);
    expect((await made('mia', await as('ben'))).status).toBe(403);
    const toVic = linkOf(await made('vic', await as('ada')));
    await plane.admin.call('PUT', '/organisations/acme/members/vic', { role: 'owner' });
    const use = await call({
      method: 'POST',
      path: '/api/session',
      body: { link: toVic },
      console: second.console,
    });
    await plane.admin.call('PUT', '/organisations/acme/members/vic', { role: 'viewer' });
    expect(use.status).toBe(401);
  });
});

test('guesses of an operator token stop after five a minute, and the right one is still accepted', async () => {
  const guess = (token = 'wrong') =>
    call({ method: 'POST', path: '/api/session', body: { operatorToken: token }, console: third.console });
  const third = await startControlPlaneAlone({ console: { bind: '127.0.0.1', port: 0, hosts: [] } });
  try {
    const statuses: number[] = [];
    for (let index = 0; index < 7; index++) statuses.push((await guess()).status);
    expect(statuses).toEqual([401, 401, 401, 401, 401, 503, 503]);
    expect((await guess(operatorToken)).status).toBe(200);
    expect((await guess()).status).toBe(503);
  } finally {
    await third.close();
  }
});

describe('a session', () => {
  test('has a cookie hidden from scripts, bound to this port, with sealed content', async () => {
    const answer = await call({ method: 'POST', path: '/api/session', body: { demo: 'olga' } });
    const { port } = new URL(plane.console ?? '');
    const [value, ...flags] = String(answer.headers['set-cookie']).split('; ');
    expect(value).toMatch(new RegExp(`^__Host-headgate-${port}=[\\w-]+$`));
    expect(flags.sort()).toEqual(['HttpOnly', 'Path=/', 'SameSite=Strict', 'Secure']);
    expect(Buffer.from(value?.split('=')[1] ?? '', 'base64url').toString('latin1')).not.toContain('olga');
  });

  test('does not exist without a cookie, or with a changed one or one for another purpose or token', async () => {
    const cookie = await as('olga');
    const changed = `${cookie.slice(0, -6)}${cookie.slice(-6) === 'AAAAAA' ? 'BBBBBB' : 'AAAAAA'}`;
    const link = (await plane.admin.consoleLink()).url.split('#')[1] ?? '';
    const other = await startControlPlaneAlone({
      operatorToken: 'another-operator-token-1',
      console: { bind: '127.0.0.1', port: 0, hosts: [], demo: false },
    });
    const foreign = await call({
      method: 'POST',
      path: '/api/session',
      body: { operatorToken: 'another-operator-token-1' },
      console: other.console,
    });
    const foreignCookie = moved(cookieOf(foreign), other.console ?? '', plane.console ?? '');
    await other.close();
    const name = cookie.split('=')[0] ?? '';
    for (const bad of [undefined, `${name}=`, `${name}=x`, changed, `${name}=${link}`, foreignCookie])
      expect((await me(bad)).status).toBe(401);
    expect((await me(cookie)).status).toBe(200);
  });

  test('is valid on every replica, and so is its end', async () => {
    const cookie = await as('olga');
    const there = moved(cookie, plane.console ?? '', second.console ?? '');
    expect((await me(there, second.console)).status).toBe(200);
    expect((await call({ method: 'DELETE', path: '/api/session', cookie, body: {} })).status).toBe(200);
    expect((await me(cookie)).status).toBe(401);
    await until(async () => (await me(there, second.console)).status === 401);
  });

  test('that signs out everywhere ends all of that person’s sessions, and nobody else’s', async () => {
    const [one, two, other] = [await as('mia'), await as('mia'), await as('olga')];
    const ended = await call({
      method: 'DELETE',
      path: '/api/session',
      cookie: one,
      body: { everywhere: true },
    });
    expect(ended.status).toBe(200);
    const statuses = await Promise.all([one, two, other].map(async (cookie) => (await me(cookie)).status));
    expect(statuses).toEqual([401, 401, 200]);
    expect((await me(await as('mia'))).status).toBe(200);
  });

  test('from an owner’s link ends only such sessions, and simultaneous calls make one commit', async () => {
    const path = '/api/organisations/acme/members/mia/link';
    const { text } = await call({ method: 'POST', path, cookie: await as('olga'), body: {} });
    const link = String(JSON.parse(text).url).split('#')[1] ?? '';
    const [own, limited] = [await as('mia'), await signIn({ link })];
    const before = (await plane.admin.call('GET', '/status', {})).position;
    const ends = Array.from({ length: 20 }, () =>
      call({ method: 'DELETE', path: '/api/session', cookie: limited, body: { everywhere: true } }),
    );
    for (const { status } of await Promise.all(ends)) expect([200, 401]).toContain(status);
    expect([(await me(limited)).status, (await me(own)).status]).toEqual([401, 200]);
    expect((await plane.admin.call('GET', '/status', {})).position).toBe(before + 1);
  });

  test('loses its rights at the next request once its person is no longer a member', async () => {
    await plane.admin.call('PUT', '/organisations/acme/members/leo', { role: 'member' });
    const cookie = await as('leo');
    expect((await call({ path: '/api/keys?organisation=acme', cookie })).status).toBe(200);
    await plane.admin.call('DELETE', '/organisations/acme/members/leo');
    expect((await call({ path: '/api/keys?organisation=acme', cookie })).status).toBe(403);
    expect(JSON.parse((await me(cookie)).text)).toMatchObject({ person: 'leo', organisations: [] });
  });

  test('acts as its person, whatever a header says, and the log names the person and the way', async () => {
    const cookie = await as('olga');
    const headers = {
      'sec-fetch-site': 'same-origin',
      'content-type': 'application/json',
      'x-headgate-as': 'ada',
    };
    const body = { organisation: 'acme', name: 'from the console', expires: '30d' };
    const created = await call({ method: 'POST', path: '/api/keys', cookie, headers, body });
    const { position } = JSON.parse(created.text) as { position: number };
    const { items } = await plane.admin.call('GET', `/events?from=${position}&to=${position}`);
    expect(items[0]).toMatchObject({ by: 'olga', via: 'console', type: 'key.created' });
  });
});

describe('a page includes the first responses that it needs', () => {
  const page = (path: string, cookie?: string, site = 'none') =>
    call({ path, cookie, headers: { 'sec-fetch-site': site } });
  const block = /<script type="application\/json" id="answers">(.*?)<\/script>/s;
  interface Brought {
    readonly '/me': { readonly organisations: readonly { readonly id: string; readonly name: string }[] };
    readonly '/gateways'?: { readonly items: readonly unknown[] };
  }
  const answersIn = ({ text }: Answer): Brought | undefined => {
    const found = block.exec(text)?.[1];
    return found === undefined ? undefined : JSON.parse(found);
  };

  test('for a signed-in reader, according to their rights', async () => {
    const [operator, member] = [await asOperator(), await as('mia')];
    const ofOperator = answersIn(await page('/gateways', operator));
    expect(Object.keys(ofOperator ?? {})).toEqual(['/me', '/gateways']);
    expect(ofOperator?.['/gateways']?.items).toEqual([]);
    const ofMember = answersIn(await page('/gateways', member));
    expect(Object.keys(ofMember ?? {})).toEqual(['/me']);
    expect(ofMember?.['/me']).toEqual({
      ...JSON.parse((await me(member)).text),
      position: expect.any(Number),
    });
  });

  test('for nobody else, and not if another origin’s page asks', async () => {
    const operator = await asOperator();
    for (const [path, cookie, site] of [
      ['/gateways', undefined, 'none'],
      ['/keys', `${operator.slice(0, -8)}AAAAAAAA`, 'none'],
      ['/sign-in', operator, 'none'],
      ['/gateways', operator, 'same-site'],
      ['/gateways', operator, 'cross-site'],
    ] as const) {
      const found = await page(path, cookie, site);
      expect([path, site, found.status, answersIn(found)]).toEqual([path, site, 200, undefined]);
    }
  });

  test('without being cached, unlike a signed-out reader’s page', async () => {
    const operator = await asOperator();
    const { etag } = (await page('/gateways')).headers;
    const found = await call({
      path: '/gateways',
      cookie: operator,
      headers: { 'if-none-match': String(etag) },
    });
    expect([found.status, found.headers['cache-control'], found.headers['etag']]).toEqual([
      200,
      'no-store',
      undefined,
    ]);
    const after = await call({ path: '/gateways', headers: { 'if-none-match': String(etag) } });
    expect([after.status, after.text]).toEqual([304, '']);
  });

  test('and renews the session, which background calls do not', async () => {
    const [name = '', value = ''] = (await as('mia')).split('=');
    const sealer = new Sealer(operatorToken, 'console session');
    const session = z.looseObject({ sealedMs: z.number() });
    const sealed = sealer.open(value, session);
    const old = `${name}=${sealer.seal({ ...sealed, sealedMs: Date.now() - 6 * 60_000 })}`;
    const background = await call({ path: '/api/me', cookie: old, headers: { [backgroundHeader]: '1' } });
    expect([background.status, background.headers['set-cookie']]).toEqual([200, undefined]);
    const renewed = cookieOf(await page('/gateways', old));
    expect(sealer.open(renewed.split('=')[1] ?? '', session)?.sealedMs).toBeGreaterThan(Date.now() - 60_000);
  });

  test('in a block that no name can break out of', async () => {
    const name = '</script><script>alert(1)</script><!-- $&';
    await plane.admin.call('PATCH', '/organisations/acme', { name });
    const found = await page('/keys', await as('mia'));
    expect(found.text).not.toContain('alert(1)</script>');
    expect(answersIn(found)?.['/me'].organisations.find(({ id }) => id === 'acme')?.name).toBe(name);
    await plane.admin.call('PATCH', '/organisations/acme', { name: 'Acme' });
  });
});

describe('host names', () => {
  const { port } = new URL('http://x:1');
  test.each([
    ['127.0.0.1', 200],
    ['localhost', 200],
    ['LOCALHOST', 200],
    ['[::1]', 200],
    ['console.example', 200],
    ['console.example.', 200],
    ['192.0.2.7', 200],
    ['0.0.0.0', 200],
    ['[2001:db8::7]', 200],
    ['192.0.2.7.evil.test', 421],
    ['console.example.evil.test', 421],
    ['evil.test', 421],
    ['127.0.0.1.evil.test', 421],
    ['user@localhost', 421],
  ])('whether Host %s is accepted: %i', async (name, status) => {
    for (const path of ['/', '/api/sign-in'])
      for (const host of [name, `${name}:${port}`]) {
        const answer = await call({ path, headers: { host } });
        expect([path, host, answer.status === 503 ? 200 : answer.status]).toEqual([path, host, status]);
      }
  });
});

describe('calls from other pages', () => {
  const origin = () => new URL(plane.console ?? '').origin;
  const json = { 'content-type': 'application/json' };
  const table: readonly (readonly [string, () => Record<string, string>, read: boolean, write: boolean])[] = [
    ['the page itself', () => ({ ...json, 'sec-fetch-site': 'same-origin' }), true, true],
    ['another port', () => ({ ...json, 'sec-fetch-site': 'same-site', origin: origin() }), false, false],
    ['another site', () => ({ ...json, 'sec-fetch-site': 'cross-site' }), false, false],
    ['typed into the browser', () => ({ ...json, 'sec-fetch-site': 'none' }), true, false],
    ['no Sec-Fetch-Site, own Origin', () => ({ ...json, origin: origin() }), true, true],
    ['no Sec-Fetch-Site, other Origin', () => ({ ...json, origin: 'http://127.0.0.1:1' }), true, false],
    ['no Sec-Fetch-Site, Origin null', () => ({ ...json, origin: 'null' }), true, false],
    ['neither header', () => json, true, false],
    ['a form', () => ({ 'content-type': 'text/plain', 'sec-fetch-site': 'same-origin' }), true, false],
    ['no content type', () => ({ 'sec-fetch-site': 'same-origin' }), true, false],
  ];
  test.each(table)('%s', async (_name, headers, read, write) => {
    const cookie = await as('olga');
    const status = async (method: string, path: string, body?: object) => {
      const answer = await call({ method, path, cookie, headers: headers(), ...(body && { body }) });
      return answer.status < 300;
    };
    expect(await status('GET', '/api/me')).toBe(read);
    expect(
      await status('POST', '/api/keys?dryRun=true', { organisation: 'acme', name: 'x', expires: 'never' }),
    ).toBe(write);
    expect(await status('PUT', '/api/organisations/acme/members/vic?dryRun=true', { role: 'viewer' })).toBe(
      write,
    );
    expect(await status('DELETE', '/api/organisations/acme/members/vic?dryRun=true')).toBe(write);
    expect(await status('POST', '/api/session', { demo: 'olga' })).toBe(write);
  });

  test('every response has the security policy, and API responses are not stored', async () => {
    for (const path of ['/', '/keys', '/api/me', '/api/sign-in', '/nowhere.js']) {
      const { headers } = await call({ path });
      expect(headers['content-security-policy']).toMatch(/^default-src 'none'; script-src 'self'; /);
      expect(headers['content-security-policy']).toContain("require-trusted-types-for 'script'");
      expect(headers['access-control-allow-origin']).toBeUndefined();
      expect(headers['cross-origin-resource-policy']).toBe('same-origin');
      if (path.startsWith('/api/')) expect(headers['cache-control']).toBe('no-store');
    }
  });
});

test('a mistyped address gives a page to a person and a line of text to a file request', async () => {
  const page = await call({ path: '/organisations/acme', headers: { accept: 'text/html,*/*;q=0.8' } });
  expect([page.status, page.headers['content-type']]).toEqual([404, 'text/html; charset=utf-8']);
  expect(page.headers['content-security-policy']).toMatch(/^default-src 'none'; /);
  const file = await call({ path: '/nowhere.js', headers: { accept: '*/*' } });
  expect([file.status, file.headers['content-type']]).toEqual([404, 'text/plain; charset=utf-8']);
});

test('neither the operator token nor a node’s token opens the console’s API', async () => {
  const headers = { authorization: `Bearer ${operatorToken}`, 'sec-fetch-site': 'same-origin' };
  expect((await call({ path: '/api/me', headers })).status).toBe(401);
  expect((await call({ path: '/api/events', headers })).status).toBe(401);
});

describe('role × route', () => {
  interface Operation {
    readonly operationId?: string;
    readonly 'x-headgate-access': readonly string[];
  }
  const bodies: Record<string, object> = {
    'POST /keys': { organisation: 'acme', name: 'k', expires: 'never' },
    'PUT /organisations/{id}/members/{person}': { role: 'viewer' },
    'PUT /stacks/{id}/surface': { surface: 'anthropic' },
    'POST /organisations/{id}/members/{person}/link': {},
    'POST /organisations/{id}/invitations': { role: 'viewer' },
    'POST /fleet/apply': { fleet: peopleFleet },
    'POST /fleet/diff': { fleet: peopleFleet },
    'POST /explain': { organisation: 'acme', model: 'echo-small' },
    'POST /effect': {
      method: 'POST',
      path: '/keys',
      body: { organisation: 'acme', name: 'k', expires: 'never' },
    },
  };

  test('each operation is open to a session exactly as in the admin API, and /me agrees', async () => {
    const { paths } = (await (await fetch(`${plane.url}/admin/v1/openapi.json`)).json()) as {
      paths: Record<string, Record<string, Operation>>;
    };
    const key = (await plane.admin.createKey('acme', 'of the table')).id;
    const token = (await plane.admin.createNodeToken('n1')).id;
    const ids: readonly (readonly [string, string])[] = [
      ['/organisations', 'acme'],
      ['/keys', key],
      ['/stacks', 'stk-amber-otter-9k2f'],
      ['/tiers', 'Pro'],
      ['/models', 'echo-small'],
      ['/nodes', 'n1'],
      ['/tokens', token],
    ];
    const cookies: Record<string, string> = {
      operator: await asOperator(),
      'foreign owner': await as('ben'),
    };
    for (const [role, person] of Object.entries(persons)) cookies[role] = await as(person);
    const allowed: Record<string, readonly string[]> = {};
    for (const [role, cookie] of Object.entries(cookies)) {
      const answer = JSON.parse((await me(cookie)).text) as {
        commands: string[];
        organisations: { id: string; commands: string[] }[];
      };
      allowed[role] = answer.commands.concat(
        answer.organisations.filter(({ id }) => id === 'acme').flatMap(({ commands }) => commands),
      );
    }
    let checked = 0;
    for (const [path, methods] of Object.entries(paths))
      for (const [verb, operation] of Object.entries(methods)) {
        const below = path.replace(/^\/admin\/v1/, '');
        // Skips recorded decisions, because only the record tells whose decision it is. Tests in test/explain cover them.
        if (below === '/decisions/{request}') continue;
        if (
          /^\/(?:openapi\.json|snapshot|log|counters|requests\/stream)$/.test(below) ||
          !path.startsWith('/admin/v1')
        )
          continue;
        const method = verb.toUpperCase();
        const id = ids.find(([prefix]) => below.startsWith(prefix))?.[1] ?? 'x';
        const values: Record<string, string> = {
          id,
          person: 'vic',
          model: 'echo-small',
          position: '1',
          name: 'x',
        };
        const filled = below.replace(/\{(\w+)\}/g, (_all, name: string) => values[name] ?? 'x');
        const query = method === 'GET' ? 'organisation=acme&timeoutSeconds=0' : 'dryRun=true';
        const access = operation['x-headgate-access'];
        for (const [role, cookie] of Object.entries(cookies)) {
          const body = bodies[`${method} ${below}`];
          const { status } = await call({
            method,
            path: `/api${filled}?${query}`,
            cookie,
            ...(body && { body }),
          });
          const foreign = role === 'foreign owner';
          const isOpen = foreign
            ? /^\/(?:me|confirmations)\b/.test(below)
            : role === 'operator' || access.includes(role);
          expect([method, below, role, status === 401 || status === 403]).toEqual([
            method,
            below,
            role,
            !isOpen,
          ]);
          if (operation.operationId !== undefined && operation.operationId !== 'console.link')
            expect([
              operation.operationId,
              role,
              allowed[role]?.includes(operation.operationId ?? ''),
            ]).toEqual([operation.operationId, role, isOpen]);
          checked++;
        }
      }
    expect(checked).toBeGreaterThan(300);
  });
});

test('the stream reports each commit, shows its events only to the operator, and ends with the session', async () => {
  const open = async (cookie: string) => {
    const answer = await fetch(`${plane.console}/api/stream`, { headers: { cookie } });
    const reader = (answer.body as ReadableStream<Uint8Array>)
      .pipeThrough(new TextDecoderStream())
      .getReader();
    let text = '';
    return {
      type: answer.headers.get('content-type'),
      async next(pattern: RegExp): Promise<string> {
        while (!pattern.test(text)) {
          const { value, done } = await reader.read();
          if (done) throw new Error(`ended after ${text}`);
          text += value;
        }
        return text;
      },
      cancel: () => reader.cancel(),
    };
  };
  const operator = await open(await asOperator());
  const vic = await as('vic');
  const member = await open(vic);
  expect(operator.type).toBe('text/event-stream; charset=utf-8');
  await operator.next(/event: pulse/);
  await member.next(/event: pulse/);
  const { id } = await plane.admin.createKey('acme', 'seen live');
  expect(await operator.next(/event: commits/)).toContain(id);
  expect(await member.next(/event: commits/)).not.toContain(id);
  await operator.cancel();
  await call({ method: 'DELETE', path: '/api/session', cookie: vic, body: {} });
  await member.next(/event: ended/);
});
