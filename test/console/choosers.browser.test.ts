/** Tests the console's choosers on a fleet with more objects of each kind than one list answer can contain. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchBrowser, WatchedPage } from '../support/browser.ts';
import { button, heading } from '../support/console-fleet.ts';
import { largeFleet } from '../support/large-fleet.ts';
import { operatorToken, ProcessFleet } from '../support/process-fleet.ts';
import type { Launch } from '../support/processes.ts';

type ConsolePlane = Launch<{ readonly admin: string; readonly console: string }>;

/** Number of organisations. Half of them have a stack. */
const organisations = 2_200;
let fleet: ProcessFleet;
let plane: ConsolePlane;
let browser: Awaited<ReturnType<typeof launchBrowser>>;
let watched: WatchedPage;
let page: Page;

beforeAll(async () => {
  fleet = new ProcessFleet();
  plane = await fleet.serve('control-plane', 'cp-1', ['--console-port', '0']);
  const admin = fleet.admin(plane);
  const large = largeFleet(organisations);
  // Leaves the members out, so that the fleet file fits into one commit.
  const tenants = large.organisations?.map((each) => ({ ...each, members: [] }));
  await admin.apply({ ...large, organisations: tenants });
  await admin.run('key.create', { organisation: 'org-3', name: 'the only key', expires: 'never' });
  browser = await launchBrowser();
  watched = await WatchedPage.open(browser, plane.ready.console);
  page = watched.page;
  await page.goto('/sign-in');
  await page.getByLabel('Operator token').fill(operatorToken);
  await button(page, 'Sign in').click();
  await heading(page, 'Fleet').waitFor();
});
afterAll(async () => {
  await watched?.close();
  await browser?.close();
  await fleet?.close();
});

const chooser = (within: Pick<Page, 'getByRole'>, label = 'Organisation') =>
  within.getByRole('combobox', { name: label, exact: true });
const fieldOf = (name: string): string => `document.querySelector('input[type=hidden][name=${name}]').value`;

interface Case {
  readonly path: string;
  readonly open?: () => Promise<unknown>;
  readonly label: string;
  readonly text: string;
  readonly option: RegExp;
  readonly chosen: string;
  readonly value: () => string;
}

const ofAddress = {
  label: 'Organisation',
  text: 'isation 999',
  option: /Organisation 999/,
  value: () => 'org-999',
};
const inAddress = `new URL(location.href).searchParams.get('org')`;

const cases: Readonly<Record<string, Case>> = {
  ...Object.fromEntries(
    ['/keys', '/stacks', '/limits', '/usage', '/requests', '/models'].map((path) => [
      `the organisation of ${path}`,
      { ...ofAddress, path, chosen: inAddress },
    ]),
  ),
  'a new key’s organisation': {
    ...{ ...ofAddress, path: '/keys', chosen: fieldOf('organisation') },
    open: () => button(page, 'Create key').click(),
  },
};

test.each(Object.entries(cases))('%s can be found beyond the first thousand', async (_, one) => {
  await page.goto(one.path);
  await one.open?.();
  const dialog = page.getByRole('dialog');
  const scope = (await dialog.count()) > 0 ? dialog : page;
  await chooser(scope, one.label).fill(one.text);
  await scope.getByRole('option', { name: one.option }).click();
  await page.waitForFunction(`${one.chosen} === '${one.value()}'`);
  expect(await page.getByRole('listbox').count()).toBe(0);
  watched.expectClean();
});

test('a chooser states how many options exist, and works with the keyboard alone', async () => {
  await page.goto('/keys');
  await button(page, 'Create key').click();
  const dialog = page.getByRole('dialog');
  const field = chooser(dialog);
  const options = dialog.getByRole('listbox', { name: 'Organisation' }).getByRole('option');
  await field.press('ArrowDown');
  await dialog.getByText('First 20 of 2,200. Type to find others.').waitFor();
  expect(await options.count()).toBe(20);
  await watched.expectAccessible('an open chooser');
  await field.fill('no such name');
  await dialog.getByText('Nothing matches “no such name”.').waitFor();
  // Enter must neither select an option that does not exist nor submit the form, and Escape must leave the dialog open.
  await field.press('Enter');
  await field.press('Escape');
  expect([await field.inputValue(), await options.count()]).toEqual(['', 0]);
  await field.fill('isation 77');
  await options.filter({ hasText: 'Organisation 770' }).waitFor();
  await field.press('ArrowDown');
  await field.press('ArrowDown');
  await field.press('ArrowUp');
  const name = await dialog.getByRole('option', { selected: true }).filter({ hasText: 'org-' }).textContent();
  await field.press('Enter');
  const chosen = await field.inputValue();
  expect(name).toContain(chosen);
  // If the user abandons a search, the field must keep the earlier choice.
  await field.fill('something else');
  await dialog.getByLabel('Name', { exact: true }).fill('by keys');
  expect(await field.inputValue()).toBe(chosen);
  await button(page, 'Create').click();
  await page.getByLabel('Key value').waitFor();
  watched.expectClean();
});

test('“All” can be chosen, and so can an id that was typed in full', async () => {
  await page.goto('/keys?org=org-999');
  await chooser(page).click();
  await page.getByRole('option', { name: 'All', exact: true }).click();
  await page.waitForFunction(`${inAddress} === null`);
  await chooser(page).fill('org-998');
  await page.getByRole('option', { name: 'org-998' }).waitFor();
  await chooser(page).press('Tab');
  await page.waitForFunction(`${inAddress} === 'org-998'`);
  watched.expectClean();
});

test('a tier used by hundreds of organisations lists some of them and the total number', async () => {
  await page.goto('/tiers/Team');
  await heading(page, 'Team').waitFor();
  await page.getByText('and 500 more').waitFor();
  const titled = page.getByRole('heading', { name: '550 organisations on this tier' });
  const card = page.locator('section').filter({ has: titled });
  expect(await card.getByRole('link').count()).toBe(50);
  expect(await card.getByRole('link').first().textContent()).toMatch(/^Organisation \d+$/);
  watched.expectClean();
});

test('a row shows its organisation’s name even beyond the first thousand', async () => {
  await page.goto('/stacks?q=fleet-996');
  await page.getByRole('link', { name: 'Organisation 996' }).first().waitFor();
  await page.goto('/stacks/stk-large-fleet-994');
  await page.getByText('Organisation 994').first().waitFor();
  watched.expectClean();
});
