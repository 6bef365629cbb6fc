/** Tests that the console agrees with the gateways and the command line about refusals, limits, tokens and changes. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LimitUse, UsageTotals } from '../../schemas/admin/admin.ts';
import { button, ConsoleFleet, follow, heading, visit } from '../support/console-fleet.ts';
import { completion } from '../support/process-fleet.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';
import { until } from '../support/until.ts';

let fleet: ConsoleFleet;
beforeAll(async () => {
  fleet = await ConsoleFleet.start();
});
afterAll(() => fleet?.close());

/** Requests one answer and returns its token count as the client sees it. */
async function complete(base: string, model: string): Promise<number> {
  const key = fleet.ready.organisations.find(({ id }) => id === 'acme')?.key ?? '';
  const answer = await completion(base, key, { model, max_tokens: 7 });
  const { usage } = (await answer.json()) as { usage: { total_tokens: number } };
  return usage.total_tokens;
}

const cli = (...argv: string[]): Promise<CliRun> =>
  runCli(argv, { env: { HEADGATE_ADMIN: fleet.ready.admin, HEADGATE_TOKEN: fleet.ready.operatorToken } });

// "Tokens" has two meanings: all completed tokens, and tokens that count against the allowance. Every page and command must
// say which of them it shows, and the numbers must equal the clients' own count. This test must run first.
test('pages and commands agree on all tokens and on those that count against the allowance', async () => {
  const { gateways, stacks } = fleet.ready;
  const shared = gateways[0]?.api ?? '';
  const stack = stacks.find(({ id }) => id === 'stk-amber-otter-9k2f')?.url ?? '';
  let own = 0;
  for (const _ of [1, 2, 3]) own += await complete(shared, 'echo-small');
  own += await complete(stack, 'echo-large');
  let pool = 0;
  for (const _ of [1, 2]) pool += await complete(shared, 'echo-large');
  const adjusted = 40;
  await fleet.admin('POST', '/organisations/acme/usage-adjustments?why=test', { tokens: adjusted });
  const all = own + pool;
  const counted = pool + adjusted;
  let usage: UsageTotals | undefined;
  await until(async () => {
    usage = await fleet.admin<UsageTotals>('GET', '/usage?organisation=acme');
    return usage.totalTokens === all && usage.countedTokens === counted;
  }, 90_000).catch(() => expect(usage).toMatchObject({ totalTokens: all, countedTokens: counted }));
  const { tokens } = await fleet.admin<LimitUse>('GET', '/organisations/acme/limits');
  expect(tokens.used).toBe(counted);

  const shown = await cli('usage', 'show', '--org', 'acme');
  expect(shown.out.split('\n')[0]).toMatch(/ALL TOKENS$/);
  expect(shown.out).toMatch(new RegExp(`^total +6 .* ${all}$`, 'm'));
  expect(shown.err).toContain(
    `tokens that count against the allowance: ${counted} of 10,000,000,000, adjusted by 40`,
  );
  const limits = await cli('limits', 'list', '-o', 'json');
  const { items } = JSON.parse(limits.out) as { items: LimitUse[] };
  expect(items.find(({ organisation }) => organisation === 'acme')?.tokens.used).toBe(counted);
  expect((await cli('limits', 'list')).out.split('\n')[0]).toContain('ALLOWANCE-TOKENS');
  const explained = await cli('explain', '--org', 'acme', '--model', 'echo-embed', '--path', 'embeddings');
  expect(explained.out).toContain(
    `${counted} tokens count against the allowance of this period, limit 10,000,000,000`,
  );

  await fleet.withPage({}, async (page) => {
    await fleet.asOperator(page, '/orgs/acme');
    const cards = page.locator('.card');
    const about = cards.filter({ has: page.getByRole('heading', { name: 'About', exact: true }) });
    await about.getByText(`${all} tokens in 6 requests`).waitFor();
    const now = cards.filter({ has: page.getByRole('heading', { name: 'Limits now', exact: true }) });
    await now.getByText('Allowance used').waitFor();
    await now.getByText(`${counted} of 10,000,000,000`).waitFor();
    await visit(page, '/usage?org=acme', 'Usage');
    await page
      .locator('.figure')
      .filter({ hasText: `All tokens this period${all}` })
      .waitFor();
    const figure = `Allowance used${counted} of 10,000,000,000`;
    await page.locator('.figure').filter({ hasText: figure }).waitFor();
    // In a fleet's first days, the chart has one bar per hour.
    await page.getByText(/^Tokens per hour and model \(/).waitFor();
    await visit(page, '/limits', 'Limits');
    const row = page.getByRole('row', { name: /Acme/ });
    await row.getByText(`${counted} of 10,000,000,000`).waitFor();
    await page.getByRole('columnheader', { name: 'Allowance used' }).waitFor();
  });
});

interface RefusalAnswer {
  readonly status: number;
  readonly request: string;
  readonly message: string;
}

async function ask(organisation: string, model: string): Promise<RefusalAnswer> {
  const answer = await fleet.ask(organisation, model);
  const { error } = (await answer.json()) as { error?: { message: string } };
  const request = answer.headers.get('x-request-id') ?? '';
  return { status: answer.status, request, message: error?.message ?? '' };
}

test('a refusal is explained by its request id: step, event, remedy and recorded facts', async () => {
  const refused = await ask('cedar', 'echo-large');
  expect(refused.status).toBe(403);
  await until(async () => {
    const found = await fleet.admin<{ decision?: object }>('GET', `/decisions/${refused.request}`);
    return found.decision !== undefined;
  });
  const { would } = await fleet.admin<{ would: string[] }>('POST', '/explain', { request: refused.request });
  expect(would.length).toBeGreaterThan(0);
  await fleet.withPage({}, async (page, watched) => {
    await fleet.asOperator(page);
    await page.getByRole('link', { name: 'Explain', exact: true }).click();
    await page.getByLabel('Request id').fill(refused.request);
    await button(page, 'Explain').click();
    const answer = page.getByRole('region', { name: 'Answer' });
    await answer.getByText(/refused 403/).waitFor();
    expect(page.url()).toContain(`request=${refused.request}`);
    await answer.getByText(refused.message).first().waitFor();
    const commands = answer.getByRole('list', { name: 'Commands that would serve it' });
    expect(await commands.getByRole('listitem').locator('code').allTextContents()).toEqual(would);
    await commands.getByRole('button').first().click();
    await page.getByText('✓ copied').first().waitFor();
    expect(await page.evaluate<string>('navigator.clipboard.readText()')).toBe(would[0]);
    await answer.getByText('this build decides the same').waitFor();
    await page.getByRole('region', { name: 'What was recorded' }).waitFor();
    await watched.expectAccessible('explain');
    // The link opens the event that caused this step.
    await answer.getByRole('listitem', { name: 'plan' }).getByRole('link').click();
    await heading(page, 'Events').waitFor();
    // The organisation's page counts the refusal and links back to it.
    await visit(page, '/orgs/cedar', 'Cedar');
    const refusals = page.getByRole('list', { name: 'Refusals', exact: true });
    // Gateways report their requests every ten seconds.
    await refusals.getByText('1 request').waitFor({ timeout: 60_000 });
    await watched.expectAccessible('organisation');
    await refusals.getByRole('link', { name: /^403/ }).click();
    await page
      .getByRole('region', { name: 'Answer' })
      .getByText(/refused 403/)
      .waitFor();
    expect(page.url()).toContain(`request=${refused.request}`);
  });
});

test('a gap in the fleet links to its explanation, also at an earlier time and as a difference', async () => {
  const { position: before } = await fleet.admin<{ position: number }>('GET', '/status');
  const { items } = await fleet.admin<{ items: { id: string; place: { kind: string } }[] }>('GET', '/nodes');
  const pool = items.filter(({ place }) => place.kind === 'pool').map(({ id }) => id);
  for (const id of pool) await fleet.admin('POST', `/nodes/${id}/drain?force=true`, {});
  await fleet.withPage({}, async (page) => {
    await fleet.asOperator(page);
    await page
      .getByRole('region', { name: 'What is missing' })
      .getByRole('link', { name: /503/ })
      .first()
      .click();
    await heading(page, 'Explain').waitFor();
    await page.getByText(/refused 503/).waitFor();
    await page
      .getByText(/headgate node undrain/)
      .first()
      .waitFor();
    await page.getByLabel('Compare with').fill(String(before));
    await button(page, 'Explain').click();
    await page
      .getByRole('region', { name: 'Difference' })
      .getByText(/node.drained at/)
      .first()
      .waitFor();
    // Moves the page to the position before the change, with the chip that names the time shown.
    await page.locator('summary', { hasText: 'Now' }).click();
    await page.getByLabel('Position or time').fill(String(before));
    await page.keyboard.press('Enter');
    await page.getByText(/served 200/).waitFor();
  });
  for (const id of pool) await fleet.admin('POST', `/nodes/${id}/undrain`, {});
});

test('a member sees what their organisation may use, and nothing of others', async () => {
  await fleet.withPage({ allowed: /status of 40[134]/ }, async (page, watched) => {
    await fleet.asMember(page, 'ben');
    await page.getByRole('link', { name: 'Models', exact: true }).click();
    const matrix = page.getByRole('table', { name: 'Models and hosts' });
    await matrix.getByRole('cell', { name: 'echo-small', exact: true }).waitFor();
    await watched.expectAccessible('models');
    // Even with another organisation in the address, the page shows the member's own organisation.
    await page.goto('/models?org=acme');
    await heading(page, 'Models').waitFor();
    await page.locator('.lead').filter({ hasText: 'Birch' }).waitFor();
    await matrix.getByRole('link', { name: 'served' }).first().click();
    await page
      .getByRole('region', { name: 'Answer' })
      .getByText(/served 200/)
      .waitFor();
    await page.goto('/explain?org=acme&model=echo-small');
    await page.getByText('may not do this, or it does not exist').waitFor();
    await page.getByRole('link', { name: 'Limits', exact: true }).click();
    await page.getByRole('heading', { name: 'birch' }).waitFor();
  });
});

test('the limits page shows the API’s limits, the nearest first, as does the organisation’s page', async () => {
  await fleet.admin('POST', '/organisations/cedar/usage-adjustments', { tokens: 900_000 });
  const { requests, concurrency } = await fleet.admin<LimitUse>('GET', '/organisations/birch/limits');
  expect([typeof requests.limit, typeof concurrency.limit]).toEqual(['number', 'number']);
  await fleet.withPage({}, async (page) => {
    await fleet.asOperator(page);
    await page.getByRole('link', { name: 'Limits', exact: true }).click();
    const rows = page.getByRole('table', { name: 'Limits' }).getByRole('row');
    // The page shows names instead of ids, even if the API returns only ids.
    await rows.nth(1).getByText('Cedar', { exact: true }).waitFor();
    await rows.nth(1).getByRole('link', { name: 'Cedar', exact: true }).click();
    await page.getByRole('heading', { name: 'Cedar', exact: true }).waitFor();
    await page.getByText('900,000 of 1,000,000').waitFor();
    await visit(page, '/keys', 'API keys');
    await page.getByRole('cell', { name: 'Birch', exact: true }).first().waitFor();
    await visit(page, '/stacks', 'Stacks');
    await page.getByRole('cell', { name: 'Birch', exact: true }).first().waitFor();
    await visit(page, '/orgs/cedar', 'Cedar');
    await page.getByRole('heading', { name: 'Limits now' }).waitFor();
    await page.getByText('900,000 of 1,000,000').waitFor();
    // Counts over all gateways must be shown as numbers, not as a dash.
    await visit(page, '/limits?org=birch', 'Limits');
    await page.getByText(`0 of ${concurrency.limit}`, { exact: true }).waitFor();
    const counted = page.getByText(new RegExp(`^[1-9]\\d* of ${requests.limit}$`));
    // A new minute may begin between the request and the reading of the page.
    await until(async () => (await ask('birch', 'echo-small')).status > 0 && (await counted.count()) > 0);
    await page.getByRole('row', { name: /^gateway-1 \d+ \d+ / }).waitFor();
    await follow(page, '/limits?visitors');
    await page.getByRole('heading', { name: 'All visitors together' }).waitFor();
  });
});

test('event filters cover the whole log, are kept in the address, and can be removed one by one', async () => {
  await fleet.withPage({}, async (page, watched) => {
    await fleet.asOperator(page, '/events?organisation=birch&type=key.created');
    const events = page.getByRole('list', { name: 'Events' }).getByRole('listitem');
    await events.first().waitFor();
    const { items } = await fleet.admin<{ items: object[] }>(
      'GET',
      '/events?organisation=birch&type=key.created&order=desc',
    );
    expect(await events.count()).toBe(items.length);
    await watched.expectAccessible('filtered events');
    await button(page, 'Remove the filter organisation birch').click();
    await until(async () => (await events.count()) > items.length);
    expect(page.url()).toMatch(/events\?type=key\.created$/);
    await page.getByLabel('Search these events').fill('nothing has this');
    await page.keyboard.press('Enter');
    await page.getByText('No events match').waitFor();
    await button(page, 'Clear filters').click();
    await events.first().waitFor();
  });
});

test('a gateway has a page with the newest commits that it has applied', async () => {
  await fleet.withPage({}, async (page, watched) => {
    await fleet.asOperator(page);
    await page.getByRole('link', { name: 'Gateways', exact: true }).click();
    await page.getByRole('link', { name: 'gateway-1' }).click();
    await heading(page, 'gateway-1').waitFor();
    const confirmations = page.getByRole('list', { name: 'Confirmations' });
    await confirmations.getByText('in force').first().waitFor();
    await watched.expectAccessible('gateway');
  });
});

test('an open change shows its waves and figures, is advanced and withdrawn, and is then listed as closed', async () => {
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
    await fleet.asOperator(page, '/changes');
    await page.getByText('withdrawn').first().waitFor();
    await watched.expectAccessible('narrow and dark');
  });
  expect(await fleet.admin<{ items: unknown[] }>('GET', '/staged-changes')).toMatchObject({
    items: [{ state: 'withdrawn' }],
  });
});
