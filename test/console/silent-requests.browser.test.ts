/**
 * Tests the requests page while gateways and the control plane go down and come back. The page must say what is missing and
 * must not lose anything.
 */
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { launchBrowser, WatchedPage } from '../support/browser.ts';
import { button, heading } from '../support/console-fleet.ts';
import { completion, operatorToken, ProcessFleet } from '../support/process-fleet.ts';
import type { Launch } from '../support/processes.ts';
import { until } from '../support/until.ts';

/** Messages of the browser itself about lost connections. */
const allowed =
  /status of 401|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|Failed to load resource/;

const startPlane = (fleet: ProcessFleet, port: string): Promise<Launch<{ readonly console: string }>> =>
  fleet.serve('control-plane', 'plane', ['--console-port', port]);

/** Waits until the gateway knows the key, and returns the id of a served request. */
async function served(api: string, key: string): Promise<string> {
  let request: string | null = null;
  await until(async () => {
    const answer = await completion(api, key);
    await answer.text();
    if (answer.status === 200) request = answer.headers.get('x-request-id');
    return request !== null;
  });
  return request ?? '';
}

const shown = (page: Page): Promise<(string | null)[]> =>
  page
    .locator('.requests .row-link')
    .all()
    .then((links) => Promise.all(links.map((link) => link.getAttribute('title'))));

test('the page names a disabled journal, a killed gateway and a restarted control plane', async () => {
  const fleet = new ProcessFleet();
  const browser = await launchBrowser();
  try {
    const { plane, gateway, key } = await fleet.stand({ plane: { flags: ['--console-port', '0'] } });
    const { console: address } = plane.ready as unknown as { readonly console: string };
    const off = await fleet.startGateway('gateway-2', { flags: ['--decisions', 'off'] });
    const first = await served(gateway.ready.api, key);
    await served(off.ready.api, key);
    const watched = await WatchedPage.open(browser, address, { allowed });
    const { page } = watched;
    await page.goto('/sign-in');
    await page.getByLabel('Operator token').fill(operatorToken);
    await button(page, 'Sign in').click();
    await page.getByRole('link', { name: 'Requests', exact: true }).click();
    await heading(page, 'Requests').waitFor();
    await page
      .locator('.follow-line')
      .getByText(/following$/)
      .waitFor();
    await page.getByText('Requests are missing from gateway-2: no answer, or nothing is stored').waitFor();
    await until(async () => (await shown(page)).includes(first));
    const rows = await shown(page);

    await gateway.end('SIGKILL');
    await page.getByText('Requests are missing from gateway-1, gateway-2:').waitFor();
    expect(await shown(page)).toEqual(rows);

    await plane.end('SIGKILL');
    await page.locator('.follow-line').getByText('connection lost, reconnecting').waitFor();
    expect(await shown(page)).toEqual(rows);
    await startPlane(fleet, new URL(address).port);
    await page
      .locator('.follow-line')
      .getByText(/following$/)
      .waitFor();
    expect(await shown(page)).toEqual(rows);

    const again = await fleet.startGateway('gateway-1');
    await page.getByText('Requests are missing from gateway-2:').waitFor();
    const later = await served(again.ready.api, key);
    await until(async () => (await shown(page))[0] === later);
    expect(await shown(page)).toEqual([later, ...rows]);
    watched.expectClean();
  } finally {
    await browser.close();
    await fleet.close();
  }
});
