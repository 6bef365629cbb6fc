/** A page of the console as a bench sees it: signed in, and until something is shown. */
import type { Page } from 'playwright-core';

export async function signIn(page: Page, operatorToken: string): Promise<void> {
  await page.goto('/sign-in');
  await page.getByLabel('Operator token').fill(operatorToken);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('heading', { name: 'Fleet', level: 1 }).waitFor();
}

const conditionMsMax = 120_000;

/** Until the expression is true; asked from here, because the policy of the pages lets none of them evaluate a text. */
export async function pageUntil(page: Page, expression: string): Promise<void> {
  const beganMs = performance.now();
  while (!(await page.evaluate<boolean>(expression))) {
    if (performance.now() - beganMs > conditionMsMax) throw new Error(`not so in time: ${expression}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Until nothing on the page is loading any more. */
export async function settled(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor();
  await pageUntil(page, `document.querySelector('.loading, [aria-busy=true]') === null`);
}
