/** A change in waves is seen and steered in the console: where it is, what it does there, the next wave, and its withdrawal. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ConsoleFleet, heading } from '../support/console-fleet.ts';

let fleet: ConsoleFleet;
beforeAll(async () => {
  fleet = await ConsoleFleet.start();
}, 180_000);
afterAll(() => fleet.close());

test('an open change shows its waves and figures, is advanced and withdrawn, and is then listed as over', async () => {
  const path = '/tiers/Platinum?stage=true&waves=gateway-1,all&hold=1h';
  const { models: _, ...platinum } = await fleet.admin<Record<string, unknown>>('GET', '/tiers/Platinum');
  await fleet.withPage({ width: 1280 }, async (page, watched) => {
    await fleet.asOperator(page);
    await page.getByRole('link', { name: 'Changes', exact: true }).click();
    await heading(page, 'Changes').waitFor();
    await page.getByText('No change is being released').waitFor();
    await watched.expectAccessible('no change');

    const limits = Object.fromEntries(
      ['rank', 'requestsPerMinute', 'concurrency', 'contextTokens', 'monthlyTokens'].flatMap((name) =>
        name in platinum ? [[name, platinum[name]]] : [],
      ),
    );
    const staged = await fleet.admin<{ id: string }>('PUT', path, { ...limits, models: ['echo-small'] });
    const card = page.getByRole('region', { name: `Change ${staged.id}` });
    await card.getByText('1 of 2').waitFor();
    await card.getByRole('link', { name: 'gateway-1' }).waitFor();
    await card.getByText('With the change').waitFor();
    await watched.expectAccessible('an open change');

    await card.getByRole('button', { name: 'Advance' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Advance' }).click();
    await card.getByText('2 of 2').waitFor();
    await card.getByRole('button', { name: 'Withdraw' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Withdraw' }).click();
    await page.getByText('withdrawn').waitFor();
    await page.getByText('by hand').waitFor();
    await page.getByText('No change is being released').waitFor();
    await watched.expectAccessible('a change that is over');
  });
  await fleet.withPage({ width: 360, scheme: 'dark' }, async (page, watched) => {
    await fleet.asOperator(page);
    await page.goto('/changes');
    await page.getByText('withdrawn').first().waitFor();
    await watched.expectAccessible('narrow and dark');
  });
  expect(await fleet.admin<{ items: unknown[] }>('GET', '/staged-changes')).toMatchObject({
    items: [{ state: 'withdrawn' }],
  });
});
