/** Tests what operators and members do in the console, in a real browser against a real `headgate dev`. */
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { View, WatchedPage } from '../support/browser.ts';
import { scaledMs } from '../support/budget.ts';
import { button, ConsoleFleet, heading } from '../support/console-fleet.ts';
import { runCli } from '../support/run-cli.ts';
import { until } from '../support/until.ts';

const stack = 'stk-amber-otter-9k2f';
let dev: ConsoleFleet;
beforeAll(async () => {
  dev = await ConsoleFleet.start();
});
afterAll(() => dev?.close());

const withPage = (view: View, work: (page: Page, watched: WatchedPage) => Promise<void>): Promise<void> =>
  dev.withPage(view, work);
const asOperator = (page: Page, at?: string): Promise<void> => dev.asOperator(page, at);
const asMember = (page: Page, person: string, at?: string): Promise<void> => dev.asMember(page, person, at);

async function createKey(page: Page, name: string): Promise<string> {
  await button(page, 'Create key').click();
  await page.getByLabel('Expiry').selectOption({ label: '30 days' });
  await page.getByLabel('Name', { exact: true }).focus();
  await page.keyboard.type(name);
  await page.keyboard.press('Enter');
  const field = page.getByLabel('Key value');
  await field.waitFor();
  const value = await field.inputValue();
  await page.getByRole('dialog').getByRole('button', { name: 'Copy', exact: false }).click();
  await page.getByText('✓ copied').waitFor();
  expect(await page.evaluate<string>('navigator.clipboard.readText()')).toBe(value);
  await button(page, 'Done').click();
  return value;
}

async function complete(api: string, key: string): Promise<number> {
  const client = new OpenAI({ baseURL: api, apiKey: key, maxRetries: 0 });
  const answer = client.chat.completions.create({
    model: 'echo-small',
    messages: [{ role: 'user', content: 'hello' }],
  });
  return answer.then(
    ({ choices }) => (choices[0]?.message.content ? 200 : 0),
    (error: { status?: number }) => error.status ?? 0,
  );
}

describe('keys', () => {
  test('an owner creates a key, uses it with the SDK, revokes it, and sees every gateway confirm', async () => {
    await withPage({}, async (page) => {
      await asMember(page, 'ana');
      const value = await createKey(page, 'browser job');
      for (const { api } of dev.ready.gateways) await until(async () => (await complete(api, value)) === 200);
      // Once the dialog is closed, the page, its address and its storage must not contain the key's value.
      const kept = await page.evaluate<string>(
        `JSON.stringify([document.documentElement.outerHTML, [...document.querySelectorAll('input')].map((field) => field.value),
          location.href, { ...localStorage }, { ...sessionStorage }, document.cookie])`,
      );
      expect(kept).not.toContain(value);
      // Each gateway has served one request, and the page must learn of both.
      await page
        .getByRole('row', { name: /browser job.*active.* s ago\s*Requests of browser job: 2\s*Revoke/ })
        .waitFor({ timeout: scaledMs(40_000) });
      await page.getByRole('button', { name: 'Revoke browser job' }).click();
      await page.getByText(/It was last used .* ago and completed 2 requests in the last 24 hours/).waitFor();
      expect(await button(page, 'Revoke key').isDisabled()).toBe(true);
      await page.getByLabel('Name to confirm').fill('browser job');
      await button(page, 'Revoke key').click();
      await page.getByText('All gateways have confirmed').waitFor();
      const confirmed = await page
        .getByRole('list', { name: 'Gateways' })
        .getByRole('listitem')
        .allTextContents();
      expect(confirmed.map((text) => /^gateway-\d.*confirmed/.test(text))).toEqual([true, true]);
      for (const { api } of dev.ready.gateways) expect(await complete(api, value)).toBe(401);
      await button(page, 'Done').click();
      await page.getByRole('row', { name: /browser job.*revoked/ }).waitFor();
    });
  });

  test('with the keyboard alone a key is created, and its value survives a second Enter or Escape', async () => {
    await withPage({}, async (page) => {
      await asMember(page, 'ana');
      await button(page, 'Create key').click();
      await page.keyboard.type('typed job');
      await page.keyboard.press('Enter');
      const field = page.getByLabel('Key value');
      await field.waitFor();
      await page.keyboard.press('Escape');
      await page.keyboard.press('Escape');
      expect(await field.isVisible()).toBe(true);
      expect(await button(page, 'Done').isDisabled()).toBe(true);
      await page.getByLabel('I have stored it').check();
      await button(page, 'Done').click();
      await field.waitFor({ state: 'detached' });
      await page.getByRole('row', { name: /typed job.*active/ }).waitFor();
    });
  });

  test('a viewer sees keys but cannot create or revoke one, and the API refuses both anyway', async () => {
    await withPage({ allowed: /status of 40[13]/ }, async (page) => {
      await asMember(page, 'vic');
      await page.getByRole('row', { name: /made by headgate dev/ }).waitFor();
      expect(await page.getByRole('button', { name: /^(?:Create key|Revoke )/ }).count()).toBe(0);
      const statuses = await page.evaluate<number[]>(`(async () => {
        const { items } = await (await fetch('/api/keys?organisation=acme')).json();
        const send = async (path, body) => (await fetch('/api' + path, { method: 'POST', body: JSON.stringify(body),
          headers: { 'content-type': 'application/json' } })).status;
        return [await send('/keys/' + items[0].id + '/revoke', {}),
          await send('/keys', { organisation: 'acme', name: 'x', expires: 'never' })];
      })()`);
      expect(statuses).toEqual([403, 403]);
    });
  });

  test('every step works without a mouse', async () => {
    await withPage({}, async (page) => {
      await page.goto('/sign-in');
      await page.getByRole('button', { name: /^ben,/ }).focus();
      await page.keyboard.press('Enter');
      await heading(page, 'API keys').waitFor();
      await button(page, 'Create key').focus();
      await page.keyboard.press('Enter');
      const dialog = page.getByRole('dialog');
      const focused = (): Promise<string> =>
        page.evaluate<string>(
          'document.activeElement.labels?.[0]?.textContent ?? document.activeElement.textContent',
        );
      await dialog.getByLabel('Name', { exact: true }).waitFor();
      expect(await focused()).toContain('Name');
      await page.keyboard.type('by keyboard');
      await page.keyboard.press('Enter');
      await page.getByLabel('Key value').waitFor();
      // The key's value is shown only once, so the dialog must stay open until the user confirms having stored it.
      for (const _ of [1, 2]) await page.keyboard.press('Escape');
      expect(await page.getByLabel('Key value').isVisible()).toBe(true);
      await page.keyboard.press('Shift+Tab');
      expect(await focused()).toContain('I have stored it');
      await page.keyboard.press('Space');
      await page.keyboard.press('Escape');
      await page.getByRole('row', { name: /by keyboard.*active/ }).waitFor();
      expect(await page.getByRole('dialog').count()).toBe(0);
    });
  });
});

describe('signing in and out', () => {
  test('a link signs in once, and leaves nothing in the address', async () => {
    const { url } = await dev.admin<{ url: string }>('POST', '/console/links');
    await withPage({}, async (page) => {
      await page.goto(url);
      await heading(page, 'Fleet').waitFor();
      expect(page.url()).not.toContain('#');
      await button(page, 'Sign out').click();
      await button(page, 'Sign out of this browser').click();
      await heading(page, 'Sign in to Headgate').waitFor();
      await page.goto('/keys');
      await heading(page, 'Sign in to Headgate').waitFor();
    });
    await withPage({}, async (page) => {
      await page.goto(url);
      await page.getByText('this sign-in link has already been used').waitFor();
    });
  });

  test('a link does not replace a session without a click', async () => {
    const linkOf = async () => (await dev.admin<{ url: string }>('POST', '/console/links')).url;
    await withPage({}, async (page, watched) => {
      await asMember(page, 'ben', await linkOf());
      await page.getByText('This browser is signed in as ben').waitFor();
      await watched.expectAccessible('a link before a session');
      await button(page, 'Stay signed in as ben').click();
      await heading(page, 'API keys').waitFor();
      await page.goto(await linkOf());
      await button(page, 'Sign in with the link').click();
      await heading(page, 'Fleet').waitFor();
    });
  });

  test('a member sees only their organisation’s pages and data', async () => {
    await withPage({ allowed: /status of 40[13]/ }, async (page) => {
      await asMember(page, 'ben');
      const pages = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allTextContents();
      expect(pages).toEqual([
        'Stacks',
        'Organisations',
        'Models',
        'Requests',
        'API keys',
        'Usage',
        'Limits',
        'Explain',
      ]);
      await page.getByRole('link', { name: 'Stacks', exact: true }).click();
      await page.getByRole('link', { name: 'stk-quiet-heron-4m7q' }).click();
      expect(await page.getByText(stack).count()).toBe(0);
      // Members see whether the stack serves requests, although only operators see its nodes.
      await page
        .getByRole('tabpanel')
        .getByText(/served$/)
        .first()
        .waitFor();
      await page.goto(`/stacks/${stack}`);
      await page.getByText('may not do this, or it does not exist').waitFor();
      await page.goto('/gateways');
      await page.getByText('There is no such page').waitFor();
    });
  });
});

test('an owner switches a stack’s API style, and the other SDK can reach it', async () => {
  const { url } = dev.ready.stacks.find(({ id }) => id === stack) ?? { url: '' };
  const key = dev.ready.organisations.find(({ id }) => id === 'acme')?.key ?? '';
  const client = new Anthropic({ baseURL: url.replace(/\/v1$/, ''), apiKey: key, maxRetries: 0 });
  const message = (): Promise<number> =>
    client.messages
      .create({ model: 'echo-large', max_tokens: 50, messages: [{ role: 'user', content: 'hello' }] })
      .then(
        ({ content }) => (content.length > 0 ? 200 : 0),
        (error: { status?: number }) => error.status ?? 0,
      );
  expect(await message()).not.toBe(200);
  await withPage({}, async (page) => {
    await asMember(page, 'ana', `/stacks/${stack}`);
    await page.getByRole('tab', { name: 'Credentials settings' }).click();
    await page.getByText(`curl ${url}/chat/completions`).waitFor();
    await page.getByLabel('Anthropic-style').check();
    await page.getByText(/used it in the last hour/).waitFor();
    await button(page, 'Switch surface').click();
    await page.getByText(`curl ${url}/messages`).waitFor();
    await until(async () => (await message()) === 200);
    await page.getByLabel('OpenAI-style').check();
    await button(page, 'Switch surface').click();
    await page.getByText(`curl ${url}/chat/completions`).waitFor();
  });
});

test('the log grows live on the page, with person, action and way', async () => {
  await withPage({}, async (page) => {
    await asOperator(page);
    await page.getByRole('link', { name: 'Events', exact: true }).click();
    const events = page.getByRole('list', { name: 'Events' });
    await events.waitFor();
    await dev.admin('POST', '/keys', { organisation: 'cedar', name: 'seen live', expires: '30d' });
    const first = events.getByRole('listitem').first();
    await first.getByText('seen live').first().waitFor();
    expect(await first.textContent()).toMatch(/operator created the key seen live.*cli/);
    for (const [suspended, verb] of [
      [true, 'suspended'],
      [false, 'resumed'],
    ]) {
      await dev.admin('PATCH', '/organisations/birch', { suspended });
      await events.getByText(`${verb} the organisation`).first().waitFor();
    }
    await page.goto('/events?type=node.health_changed');
    const health = await events.getByRole('listitem').first().textContent();
    expect(health).toMatch(/(put|took) [a-z]+-s?\d (into|out of) service/);
  });
});

test('a page that stays open keeps nothing from completed reads', async () => {
  await withPage({}, async (page) => {
    await page.addInitScript(`{
      globalThis.held = 0;
      const { addEventListener, removeEventListener } = AbortSignal.prototype;
      AbortSignal.prototype.addEventListener = function (...args) { held++; return addEventListener.apply(this, args); };
      AbortSignal.prototype.removeEventListener = function (...args) { held--; return removeEventListener.apply(this, args); };
    }`);
    await asOperator(page, '/gateways');
    await page.getByRole('row', { name: /gateway-1/ }).waitFor();
    const held = (): Promise<number> => page.evaluate<number>('held');
    const before = await held();
    for (let read = 0; read < 3; read++) await page.waitForResponse(/\/api\/gateways/);
    await until(async () => (await held()) <= before);
  });
});

test('a page shows any past position, allows no changes there, compares it with now, and returns', async () => {
  await withPage({}, async (page, watched) => {
    await asOperator(page, '/keys?org=birch');
    await button(page, 'Create key').waitFor();
    const headers = { authorization: `Bearer ${dev.ready.operatorToken}` };
    const status = await fetch(`${dev.ready.admin}/admin/v1/status`, { headers });
    const { position: before } = (await status.json()) as { position: number };
    await createKey(page, 'of later');
    await page.getByRole('row', { name: /of later/ }).waitFor();
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route(/\/api\/keys\?.*at=/, async (route) => {
      await held;
      await route.continue();
    });
    // With the keyboard alone, Escape closes the field and returns the focus to the chip.
    const chip = page.locator('summary', { hasText: 'Now' });
    await chip.focus();
    await page.keyboard.press('Enter');
    await page.getByLabel('Position or time').waitFor();
    await watched.expectAccessible('the chip of the moment, opened');
    await page.keyboard.press('Escape');
    await page.getByLabel('Position or time').waitFor({ state: 'hidden' });
    await page.keyboard.press('Enter');
    await page.locator('input[name=moment]:focus').waitFor();
    await page.keyboard.type(String(before));
    await page.keyboard.press('Enter');
    await page.getByText(/As of position/).waitFor();
    // Until the past state has loaded, the page must not show the present state in its place.
    await page.locator('.table.blank').waitFor();
    const visibility = `getComputedStyle(document.querySelector('.table.blank tbody')).visibility`;
    expect(await page.evaluate<string>(visibility)).toBe('hidden');
    expect(await page.getByRole('row', { name: /of later/ }).count()).toBe(0);
    await page.getByText('of later').waitFor({ state: 'hidden' });
    expect(await page.getByText(/active keys?\./).count()).toBe(0);
    // Hidden rows must not react to clicks either.
    const clicked = `{
      let clicks = 0;
      document.addEventListener('click', () => clicks++, { once: true });
      for (const one of document.querySelectorAll('.table.blank tbody :is(a, button)')) one.click();
      clicks;
    }`;
    expect(await page.evaluate<number>(clicked)).toBe(0);
    release();
    await page.getByRole('row', { name: /made by headgate dev/ }).waitFor();
    expect(page.url()).toContain(`at=${before}`);
    await page.getByText('of later').waitFor({ state: 'detached' });
    expect(await page.getByRole('button', { name: /^(?:Create key|Revoke )/ }).count()).toBe(0);
    await button(page, 'Compare with now').click();
    await page.getByRole('dialog').getByText('api_key').first().waitFor();
    await watched.expectAccessible('the past');
    await page.keyboard.press('Escape');
    await button(page, 'Back to now').click();
    await page.getByRole('row', { name: /of later/ }).waitFor();
  });
});

test('the page’s figures equal those of the API, of its saved file and of the command line', async () => {
  const { key = '' } = dev.ready.organisations.find(({ id }) => id === 'cedar') ?? {};
  const [gateway] = dev.ready.gateways;
  for (let index = 0; index < 3; index++) expect(await complete(gateway?.api ?? '', key)).toBe(200);
  const usage = () =>
    dev.admin<{ requests: number; totalTokens: number }>('GET', '/usage?organisation=cedar');
  await until(async () => (await usage()).requests === 3);
  const { totalTokens } = await usage();
  const keys = await dev.admin<{ items: { id: string }[] }>('GET', '/keys?organisation=cedar');
  const id = keys.items[0]?.id ?? '';
  const env = { HEADGATE_ADMIN: dev.ready.admin, HEADGATE_TOKEN: dev.ready.operatorToken };
  const shown = await runCli(['usage', 'show', '--org', 'cedar'], { env });
  expect(shown.code).toBe(0);
  expect(shown.out).toMatch(new RegExp(`^echo-small +3 +\\d+ +\\d+ +${totalTokens}$`, 'm'));
  expect(shown.out).toMatch(new RegExp(`^total +3 .*\\b${totalTokens}$`, 'm'));
  // In time zones west of Greenwich, a UTC day begins on the day before.
  await withPage({ timezone: 'America/Los_Angeles' }, async (page) => {
    await asOperator(page, '/usage');
    await page.getByText('Allowance used').waitFor();
    const chosen = page.getByRole('combobox');
    // Without an organisation in the address, the page shows the first one and says so.
    expect(await chosen.inputValue()).toBe('Acme');
    await chosen.fill('ceda');
    await page.getByRole('option', { name: 'Cedar' }).click();
    await page.waitForURL(/org=cedar/);
    const named = new RegExp(`echo-small made by headgate dev 3 .*${totalTokens}`);
    await page.getByRole('row', { name: named }).waitFor();
    expect(await page.locator('.figure').allTextContents()).toEqual([
      `All tokens this period${totalTokens}`,
      'Requests this period3',
      expect.stringMatching(/^Allowance used[\d,]+ of 1,000,000$/),
      expect.stringMatching(/^Forecast/),
      expect.stringMatching(/^Time to first tokenmedian [\d,]+ ms, p95 [\d,]+ ms$/),
    ]);
    const [saved] = await Promise.all([page.waitForEvent('download'), button(page, 'Download CSV').click()]);
    const chunks: Buffer[] = [];
    for await (const chunk of await saved.createReadStream()) chunks.push(chunk as Buffer);
    const file = Buffer.concat(chunks).toString();
    expect(file).toMatch(
      new RegExp(
        `^day,model,key_name,key,.*\\r\\n"\\d{4}-\\d\\d-\\d\\d","echo-small","made by headgate dev","${id}",3,\\d+,\\d+,${totalTokens},\\d+,\\d+\\r\\n$`,
      ),
    );
    const [date = ''] = /\d{4}-\d\d-\d\d/.exec(file) ?? [];
    const words = new Date(date).toUTCString().slice(5, 16).replace(/^0/, '');
    expect(await page.getByRole('row', { name: named }).textContent()).toContain(words);
  });
});

test('a long list is windowed, searched as a whole, and continued by links that the back button reverses', async () => {
  const { version, ...state } = await dev.admin<{
    version: number;
    organisations: { id: string; members?: object[] }[];
  }>('GET', '/fleet');
  const added = Array.from({ length: 620 }, (_, n) => ({ person: `q-${1000 + n}`, role: 'viewer' }));
  const organisations = state.organisations.map((one) =>
    one.id === 'cedar' ? { ...one, members: [...(one.members ?? []), ...added] } : one,
  );
  await dev.admin('POST', '/fleet/apply', { fleet: { version, ...state, organisations } });
  await withPage({}, async (page, watched) => {
    await asOperator(page, '/orgs/cedar');
    await page.getByText(/^500 of 62\d$/).waitFor();
    const rows = page.getByRole('region', { name: 'Members' }).locator('tbody tr[aria-rowindex]');
    expect(await rows.count()).toBeLessThan(120);
    // After scrolling to the end of the box, the table's last row must be visible there.
    const isAtEnd = (): Promise<boolean> =>
      page.evaluate<boolean>(`(() => {
        const box = document.querySelector('[role=region][aria-label=Members]');
        box.scrollTop = box.scrollHeight;
        const last = [...box.querySelectorAll('tbody tr[aria-rowindex]')].at(-1);
        const gap = box.getBoundingClientRect().bottom - last.getBoundingClientRect().bottom;
        return last.getAttribute('aria-rowindex') === '501' && Math.abs(gap) < 40;
      })()`);
    await until(isAtEnd);
    await watched.expectAccessible('a windowed list');
    await page.getByRole('link', { name: 'Next page' }).click();
    await page.getByText('This is the last page.').waitFor();
    await page.getByRole('row', { name: /q-1619/ }).waitFor();
    expect(page.url()).toContain('after=');
    await page.goBack();
    await page.getByText(/^500 of 62\d$/).waitFor();
    await page.getByLabel('Search this table').fill('q-1619');
    await page.getByRole('row', { name: /q-1619/ }).waitFor();
    expect(await rows.count()).toBe(0);
    expect(await page.getByRole('row', { name: /q-/ }).count()).toBe(1);
    expect(page.url()).toContain('q=q-1619');
  });
});

test('if more events arrive at once than a page keeps, it reads the newest instead', async () => {
  await withPage({}, async (page) => {
    await asOperator(page);
    // Delays the display of new events until the test releases them, as a busy browser would.
    await page.addInitScript(`{
      const { setTimeout: later } = globalThis;
      globalThis.waiting = [];
      globalThis.setTimeout = (work, ms, ...rest) => ms === 100 ? waiting.push(work) : later(work, ms, ...rest);
    }`);
    await page.goto('/events');
    const events = page.getByRole('list', { name: 'Events' });
    await events.waitFor();
    let head = 0;
    for (let commit = 0; commit < 6; commit++) {
      const models = Array.from({ length: 100 }, (_, n) => ({
        ...{ id: `burst-${commit}-${n}`, family: 'burst', weight: 1 },
      }));
      const fleet = { version: 1, models };
      ({ position: head } = await dev.admin<{ position: number }>('POST', '/fleet/apply', { fleet }));
    }
    await page.getByTitle(`Log at position ${head},`).waitFor();
    await page.evaluate('for (const work of waiting.splice(0)) work()');
    await events.getByText('burst-5-99').first().waitFor();
    expect(await events.getByRole('listitem').count()).toBeLessThanOrEqual(300);
  });
});

test('a session renewed while its page was open continues, and an ended one signs out', async () => {
  const allowed = /status of (401|502)/;
  await withPage({ allowed }, async (page) => {
    await asOperator(page);
    const ended = { contentType: 'text/event-stream', body: 'retry: 10\nevent: ended\ndata: {}\n\n' };
    let asked = 0;
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route('**/api/stream', async (route) => {
      asked++;
      if (asked === 1) return route.fulfill({ status: 502, body: 'from a proxy' });
      if (asked > 2) await held;
      return route.fulfill(ended);
    });
    await page.goto('/events');
    await until(() => asked === 3);
    expect(page.url()).toMatch(/events$/);
    await page.getByRole('list', { name: 'Events' }).waitFor();
    await page.context().clearCookies();
    release();
    await page.getByLabel('Operator token').waitFor();
  });
});
