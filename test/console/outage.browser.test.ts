/**
 * Tests a page that is open while its control plane is killed. The page must say so, and must later continue automatically
 * with the same session.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { launchBrowser, WatchedPage } from '../support/browser.ts';
import { button, heading } from '../support/console-fleet.ts';
import { type Launch, startProcess } from '../support/processes.ts';

interface Plane {
  readonly admin: string;
  readonly console: string;
}
const operatorToken = 'operator-token-of-the-tests';

function startPlane(dir: string, consolePort: string): Promise<Launch<Plane>> {
  const place = ['--log', `sqlite:${join(dir, 'log')}`, '--data', join(dir, 'data'), '--name', 'cp-1'];
  const ports = ['--port', '0', '--metrics-port', '0', '--console-port', consolePort];
  const env = {
    HEADGATE_OPERATOR_TOKEN: operatorToken,
    HEADGATE_GATEWAY_TOKEN: 'gateway-token-of-the-tests',
  };
  return startProcess<Plane>({ dir, name: 'plane', args: ['control-plane', ...place, ...ports], env });
}

test('when the control plane is killed and returns, the page says so and continues without a new sign-in', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-outage-'));
  let plane = await startPlane(dir, '0');
  const address = plane.ready.console;
  const browser = await launchBrowser();
  const allowed =
    /status of 401|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|Failed to load resource/;
  const watched = await WatchedPage.open(browser, address, { allowed });
  try {
    const { page } = watched;
    await page.goto('/sign-in');
    await page.getByLabel('Operator token').fill(operatorToken);
    await button(page, 'Sign in').click();
    // The fleet is empty, so the page shows the four steps.
    await page.getByText('Four steps to the first answer').waitFor();
    expect(
      await page
        .getByRole('listitem')
        .getByText(/to do$/)
        .count(),
    ).toBe(4);
    await watched.expectAccessible('first run');
    const status = page.getByRole('status', { name: 'State of the fleet' });
    await status.getByText(/live$/).waitFor();
    await plane.end('SIGKILL');
    await status.getByText(/connection lost/).waitFor();
    plane = await startPlane(dir, new URL(address).port);
    await status.getByText(/live$/).waitFor();
    const node = { id: 'pool-1', url: 'http://127.0.0.1:9', dialect: 'vllm', place: { kind: 'pool' } };
    await new DevAdmin(plane.ready.admin, operatorToken).call('POST', '/nodes', node);
    // The first step is ticked when its event arrives.
    await page.getByRole('listitem').getByText(/done$/).waitFor();
    await page.getByRole('link', { name: 'Events', exact: true }).click();
    await heading(page, 'Events').waitFor();
    await page.getByRole('list', { name: 'Events' }).getByText('pool-1').first().waitFor();
    watched.expectClean();
  } finally {
    await watched.close();
    await browser.close();
    await plane.end();
    rmSync(dir, { recursive: true, force: true });
  }
});

test('a page opened while the session cannot be checked says so, and appears once it can', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-outage-'));
  const plane = await startPlane(dir, '0');
  const browser = await launchBrowser();
  const watched = await WatchedPage.open(browser, plane.ready.console, { allowed: /status of (401|503)/ });
  try {
    const { page } = watched;
    await page.goto('/sign-in');
    await page.getByLabel('Operator token').fill(operatorToken);
    await button(page, 'Sign in').click();
    await heading(page, 'Fleet').waitFor();
    // Behaves like a caching proxy whose control plane is down: the document arrives, but without embedded answers.
    await page.route(
      ({ pathname }) => pathname === '/doctor',
      async (route) => {
        const answer = await route.fetch();
        const body = (await answer.text()).replace(/<script[^>]*id="answers">.*?<\/script>/s, '');
        await route.fulfill({ response: answer, body });
      },
    );
    await page.route('**/api/me', (route) => route.fulfill({ status: 503, body: 'no upstream' }));
    await page.goto('/doctor');
    await heading(page, 'The control plane does not answer').waitFor();
    await page.getByText('the console answered 503').waitFor();
    expect(await page.getByLabel('Operator token').count()).toBe(0);
    await watched.expectAccessible('a control plane that does not answer');
    await page.unroute('**/api/me');
    await heading(page, 'Doctor').waitFor();
    watched.expectClean();
  } finally {
    await watched.close();
    await browser.close();
    await plane.end();
    rmSync(dir, { recursive: true, force: true });
  }
});
