/**
 * Tests the pages about requests and traffic in a real browser against a real `headgate dev`: reasons for refusals, and
 * activity of a key.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RequestRow } from '../../schemas/admin/requests.ts';
import { scaledMs } from '../support/budget.ts';
import { button, ConsoleFleet, heading, visit } from '../support/console-fleet.ts';
import { until } from '../support/until.ts';

const stack = 'stk-amber-otter-9k2f';
let fleet: ConsoleFleet;
/** Id of a refused request of the organisation cedar, whose plan does not include echo-large. */
let refused: string;

async function ask(organisation: string, model: string): Promise<{ status: number; request: string }> {
  const answer = await fleet.ask(organisation, model);
  await answer.text();
  return { status: answer.status, request: answer.headers.get('x-request-id') ?? '' };
}

beforeAll(async () => {
  fleet = await ConsoleFleet.start();
  for (const organisation of ['acme', 'birch', 'cedar'])
    expect((await ask(organisation, 'echo-small')).status).toBe(200);
  const found = await ask('cedar', 'echo-large');
  expect(found.status).toBe(403);
  refused = found.request;
});
afterAll(() => fleet?.close());

const rows = (page: Page) => page.getByRole('region', { name: 'Requests', exact: true }).locator('tbody tr');
const explanation = (page: Page) => page.getByRole('region', { name: 'Explanation' });

test('the reason for a refusal is two clicks from the fleet page and one from the explain page', async () => {
  await fleet.withPage({}, async (page, watched) => {
    await fleet.asOperator(page);
    await page.getByRole('link', { name: 'Refused in the last hour' }).click();
    await heading(page, 'Requests').waitFor();
    const row = rows(page).filter({ hasText: 'ModelNotInPlanError' });
    // The row's link covers the whole row, so a click anywhere opens it.
    await row.filter({ hasText: 'Cedar' }).locator('td').nth(1).click({ force: true });
    await explanation(page).getByText('refused 403 ModelNotInPlanError').waitFor();
    await explanation(page).getByText('decided it').waitFor();
    expect(await rows(page).filter({ hasText: 'served' }).count()).toBe(0);
    await watched.expectAccessible('requests with an explanation');
    // The address contains the open request and the filters, so both survive a reload.
    await page.reload();
    await explanation(page).getByText('refused 403 ModelNotInPlanError').waitFor();
    await page.getByRole('link', { name: 'Close the explanation' }).click();
    await explanation(page).waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Explain', exact: true }).click();
    const latest = page.getByRole('list', { name: 'Latest refusals' }).getByRole('link');
    await latest.filter({ hasText: 'ModelNotInPlanError' }).click();
    await page.getByText('refused 403 ModelNotInPlanError').waitFor();
  });
});

test('pasting a request id into the search finds the request', async () => {
  await fleet.withPage({}, async (page) => {
    await fleet.asOperator(page, '/requests');
    await rows(page).nth(2).waitFor();
    await page.getByLabel('Find a request').fill(` x-request-id: ${refused}`);
    await explanation(page).getByText('refused 403 ModelNotInPlanError').waitFor();
    await until(async () => (await rows(page).count()) === 1);
    await page.getByRole('button', { name: `Remove the filter request ${refused}` }).click();
    await rows(page).nth(2).waitFor();
  });
});

test('a key’s traffic is followed live, paused, and followed again', async () => {
  await fleet.withPage({}, async (page) => {
    await fleet.asMember(page, 'ana');
    await page.getByRole('link', { name: 'Requests of made by headgate dev' }).click();
    await heading(page, 'Requests').waitFor();
    await rows(page).first().waitFor();
    const before = await rows(page).count();
    const first = await ask('acme', 'echo-small');
    await until(async () => (await rows(page).count()) === before + 1);
    expect(await rows(page).first().locator('.row-link').getAttribute('title')).toBe(first.request);
    await button(page, 'Pause').click();
    await ask('acme', 'echo-small');
    await button(page, 'Show 1 new request').waitFor();
    expect(await rows(page).count()).toBe(before + 1);
    await button(page, 'Follow').click();
    await until(async () => (await rows(page).count()) === before + 2);
    expect(await button(page, 'Show 1 new request').count()).toBe(0);
  });
});

test('a member sees no row, figure or name of others, in the pages or in any API response', async () => {
  const others = await fleet.admin<{ items: RequestRow[] }>('GET', '/requests?organisation=cedar');
  const keys = await fleet.admin<{ items: { id: string; organisation: string }[] }>('GET', '/keys');
  const canaries = [
    ...['birch', 'Birch', 'cedar', 'Cedar', 'stk-quiet-heron-4m7q', 'pool-1', 'acme-own'],
    ...others.items.map(({ request }) => request),
    ...keys.items.filter(({ organisation }) => organisation !== 'acme').map(({ id }) => id),
  ];
  await fleet.withPage({ allowed: /status of 40[13]/ }, async (page) => {
    const answers: string[] = [];
    page.on('response', (response) => {
      // Skips the sign-in page, because in a demo it shows everyone buttons with the members' names.
      if (!response.url().includes('/api/') || /\/(?:stream|sign-in)\b/.test(response.url())) return;
      response.text().then(
        (text) => answers.push(`${response.url()} ${text}`),
        () => undefined,
      );
    });
    await fleet.asMember(page, 'ana', '/requests');
    await rows(page).first().waitFor();
    expect(await page.getByRole('main').textContent()).not.toMatch(/cedar|birch|pool-1/i);
    for (const [path, name] of [
      ['/orgs/acme', 'Acme'],
      [`/stacks/${stack}`, stack],
      ['/explain', 'Explain'],
      ['/usage', 'Usage'],
      ['/keys', 'API keys'],
    ] as const) {
      await visit(page, path, name);
      await page.locator('.loading').waitFor({ state: 'detached' });
    }
    const asked = [
      '/requests?organisation=cedar',
      '/requests?node=pool-1',
      '/traffic',
      '/requests',
      '/requests/stream',
    ];
    const asks = [
      ...asked,
      '/requests/stream?organisation=cedar',
      '/traffic?organisation=cedar',
      '/traffic?node=pool-1',
    ];
    const statuses = await page.evaluate<number[]>(
      `Promise.all(${JSON.stringify(asks)}.map(async (path) => (await fetch('/api' + path)).status))`,
    );
    expect(statuses).toEqual(asks.map(() => 403));
    // Removes the addresses, because those of refused calls contain the ids that the test itself asked for.
    const texts = answers.map((answer) => answer.slice(answer.indexOf(' ')));
    for (const canary of canaries)
      expect([canary, texts.filter((text) => text.includes(canary))]).toEqual([canary, []]);
  });
});

test('plots show the last hour, and the keyboard moves their cursor', async () => {
  await until(async () => {
    const { steps } = await fleet.admin<{ steps: object[] }>('GET', '/traffic');
    return steps.length > 0;
  }, scaledMs(60_000));
  await fleet.withPage({}, async (page, watched) => {
    await fleet.asOperator(page);
    const traffic = page.getByRole('region', { name: 'Traffic' });
    const axis = traffic.getByRole('slider', { name: 'Time in the charts' });
    await axis.focus();
    const last = await axis.getAttribute('aria-valuetext');
    expect(last).toMatch(/^\d\d:\d\d:\d\d: Requests per second [\d.]+; /);
    await page.keyboard.press('Home');
    expect(await axis.getAttribute('aria-valuetext')).not.toBe(last);
    expect(await traffic.getByText('ModelNotInPlanError').count()).toBe(1);
    await watched.expectAccessible('the fleet with plots');
    for (const [path, name] of [
      ['/gateways/gateway-1', 'gateway-1'],
      ['/nodes/pool-1', 'pool-1'],
      ['/orgs/acme', 'Acme'],
    ] as const) {
      await visit(page, path, name);
      await page.getByRole('region', { name: 'Traffic' }).getByText('Tokens per second').waitFor();
    }
    await visit(page, '/fleet?at=2', 'Fleet');
    expect(await page.getByRole('region', { name: 'Traffic' }).count()).toBe(0);
  });
});

test.each([
  [360, 'light'],
  [360, 'dark'],
  [1280, 'dark'],
] as const)('at %i pixels, %s, requests can be used without a mouse', async (width, scheme) => {
  await fleet.withPage({ width, scheme }, async (page, watched) => {
    await fleet.asOperator(page, '/requests?outcome=refused');
    await rows(page).first().waitFor();
    await watched.expectAccessible('requests');
    await rows(page).first().locator('.row-link').focus();
    await page.keyboard.press('Enter');
    await explanation(page).getByRole('heading', { name: 'Why' }).waitFor();
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Why');
    await explanation(page).getByRole('list', { name: 'Steps' }).waitFor();
    await watched.expectAccessible('requests with an explanation');
  });
});

/** Scrolls the list and resolves once the list has reacted, because the scroll event arrives in a later frame. */
const scrollTo = (page: Page, top: number): Promise<void> =>
  page.evaluate(`new Promise((resolve) => {
    const list = document.querySelector('.requests .table');
    list.addEventListener('scroll', () => requestAnimationFrame(resolve), { once: true });
    list.scrollTo(0, ${top});
  })`);

const made = (at: number): RequestRow => ({
  request: `req_${at.toString(16).padStart(32, '0')}`,
  at: new Date(1_795_000_000_000 - at * 50).toISOString(),
  ...{ gateway: 'gateway-1', organisation: 'acme', key: 'key-1', keyName: 'job', host: 'shared' },
  ...{ operation: 'chat', model: 'echo-small', verdict: 'served', status: 200, node: 'pool-1' },
  ...{ promptTokens: 12, completionTokens: 40, firstTokenMs: 21.5, durationMs: 310, position: 40 },
});

/** Checks that hidden columns take up no room in the table, and that no time is cut off. */
const columnsAreWhole = `(() => {
  const table = document.querySelector('.requests table');
  const shown = [...table.querySelectorAll('th')].filter(({ offsetWidth }) => offsetWidth > 0);
  const isFull = table.getBoundingClientRect().right - shown.at(-1).getBoundingClientRect().right < 2;
  return isFull && [...table.querySelectorAll('.row-link')].every((time) => time.scrollWidth <= time.clientWidth);
})()`;

test('ten thousand rows use as few elements as one screen, and missing rows are reported', async () => {
  await fleet.withPage({}, async (page) => {
    const items = Array.from({ length: 10_000 }, (_, at) => made(at));
    const message = JSON.stringify({ items, silent: ['gateway-2'], missed: 7 });
    await page.route('**/api/requests/stream?*', (route) =>
      route.fulfill({
        headers: { 'content-type': 'text/event-stream' },
        body: `retry: 600000\n\nevent: requests\ndata: ${message}\n\n`,
      }),
    );
    await fleet.asOperator(page, '/requests');
    await page.getByText('10,000 requests').waitFor();
    await page.getByText('Requests are missing from gateway-2').waitFor();
    await page.getByText('and 7 more that arrived too fast to show').waitFor();
    expect(await rows(page).count()).toBeLessThan(150);
    expect(await page.evaluate(columnsAreWhole)).toBe(true);
    await page.evaluate(`document.querySelector('.requests .table').scrollTo(0, 1e9)`);
    await page.locator(`[title="${made(9999).request}"]`).waitFor();
    expect(await rows(page).count()).toBeLessThan(150);
    await page.getByText('connection lost, reconnecting').waitFor();
    await page.goto(`/requests?open=${refused}`);
    await explanation(page).getByText('refused 403 ModelNotInPlanError').waitFor();
    await page.getByText('10,000 requests').waitFor();
    expect(await page.evaluate(columnsAreWhole)).toBe(true);
  });
});

test('further down the list nothing moves, and at the top the page follows again', async () => {
  await fleet.withPage({}, async (page) => {
    // Makes enough rows to let the list scroll.
    for (let n = 0; n < 40; n++) expect((await ask('acme', 'echo-small')).status).toBe(200);
    await fleet.asOperator(page, '/requests');
    const line = page.locator('.follow-line');
    await line.getByText(/following$/).waitFor();
    await rows(page).nth(39).waitFor();
    await scrollTo(page, 600);
    await line.getByText('paused while you scroll').waitFor();
    const before = await rows(page).first().locator('.row-link').getAttribute('title');
    const { request } = await ask('acme', 'echo-small');
    await button(page, 'Show 1 new request').waitFor();
    expect(await rows(page).first().locator('.row-link').getAttribute('title')).toBe(before);
    await scrollTo(page, 0);
    await line.getByText(/following$/).waitFor();
    await page.locator(`[title="${request}"]`).waitFor();
    expect(await button(page, 'Show 1 new request').count()).toBe(0);
  });
});
