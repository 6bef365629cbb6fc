/** What a page costs the browser: until it is shown by the clock, in scripts as processor time, and in elements. */
import type { Page } from 'playwright-core';
import { settled } from './seen-page.ts';

const paths = [
  ...['/fleet', '/gateways', '/gateways/edge-1', '/nodes', '/stacks', '/orgs', '/orgs/org-1', '/keys'],
  ...['/keys?org=org-1', '/usage?org=org-1', '/limits', '/limits?visitors', '/limits?org=org-1', '/events'],
  ...['/explain', '/explain?org=org-1', '/explain?org=org-1&model=echo-small', '/doctor'],
];
/** Lists that come after the first answers are there by then. */
const restMs = 3000;

async function scriptMs(session: Awaited<ReturnType<typeof sessionOf>>): Promise<number> {
  const { metrics } = await session.send('Performance.getMetrics');
  return 1000 * (metrics.find(({ name }) => name === 'ScriptDuration')?.value ?? Number.NaN);
}

const sessionOf = (page: Page) => page.context().newCDPSession(page);

/** By path; each is loaded as from a link of another site. */
export async function pageCosts(page: Page): Promise<Record<string, object>> {
  const session = await sessionOf(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const costs: Record<string, object> = {};
  for (const path of paths) {
    await page.goto('about:blank');
    const [beganMs, beforeMs] = [performance.now(), await scriptMs(session)];
    await page.goto(path);
    await settled(page);
    const shownMs = Math.round(performance.now() - beganMs);
    await page.waitForTimeout(restMs);
    const elements = await page.evaluate<number>(`document.querySelectorAll('*').length`);
    const scriptingMs = Math.round((await scriptMs(session)) - beforeMs);
    costs[path] = { shownMs, scriptingMs, elements };
    console.log(path, costs[path]);
  }
  await session.detach();
  return costs;
}
