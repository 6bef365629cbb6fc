/**
 * Tests a console page while the log is unreachable. The page must say so, change nothing, show the last known state, and
 * recover automatically.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Kafka, startKafka } from '../kafka/broker.ts';
import { isBrowserInstalled, launchBrowser, WatchedPage } from '../support/browser.ts';
import { scaledMs } from '../support/budget.ts';
import { button, heading } from '../support/console-fleet.ts';
import { operatorToken, ProcessFleet } from '../support/process-fleet.ts';
import type { Launch } from '../support/processes.ts';

const waitMs = scaledMs(60_000);
let kafka: Kafka;
let fleet: ProcessFleet;
let browser: Awaited<ReturnType<typeof launchBrowser>>;
beforeAll(async () => {
  if (!isBrowserInstalled) return;
  kafka = await startKafka();
  fleet = new ProcessFleet({ logUrl: kafka.url, timeoutMs: 60_000 });
  browser = await launchBrowser();
}, scaledMs(120_000));
afterAll(async () => {
  await browser?.close();
  await fleet?.close();
  await kafka?.stop();
});

if (!isBrowserInstalled)
  console.error(
    '\n*** SKIPPED: the console while Kafka is frozen needs chromium (Debian: apt-get install chromium) ***',
  );

test.skipIf(!isBrowserInstalled)(
  'when Kafka freezes and returns, the page says that nothing can be changed, and then shows what changed',
  async () => {
    const plane: Launch<{ readonly admin: string; readonly console: string }> = await fleet.serve(
      'control-plane',
      'cp-1',
      ['--console-port', '0'],
    );
    const admin = fleet.admin(plane);
    const organisation = { id: 'acme', name: 'Acme', tier: 'Platinum' };
    await admin.apply({
      version: 1,
      tiers: [{ id: 'Platinum', models: '*' }],
      organisations: [organisation],
    });
    const watched = await WatchedPage.open(browser, plane.ready.console, {
      allowed: /status of (?:401|503)/,
    });
    const { page } = watched;
    page.setDefaultTimeout(waitMs);
    await page.goto('/sign-in');
    await page.getByLabel('Operator token').fill(operatorToken);
    await button(page, 'Sign in').click();
    await heading(page, 'Fleet').waitFor();
    await page.goto('/keys?org=acme');
    const status = page.getByRole('status', { name: 'State of the fleet' });
    await status.getByText(/live$/).waitFor();
    kafka.freeze(1);
    try {
      await status.getByText(/the log cannot be reached, changes are refused/).waitFor();
      await watched.expectAccessible('the log is away');
      // A page that is opened while the log is unreachable must also show the last known state.
      await page.getByRole('link', { name: 'Organisations', exact: true }).click();
      await page.getByRole('link', { name: 'Acme', exact: true }).waitFor();
      await page.goto('/keys?org=acme');
      await button(page, 'Create key').first().click();
      await page.getByLabel('Name', { exact: true }).fill('while away');
      await button(page, 'Create').click();
      await page.getByRole('dialog').getByRole('alert').waitFor();
      await page.keyboard.press('Escape');
    } finally {
      kafka.thaw(1);
    }
    await status.getByText(/live$/).waitFor();
    await admin.createKey('acme', 'after it');
    await page.getByRole('row', { name: /after it.*active/ }).waitFor();
    expect(page.url()).toContain('/keys?org=acme');
    watched.expectClean();
    await watched.close();
  },
);
