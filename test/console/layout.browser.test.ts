/**
 * Checks every page in wide and narrow windows, light and dark. Nothing may be cut off or covered, no accessibility rule may
 * be violated, and each name must link to the page of the object that it names.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runs } from '../support/budget.ts';
import { button, ConsoleFleet, follow, heading, visit } from '../support/console-fleet.ts';
import { consolePages } from '../support/console-pages.ts';
import { until } from '../support/until.ts';

const stack = 'stk-amber-otter-9k2f';
const longName = 'nightly reconciliation of invoices, second attempt, Frankfurt region';
let fleet: ConsoleFleet;

async function ask(organisation: string, model: string): Promise<number> {
  const answer = await fleet.ask(organisation, model);
  await answer.text();
  return answer.status;
}

beforeAll(async () => {
  fleet = await ConsoleFleet.start();
  // Creates the data of a fleet after some days of use: long names, large numbers, requests, refusals, and nodes that do not
  // serve.
  await fleet.admin('POST', '/keys', { organisation: 'acme', name: longName, expires: '90d' });
  await fleet.admin('PUT', '/organisations/acme/members/automation-of-the-platform-team', { role: 'member' });
  for (const model of ['echo-small', 'echo-private', 'echo-large'])
    expect(await ask('acme', model)).toBe(200);
  expect(await ask('cedar', 'echo-large')).toBe(403);
  await fleet.admin('POST', '/nodes/birch-s1/drain?force=true', {});
  await until(async () => {
    const { items } = await fleet.admin<{ items: object[] }>('GET', '/usage/keys');
    const { refusals = [] } = await fleet.admin<{ refusals?: object[] }>('GET', '/activity');
    return items.length > 0 && refusals.length > 0;
  });
});
afterAll(() => fleet?.close());

/**
 * For each page, the number of requests begun, and the requests under way that the page waits for. Endless streams do not
 * count.
 */
const calls = new WeakMap<Page, { begun: number; readonly underWay: Set<unknown> }>();

function watchCalls(page: Page): void {
  const underWay = new Set<unknown>();
  const ofPage = { begun: 0, underWay };
  calls.set(page, ofPage);
  const isRead = (url: string): boolean => url.includes('/api/') && !/\/stream(\?|$)/.test(url);
  page.on('request', (request) => {
    if (!isRead(request.url())) return;
    ofPage.begun++;
    underWay.add(request);
  });
  page.on('requestfinished', (request) => underWay.delete(request));
  page.on('requestfailed', (request) => underWay.delete(request));
}

/** Waits until the page is complete, which means that no request begins or is in flight for ten frames in a row. */
async function settled(page: Page): Promise<void> {
  const frames = `(async () => {
    for (let frame = 0; frame < 10; frame++) await new Promise((resolve) => requestAnimationFrame(resolve));
  })()`;
  await until(async () => {
    const before = calls.get(page)?.begun;
    await page.evaluate(frames);
    return calls.get(page)?.begun === before && calls.get(page)?.underWay.size === 0;
  });
}

async function open(page: Page, path: string, name: string): Promise<void> {
  await visit(page, path, name);
  await page.locator('.loading').waitFor({ state: 'detached' });
  await settled(page);
}

/**
 * Finds elements with content wider than themselves, elements that cross the window's edge, controls that another element
 * covers, words broken in the middle, and cells whose parts are torn apart. Elements that may scroll do not count, and
 * neither do those that end in "…" and have the whole text in their title.
 */
const faultsOfLayout = `(() => {
  const faults = [];
  const nameOf = (element) => element.tagName.toLowerCase() + '.' + element.className + ' ' + element.textContent.trim().slice(0, 40);
  // On narrow windows the headings of tables are for those who do not see them.
  const isClipped = (head) => head !== null && getComputedStyle(head).clipPath !== 'none';
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true })
    && !element.closest('.visually-hidden, svg') && !isClipped(element.closest('thead'));
  const all = [...document.querySelectorAll('main *, header *')].filter(isShown);
  for (const element of all) {
    const { clientWidth, scrollWidth } = element;
    const isField = element.matches('input, select, textarea');
    if (!isField && !element.title && clientWidth > 0 && scrollWidth > clientWidth + 1)
      faults.push('cut: ' + nameOf(element) + ' ' + scrollWidth + ' in ' + clientWidth);
    const { left, right, width } = element.getBoundingClientRect();
    if (width > 0 && (left < -1 || right > window.innerWidth + 1)) faults.push('outside: ' + nameOf(element));
  }
  const interactive = all.filter((element) => element.matches('a[href], button, input, select, textarea, summary, td'));
  const boxes = interactive.flatMap((element) => [...element.getClientRects()].map((box) => ({ element, box })));
  for (const [index, one] of boxes.entries())
    for (const other of boxes.slice(index + 1)) {
      if (one.element.contains(other.element) || other.element.contains(one.element)) continue;
      const wide = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
      const high = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
      if (wide > 1 && high > 1) faults.push('overlap: ' + nameOf(one.element) + ' and ' + nameOf(other.element));
    }
  // Of addresses, ids and code any part may end a line.
  const range = document.createRange();
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!isShown(node.parentElement) || node.parentElement.closest('code, pre, h1, h2, option, thead')) continue;
    for (const { 0: word, index } of node.data.matchAll(/[\\p{L}\\d]{4,40}/gu)) {
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1)
        faults.push('broken: ' + word + ' in ' + nameOf(node.parentElement));
    }
  }
  const hasText = ({ nodeType, textContent }) => nodeType !== Node.COMMENT_NODE && textContent.trim() !== '';
  for (const cell of document.querySelectorAll('td:not(.title, .action)'))
    if (getComputedStyle(cell).display === 'flex' && [...cell.childNodes].filter(hasText).length > 1)
      faults.push('apart: ' + nameOf(cell));
  return [...new Set(faults)];
})()`;

test('the layout check detects the faults that it is for', async () => {
  await fleet.withPage({ width: 1280 }, async (page) => {
    watchCalls(page);
    await fleet.asOperator(page);
    await open(page, '/keys', 'API keys');
    await page.evaluate(`document.querySelector('td.title').style.cssText = 'min-width: 1500px'`);
    const wide = await page.evaluate<string[]>(faultsOfLayout);
    expect(wide.filter((fault) => fault.startsWith('cut')).length).toBeGreaterThan(0);
    expect(wide.filter((fault) => fault.startsWith('overlap')).length).toBeGreaterThan(0);
    await page.evaluate(`document.querySelector('td.title strong').style.cssText =
      'display: block; width: 2ch; overflow-wrap: anywhere'`);
    const broken = await page.evaluate<string[]>(faultsOfLayout);
    expect(broken.filter((fault) => fault.startsWith('broken')).length).toBeGreaterThan(0);
  });
});

/** Returns each name together with the path of the page that it should link to. */
async function namesOfFleet(): Promise<readonly (readonly [name: string, path: string])[]> {
  const list = async (
    path: string,
  ): Promise<{ id: string; name: string; organisation: string; person: string }[]> =>
    (await fleet.admin<{ items: never[] }>('GET', path)).items;
  const [organisations, nodes, stacks, models, tiers, gateways, keys, members] = await Promise.all(
    ['/organisations', '/nodes', '/stacks', '/models', '/tiers', '/gateways', '/keys', '/members'].map(list),
  );
  const pathOf = (folder: string) => (id: string) => [id, `${folder}/${id}`] as const;
  return [
    ...(organisations ?? []).flatMap(({ id, name }) => [pathOf('/orgs')(id), [name, `/orgs/${id}`] as const]),
    ...(nodes ?? []).map(({ id }) => pathOf('/nodes')(id)),
    ...(stacks ?? []).map(({ id }) => pathOf('/stacks')(id)),
    ...(models ?? []).map(({ id }) => pathOf('/models')(id)),
    ...(tiers ?? []).map(({ id }) => pathOf('/tiers')(id)),
    ...(gateways ?? []).map(({ name }) => pathOf('/gateways')(name)),
    ...(keys ?? []).flatMap(({ id, name }) => [[id, '/keys'] as const, [name, '/keys'] as const]),
    ...(members ?? []).map(({ person, organisation }) => [person, `/orgs/${organisation}`] as const),
  ];
}

/**
 * Finds text nodes that contain a name but are not links. Exceptions are the page's own heading, text to type or copy
 * (fields, ids, code), the data of a record, and the sentences of refusals and findings, which are shown unchanged.
 */
const unlinked = (names: readonly string[]): string => `(() => {
  const names = new Set(${JSON.stringify(names)});
  const own = document.querySelector('h1').textContent;
  const faults = [];
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (element.closest('a, h1, h2, pre, select, option, datalist, button, .visually-hidden, .verbatim, [role=tooltip]')) continue;
    if (element.closest('.id') && element.matches('code')) continue;
    if (!element.checkVisibility()) continue;
    for (const word of [node.data.trim(), ...node.data.split(/[\\s,;:()“”]+/)])
      if (names.has(word) && word !== own) faults.push(word + ' in: ' + element.outerHTML.slice(0, 160));
  }
  return [...new Set(faults)].slice(0, 12);
})()`;

/** For the links whose text is a name, returns where they lead, and which of them lead to the wrong page. */
async function linksOf(page: Page, pathsOf: ReadonlyMap<string, ReadonlySet<string>>) {
  const links = await page.evaluate<[string, string][]>(
    `[...document.querySelectorAll('main a.name')].map((link) => [link.textContent.trim(), link.pathname])`,
  );
  const wrong = links.filter(([name, to]) => pathsOf.has(name) && !pathsOf.get(name)?.has(to));
  return { targets: links.map(([, to]) => to), wrong: wrong.map(([name, to]) => `${name} leads to ${to}`) };
}

/** Checks that each path shows the page of its object, not the page for missing objects. */
async function expectPages(
  page: Page,
  targets: ReadonlySet<string>,
  pathsOf: ReadonlyMap<string, ReadonlySet<string>>,
): Promise<void> {
  for (const folder of ['/orgs', '/nodes', '/stacks', '/models', '/tiers', '/gateways', '/keys'])
    expect([...targets].some((path) => path.startsWith(folder))).toBe(true);
  const shown = page.getByRole('heading', { level: 1 });
  for (const path of targets) {
    const names = [...pathsOf].flatMap(([name, paths]) => (paths.has(path) ? [name] : []));
    if (path === '/keys') names.push('API keys');
    await follow(page, path);
    await expect.poll(() => shown.textContent(), { message: path, timeout: 15_000 }).toBeOneOf(names);
    expect([path, await page.getByText('There is no such page').count()]).toEqual([path, 0]);
    expect([path, await page.getByRole('alert').count()]).toEqual([path, 0]);
  }
}

// Together, the first two rows cover each width and each colour scheme. The nightly run covers all four combinations.
test.each(
  (
    [
      [1280, 'light'],
      [360, 'dark'],
      [360, 'light'],
      [1280, 'dark'],
    ] as const
  ).slice(0, runs({ fast: 2, full: 2 })),
)(
  'at %i pixels, %s, every page is uncut, accessible, free of errors, and links every name to its page',
  async (width, scheme) => {
    const pathsOf = new Map<string, Set<string>>();
    for (const [name, path] of await namesOfFleet())
      pathsOf.set(name, (pathsOf.get(name) ?? new Set()).add(path));
    await fleet.withPage({ width, scheme }, async (page, watched) => {
      watchCalls(page);
      await page.goto('/sign-in');
      await page.getByRole('button', { name: /^ana,/ }).waitFor();
      await watched.expectAccessible('/sign-in');
      await fleet.asOperator(page);
      const found: Record<string, string[]> = {};
      const targets = new Set<string>();
      for (const [path, name] of consolePages) {
        await open(page, path, name);
        await watched.expectAccessible(path);
        const links = await linksOf(page, pathsOf);
        for (const to of links.targets) targets.add(to);
        const layout = await page.evaluate<string[]>(faultsOfLayout);
        const bare = await page.evaluate<string[]>(unlinked([...pathsOf.keys()]));
        const faults = [...layout, ...bare, ...links.wrong];
        if (faults.length > 0) found[path] = faults.slice(0, 12);
      }
      expect(found).toEqual({});
      if (width === 1280) await expectPages(page, targets, pathsOf);
      await page.goto('/keys');
      await button(page, 'Create key').click();
      await watched.expectAccessible('create key');
    });
  },
);

test('a node’s page shows its place, models, reporter and history, and can drain it', async () => {
  await fleet.withPage({ allowed: /status of 40[149]/ }, async (page, watched) => {
    await fleet.asOperator(page);
    await page.getByRole('link', { name: 'Nodes', exact: true }).click();
    await page.getByRole('link', { name: 'acme-s1', exact: true }).click();
    await heading(page, 'acme-s1').waitFor();
    const main = page.getByRole('main');
    await main.getByRole('link', { name: stack }).first().waitFor();
    const loaded = main.getByRole('list', { name: 'Loaded models' });
    expect(await loaded.getByRole('link').allTextContents()).toEqual(
      expect.arrayContaining(['echo-large', 'echo-embed']),
    );
    await main.getByText(/generation \d/).waitFor();
    const events = main.getByRole('list', { name: 'Events of the node' });
    await events.getByText('registered the node').waitFor();
    await watched.expectAccessible('node');
    await page.getByRole('button', { name: 'Drain', exact: true }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/served in the last hour/).waitFor();
    await watched.expectAccessible('effect of a drain');
    await dialog.getByRole('button', { name: 'Drain', exact: true }).click();
    await dialog.getByText(/No node of the stack .* would serve/).waitFor();
    await page.keyboard.press('Escape');
    await fleet.admin('POST', '/nodes/acme-s1/drain?force=true', {});
    await main.locator('.state.idle').getByText('drained').waitFor();
    await events.getByText('drained the node').first().waitFor();
    await page.getByRole('button', { name: 'Undrain', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Undrain', exact: true }).click();
    await events.getByText('undrained the node').first().waitFor();
    // An object that does not exist has no page, but there may be events about it.
    await page.goto('/nodes/gone-1');
    await page.getByRole('alert').waitFor();
    await page.getByText('There are no events about this node.').waitFor();
  });
});

test('explain begins with refusals, the fleet with its activity, a stack with a command that calls it', async () => {
  await fleet.withPage({}, async (page) => {
    await fleet.asOperator(page);
    await page.getByRole('list', { name: 'Newest events' }).getByRole('listitem').first().waitFor();
    await page.getByText('Requests in the last minute').waitFor();
    await page.getByRole('link', { name: 'Explain', exact: true }).click();
    const refusals = page.getByRole('list', { name: 'Refusals', exact: true });
    await refusals.getByText('Cedar').waitFor();
    await refusals.getByRole('link', { name: /^403/ }).click();
    await page
      .getByRole('region', { name: 'Answer' })
      .getByText(/refused 403/)
      .waitFor();
    // The texts of all steps must be aligned, whether the step passed or refused.
    const lefts = `[...document.querySelectorAll('.explained > .verbatim')].map((text) => text.getBoundingClientRect().left)`;
    expect(new Set(await page.evaluate<number[]>(lefts)).size).toBe(1);
    await page.goto(`/stacks/${stack}`);
    const { url } = fleet.ready.stacks.find(({ id }) => id === stack) ?? { url: '' };
    await page.getByText(`curl ${url}/chat/completions`).waitFor();
    await page.getByRole('button', { name: 'Copy', exact: true }).click();
    expect(await page.evaluate<string>('navigator.clipboard.readText()')).toContain(
      `curl ${url}/chat/completions`,
    );
  });
});

test('the first days of usage are hourly bars in the browser’s time zone, which is named', async () => {
  await until(async () => {
    const { requests } = await fleet.admin<{ requests: number }>('GET', '/usage?organisation=acme');
    return requests >= 3;
  });
  await fleet.withPage({ timezone: 'Asia/Kathmandu' }, async (page) => {
    await fleet.asOperator(page, '/usage?org=acme');
    const chart = page.getByRole('region', { name: 'Tokens over time' });
    // Chromium uses the older name of the time zone.
    await chart.getByText(/\(Asia\/Kath?mandu\)/).waitFor();
    const models = await chart.getByRole('listitem').allTextContents();
    expect(models.map((text) => /^echo-[a-z]+[\d,]+$/.test(text))).toEqual([true, true, true]);
    // The tokens appear in one or two bars. In this time zone UTC hours begin at :45, and a bar just after local midnight
    // also names the day.
    expect(await chart.locator('.bars title').allTextContents()).toContainEqual(
      expect.stringMatching(/^(\d+ \w+, )?\d\d:45: [1-9]\d* tokens$/),
    );
  });
});
