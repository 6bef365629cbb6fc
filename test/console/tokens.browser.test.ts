/**
 * "Tokens" has two meanings: all that were completed, and those that count against the allowance. Each page and command says
 * which it shows, and all that show the same show one number, which is what clients counted.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LimitUse, UsageTotals } from '../../schemas/admin.ts';
import { ConsoleFleet } from '../support/console-fleet.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';
import { until } from '../support/until.ts';

let fleet: ConsoleFleet;
beforeAll(async () => {
  fleet = await ConsoleFleet.start();
});
afterAll(() => fleet?.close());

/** The tokens of one answer, by its client. */
async function complete(base: string, model: string): Promise<number> {
  const key = fleet.ready.organisations.find(({ id }) => id === 'acme')?.key ?? '';
  const answer = await fetch(`${base}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }], max_tokens: 7 }),
  });
  const { usage } = (await answer.json()) as { usage: { total_tokens: number } };
  return usage.total_tokens;
}

const cli = (...argv: string[]): Promise<CliRun> =>
  runCli(argv, { env: { HEADGATE_ADMIN: fleet.ready.admin, HEADGATE_TOKEN: fleet.ready.operatorToken } });

test('all tokens, and those that count against the allowance, on each page and command', async () => {
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
    `${counted} tokens count against the allowance of this period, of 10000000000`,
  );

  await fleet.withPage({}, async (page) => {
    await fleet.asOperator(page);
    await page.goto('/orgs/acme');
    const cards = page.locator('.card');
    const plan = cards.filter({ has: page.getByRole('heading', { name: 'Plan', exact: true }) });
    await plan.getByText(`${all} tokens in 6 requests`).waitFor();
    const now = cards.filter({ has: page.getByRole('heading', { name: 'Limits now', exact: true }) });
    await now.getByText('Tokens that count against the allowance').waitFor();
    await now.getByText(`${counted} of 10,000,000,000`).waitFor();
    await page.goto('/usage?org=acme');
    await page
      .locator('.figure')
      .filter({ hasText: `All tokens this period${all}` })
      .waitFor();
    const figure = `Tokens that count against the allowance${counted} of 10,000,000,000`;
    await page.locator('.figure').filter({ hasText: figure }).waitFor();
    // Its first days are bars of hours.
    await page.getByText(/^All tokens an hour by model, hours of /).waitFor();
    await page.goto('/limits');
    const row = page.getByRole('row', { name: /Acme/ });
    await row.getByText(`${counted} of 10,000,000,000`).waitFor();
    await page.getByRole('columnheader', { name: 'Allowance tokens' }).waitFor();
  });
});
