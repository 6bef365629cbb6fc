/**
 * Tests what visitors can do in the playground and their limits, in a real browser and over HTTP, against two real gateways.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { solveChallenge } from 'altcha-lib';
import { deriveKey } from 'altcha-lib/algorithms/pbkdf2';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { launchBrowser, WatchedPage } from '../support/browser.ts';
import { type Launch, startDev } from '../support/processes.ts';
import { until } from '../support/until.ts';

interface Dev {
  readonly admin: string;
  readonly operatorToken: string;
  readonly console: { readonly url: string };
  readonly gateways: readonly { readonly name: string; readonly play: string }[];
  readonly organisations: readonly { readonly id: string; readonly key: string }[];
}

const freeTurns = 2;
const networkFactor = 2;
const stack = 'stk-amber-otter-9k2f';
/** Client addresses that no file may contain afterwards. Each test uses networks of its own. */
const planted = {
  first: '203.0.113.7',
  second: '203.0.113.8',
  withKey: '198.51.100.21',
  counted: '198.51.100.22',
  working: '198.51.100.23',
  six: '2001:db8:77:1:',
  routed: '2001:db8:78::1',
  limited: '2001:db8:79::1',
};
const addresses = Object.values(planted);
const dir = mkdtempSync(join(tmpdir(), 'headgate-play-'));
let dev: Launch<Dev>;
let browser: Browser;
let lines = '';
const play = (index = 0): string => dev.ready.gateways[index]?.play ?? '';

beforeAll(async () => {
  dev = await startDev<Dev>(dir, ['--trusted-proxies', '127.0.0.1'], { HEADGATE_LOG_LEVEL: 'info' });
  dev.child.stderr?.on('data', (chunk: Buffer) => {
    lines += chunk.toString();
  });
  await setVisitors({});
  browser = await launchBrowser();
});
afterAll(async () => {
  await browser?.close();
  await dev?.end();
  rmSync(dir, { recursive: true, force: true });
});

/** Sets the visitors' limits and waits until both gateways have applied them. */
async function setVisitors(total: object): Promise<void> {
  const body = { freeTurns, networkFactor, models: ['echo-small'], total };
  const { position } = await admin().call('PUT', '/anonymous', body);
  await until(async () => {
    const { items } = await admin().call('GET', '/gateways');
    return items.length === 2 && items.every(({ applied }) => applied >= position);
  });
}

const admin = (): DevAdmin => new DevAdmin(dev.ready.admin, dev.ready.operatorToken);

interface Reply {
  readonly status: number;
  readonly cookie: string | undefined;
  readonly json: Record<string, unknown>;
  readonly text: string;
}

interface Sent {
  readonly address: string;
  readonly cookie?: string | undefined;
  readonly gateway?: number;
  readonly host?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Makes a call as the page does. The cookie's name contains the port of the listener. */
function post(path: string, body: unknown, sent: Sent): Promise<Reply> {
  const url = new URL(path, play(sent.gateway));
  const headers: Record<string, string> = {
    ...{ 'content-type': 'application/json', origin: url.origin, 'x-forwarded-for': sent.address },
    ...(sent.cookie !== undefined && { cookie: `__Host-headgate-visitor-${url.port}=${sent.cookie}` }),
    ...(sent.host !== undefined && { host: sent.host }),
    ...sent.headers,
  };
  return new Promise((resolve, reject) => {
    const call = request(url, { method: 'POST', headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8');
        const cookie = response.headers['set-cookie']?.[0]?.split(';')[0]?.split('=').slice(1).join('=');
        const isJson = String(response.headers['content-type']).startsWith('application/json');
        resolve({ status: response.statusCode ?? 0, cookie, text, json: isJson ? JSON.parse(text) : {} });
      });
    });
    call.on('error', reject);
    call.end(JSON.stringify(body));
  });
}

const turn = { model: 'echo-small', stream: true, messages: [{ role: 'user', content: 'hello there' }] };
const chat = (sent: Sent): Promise<Reply> => post('/api/chat', turn, sent);
const errorOf = ({ json }: Reply) => json['error'] as { type: string; message: string; path: string };
const turnsOf = ({ json }: Reply) => json['turns'] as { left: number; limit: number };

async function visitorFrom(address: string): Promise<string> {
  const { cookie } = await post('/api/visitor', {}, { address });
  expect(cookie).toBeDefined();
  return cookie ?? '';
}

async function withPage(
  address: string,
  work: (page: Page, watched: WatchedPage) => Promise<void>,
): Promise<void> {
  const watched = await WatchedPage.open(browser, play(), { allowed: /status of (?:401|409|429)/ });
  try {
    await watched.context.setExtraHTTPHeaders({ 'x-forwarded-for': address });
    await watched.page.goto('/');
    await work(watched.page, watched);
    watched.expectClean();
  } finally {
    await watched.close();
  }
}

const button = (page: Page, name: string): Locator => page.getByRole('button', { name, exact: true });
const status = (page: Page, text: string): Promise<void> =>
  page.getByRole('status').filter({ hasText: text }).waitFor();
const answers = (page: Page): Locator => page.getByRole('article').filter({ hasText: 'Answer' });

async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel('Message', { exact: true }).fill(text);
  await button(page, 'Send').click();
}

test('Limits 4, Errors 7: a visitor talks, stops and uses up the turns, and a new cookie does not renew them', async () => {
  await withPage(planted.first, async (page, watched) => {
    await status(page, '2 of 2 free turns left');
    expect(await page.getByLabel('Model', { exact: true }).locator('option').allTextContents()).toEqual([
      'echo-small',
    ]);
    await watched.expectAccessible('empty page');
    await say(
      page,
      'Say <img src=x onerror="document.title=1"> **bold** [link](https://example.com) <script>1</script>',
    );
    await page.getByText(/first token after \d+ ms · [\d.]+ tokens\/s/).waitFor();
    await status(page, '1 of 2 free turns left');
    expect(await answers(page).locator('img, script').count()).toBe(0);
    // External links must lead to the web, show their host, and give the linked page no access to this page.
    const out = answers(page).locator('a:not([href*="/explain"])');
    const shown = await out.evaluateAll((links) =>
      links.map((link) => [
        link.textContent,
        ...['href', 'rel', 'target'].map((name) => link.getAttribute(name)),
      ]),
    );
    expect(new Set(shown.map((link) => link.join(' | ')))).toEqual(
      new Set(['link (example.com) | https://example.com/ | noopener noreferrer nofollow | _blank']),
    );
    expect(await page.title()).toBe('Playground');
    await say(page, 'say 8000 words one by one');
    await answers(page).nth(1).getByText('echo:').waitFor();
    await button(page, 'Stop').click();
    await page.getByRole('alert').getByText('It does not count as a turn').waitFor();
    await status(page, '1 of 2 free turns left');
    await say(page, 'the last one');
    await status(page, '0 of 2 free turns left');
    await say(page, 'one more');
    await page
      .getByRole('alert')
      .getByText('The free turns of the anonymous tier are used up. Sign in to continue.')
      .waitFor();
    expect(await page.getByRole('link', { name: 'Sign in' }).getAttribute('href')).toBe(
      `${dev.ready.console.url}/sign-in`,
    );
    await expect.poll(() => page.getByLabel('Message', { exact: true }).inputValue()).toBe('one more');
    expect(await answers(page).count()).toBe(3);
    await watched.expectAccessible('used up');

    await watched.context.clearCookies();
    await page.reload();
    // An answer that the visitor stopped counts as one of the network's turns.
    await status(page, '1 of 2 free turns left');
    await say(page, 'new here');
    await status(page, '0 of 2 free turns left');
    await watched.context.clearCookies();
    await page.reload();
    await status(page, '0 of 2 free turns left');
    await say(page, 'new again');
    await page.getByRole('alert').getByText('Your network has used its free turns').waitFor();
  });
  await withPage(planted.second, async (page) => {
    await status(page, '2 of 2 free turns left');
    await say(page, 'from elsewhere');
    await status(page, '1 of 2 free turns left');
  });
});

test('Routing algorithm 1, Authentication 1: a key opens its organisation’s models and stacks, and is not stored', async () => {
  await withPage(planted.withKey, async (page, watched) => {
    const key = dev.ready.organisations.find(({ id }) => id === 'acme')?.key ?? '';
    await button(page, 'Settings').click();
    await page.getByLabel('API key').fill(key);
    await button(page, 'Use key').click();
    await status(page, 'Key of acme');
    await button(page, 'Done').click();
    const model = page.getByLabel('Model', { exact: true });
    const options = await model.locator('option').allTextContents();
    expect(options).toEqual(expect.arrayContaining(['echo-private', 'echo-large', `echo-large on ${stack}`]));
    for (const choice of ['echo-private', `${stack} echo-large`]) {
      await model.selectOption(choice);
      await say(page, `to ${choice}`);
      await answers(page).filter({ hasText: 'tokens/s' }).last().waitFor();
    }
    await until(async () => (await answers(page).filter({ hasText: 'first token' }).count()) === 2);
    await button(page, 'Settings').click();
    for (const name of ['curl', 'Python', 'TypeScript']) {
      await button(page, name).click();
      expect(await page.getByRole('region', { name: 'Code' }).textContent()).not.toContain(key);
    }
    await watched.expectAccessible('with a key');
    const kept = await page.evaluate(
      'JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, document.body.innerHTML, location.href])',
    );
    expect(kept).not.toContain(key);
    // The stack's answers disappear with the key, so that messages to the pool do not contain them.
    await button(page, 'Forget key').click();
    await until(async () => (await answers(page).count()) === 0);
  });
});

test('Limits 4: turns count over all gateways, and only a cookie sealed by this fleet identifies a visitor', async () => {
  const address = planted.counted;
  const cookie = await visitorFrom(address);
  expect((await chat({ address, cookie })).status).toBe(200);
  await until(
    async () => turnsOf(await post('/api/visitor', {}, { address, cookie, gateway: 1 })).left === 1,
  );
  expect((await chat({ address, cookie, gateway: 1 })).status).toBe(200);
  await until(async () => turnsOf(await post('/api/visitor', {}, { address, cookie })).left === 0);
  const refused = await chat({ address, cookie });
  expect([refused.status, errorOf(refused).type, errorOf(refused).path]).toEqual([
    409,
    'InferenceUpsellError',
    '/api/chat',
  ]);

  const changed = cookie.slice(0, 20) + (cookie[20] === 'A' ? 'B' : 'A') + cookie.slice(21);
  const foreign = 'rGf0m3Zb0bqkX6hN4l1bq7d1m8b2y0sVtQnM5b3h2bJrP9cQe0fU7aV1wXk2yZ3n';
  for (const forged of [changed, cookie.slice(1), foreign, '', '%00', 'x'.repeat(3000)])
    for (const gateway of [0, 1]) {
      const answer = await chat({ address, cookie: forged, gateway });
      expect([forged.slice(0, 8), answer.status]).toEqual([forged.slice(0, 8), 401]);
    }
  // A copied cookie still means the same visitor, whose turns are used up at both gateways.
  for (const gateway of [0, 1])
    expect((await chat({ address: planted.second, cookie, gateway })).status).toBe(409);
  const renewed = await post('/api/visitor', {}, { address, cookie: cookie.slice(1) });
  expect([renewed.cookie === undefined, turnsOf(renewed)]).toEqual([false, { left: 2, limit: 2 }]);
});

test('a network with many new visitors must solve work for more, each solution once', async () => {
  const address = planted.working;
  for (let n = 0; n < 3; n++) await visitorFrom(address);
  const asked = async () => {
    const { json, cookie } = await post('/api/visitor', {}, { address });
    expect(cookie).toBeUndefined();
    return json['work'] as Parameters<typeof solveChallenge>[0]['challenge'];
  };
  const challenge = await asked();
  const solution = { challenge, solution: await solveChallenge({ challenge, deriveKey }) };
  const wrong = {
    challenge: await asked(),
    solution: { ...solution.solution, derivedKey: '00'.repeat(32) },
  };
  const answers = [];
  for (const [of, from] of [
    [wrong, address],
    [solution, planted.second],
    [solution, address],
    [solution, address],
  ] as const)
    answers.push(
      (await post('/api/visitor', { solution: of }, { address: from ?? '' })).cookie !== undefined,
    );
  // The second call succeeds although its solution is for another network, because the first visitor of a network needs none.
  expect(answers).toEqual([false, true, true, false]);
  // All addresses of an IPv6 network count as one network.
  const made = [];
  for (let n = 0; n < 4; n++)
    made.push(
      (await post('/api/visitor', {}, { address: `${planted.six}${n + 1}::9` })).cookie !== undefined,
    );
  expect(made).toEqual([true, true, true, false]);
});

test('Routing rule 5, Errors 4, Errors 5: a visitor reaches only the shared pool, with short texts from the page', async () => {
  const address = planted.routed;
  const cookie = await visitorFrom(address);
  const as = { address, cookie };
  const outcomes: Record<string, unknown> = {};
  const note = async (name: string, path: string, body: unknown, sent: Sent = as): Promise<void> => {
    const { status: code, text } = await post(path, body, sent);
    outcomes[name] = text.startsWith('{') ? [code, JSON.parse(text).error?.type] : code;
  };
  const many = Array.from({ length: 21 }, () => ({ role: 'user', content: 'x' }));
  await note('own model of acme', '/api/chat', { ...turn, model: 'echo-private' });
  await note('not in the plan', '/api/chat', { ...turn, model: 'echo-large' });
  await note('a stack', `/api/stacks/${stack}/chat`, turn);
  await note('the other style', '/api/messages', turn);
  await note('the API', '/v1/chat/completions', turn);
  await note('21 messages', '/api/chat', { ...turn, messages: many });
  await note('17 KB', '/api/chat', { ...turn, messages: [{ role: 'user', content: 'x'.repeat(17 * 1024) }] });
  await note('an image', '/api/chat', {
    ...turn,
    messages: [{ role: 'user', content: [{ type: 'image_url' }] }],
  });
  await note('tools', '/api/chat', { ...turn, tools: [] });
  await note('another origin', '/api/chat', turn, { ...as, headers: { origin: 'https://example.com' } });
  await note('another site', '/api/chat', turn, { ...as, headers: { 'sec-fetch-site': 'cross-site' } });
  await note('another name', '/api/chat', turn, { ...as, host: 'example.com' });
  await note('no cookie', '/api/chat', turn, { address });
  await note('a wrong key', '/api/chat', turn, { ...as, headers: { authorization: 'Bearer hg_wrong' } });
  expect(outcomes).toEqual({
    'own model of acme': [404, 'DedicatedOnlyModelError'],
    'not in the plan': [403, 'ModelNotInPlanError'],
    'a stack': [401, 'Unauthorized'],
    'the other style': [401, 'Unauthorized'],
    'the API': 404,
    '21 messages': [400, 'UnsupportedShapeError'],
    '17 KB': [413, 'PayloadTooLargeError'],
    'an image': [400, 'UnsupportedShapeError'],
    tools: [400, 'UnsupportedShapeError'],
    'another origin': [404, 'NotFoundError'],
    'another site': [404, 'NotFoundError'],
    'another name': 421,
    'no cookie': [401, 'Unauthorized'],
    'a wrong key': [401, 'Unauthorized'],
  });
  expect((await chat(as)).status).toBe(200);
});

test('Limits 1, Limits 4: all visitors together have fleet-wide limits that never refuse a key', async () => {
  await setVisitors({ tokensPerDay: 1 });
  const address = planted.limited;
  const cookie = await visitorFrom(address);
  await until(async () => (await chat({ address, cookie })).status === 409);
  const refused = await chat({ address, cookie, gateway: 1 });
  expect([refused.status, errorOf(refused).message]).toEqual([
    409,
    'All visitors together have used the tokens of the anonymous tier for today. Sign in to continue.',
  ]);
  const key = dev.ready.organisations.find(({ id }) => id === 'acme')?.key ?? '';
  const headers = { authorization: `Bearer ${key}` };
  expect((await chat({ address, headers })).status).toBe(200);
  const use = await admin().call('GET', '/limits/visitors');
  expect(use.tokens.limit).toBe(1);
});

test('no visitor’s address is in any file, topic or log line of the run', () => {
  const names = readdirSync(dir, { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  expect(files.length).toBeGreaterThan(5);
  const found = files.flatMap((file) => {
    const content = readFileSync(file);
    return addresses.filter((address) => content.includes(address)).map((address) => `${file}: ${address}`);
  });
  expect(found).toEqual([]);
  expect(lines.length).toBeGreaterThan(1000);
  expect(addresses.filter((address) => lines.includes(address))).toEqual([]);
});
