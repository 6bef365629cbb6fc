/** Tests how the console shows serving capacity: many nodes on the fleet page, and a model that a node is loading. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { NodeAgent } from '../../agent/agent.ts';
import type { Engine } from '../../agent/engine.ts';
import type { ModelLoader } from '../../agent/model-loader.ts';
import { launchBrowser, WatchedPage } from '../support/browser.ts';
import { button, heading } from '../support/console-fleet.ts';
import { quiet } from '../support/fleet.ts';
import { operatorToken, ProcessFleet } from '../support/process-fleet.ts';
import type { Launch } from '../support/processes.ts';

type ConsolePlane = Launch<{ readonly admin: string; readonly console: string }>;
type Admin = ReturnType<ProcessFleet['admin']>;

const stack = 'stk-amber-otter-9k2f';
const poolNodes = Array.from({ length: 26 }, (_, n) => `pool-${n}`);
let fleet: ProcessFleet;
let plane: ConsolePlane;
let admin: Admin;
let browser: Awaited<ReturnType<typeof launchBrowser>>;
const agents: NodeAgent[] = [];

beforeAll(async () => {
  fleet = new ProcessFleet();
  plane = await fleet.serve('control-plane', 'cp-1', ['--console-port', '0']);
  admin = fleet.admin(plane);
  await admin.apply({
    version: 1,
    models: ['echo-small', 'echo-large'].map((id) => ({ id, family: 'echo', weight: 1 })),
    tiers: [{ id: 'Platinum', models: '*' }],
    pool: {
      models: ['echo-small'],
      nodes: poolNodes.map((id) => ({ id, url: 'http://127.0.0.1:9', dialect: 'vllm', agent: true })),
    },
    organisations: [
      {
        ...{ id: 'acme', name: 'Acme', tier: 'Platinum' },
        members: [{ person: 'duo', role: 'member' }],
        stacks: [
          {
            ...{ id: stack, surface: 'openai', models: ['echo-large'] },
            nodes: [{ id: 'own-1', url: 'http://127.0.0.1:9', dialect: 'ollama', agent: true }],
          },
        ],
      },
      { id: 'birch', name: 'Birch', tier: 'Platinum', members: [{ person: 'duo', role: 'viewer' }] },
      { id: 'cedar', name: 'Cedar', tier: 'Platinum' },
    ],
  });
  browser = await launchBrowser();
});
afterAll(async () => {
  await Promise.all(agents.map((agent) => agent.stop()));
  await browser?.close();
  await fleet?.close();
});

/** Returns an engine that serves these models. It also serves models that the loader adds to the list later. */
function engineOf(models: readonly string[], loader?: ModelLoader): Engine {
  return {
    loader,
    get view() {
      return {
        up: true,
        dialect: loader ? 'ollama' : 'vllm',
        models,
        windows: {},
        imageModels: [],
        rerankModels: [],
      } as const;
    },
    start: async () => undefined,
    stop: async () => undefined,
  };
}

async function startAgent(node: string, engine: Engine): Promise<void> {
  const { value: token } = await admin.createNodeToken(node);
  const controlPlanes = [plane.ready.admin];
  const agent = new NodeAgent({ controlPlanes, node, token, engine, loadsModels: true, logger: quiet });
  agents.push(agent);
  await agent.start();
}

async function openPage(url?: string): Promise<WatchedPage> {
  const watched = await WatchedPage.open(browser, plane.ready.console);
  const { page } = watched;
  await page.goto(url ?? '/sign-in');
  if (url !== undefined) return watched;
  await page.getByLabel('Operator token').fill(operatorToken);
  await button(page, 'Sign in').click();
  await heading(page, 'Fleet').waitFor();
  return watched;
}

test('loading a model shows its progress on the stack, node and fleet pages, and then that it is served', async () => {
  const models: string[] = [];
  let report: (percent: number) => void = () => undefined;
  let finish: () => void = () => undefined;
  const loader: ModelLoader = {
    load: (model, onPercent) => {
      report = onPercent;
      return new Promise((resolve) => {
        finish = () => {
          models.push(model);
          resolve();
        };
      });
    },
    unload: async () => undefined,
  };
  await startAgent('own-1', engineOf(models, loader));
  const watched = await openPage();
  const { page } = watched;
  await page.goto(`/stacks/${stack}`);
  await page.getByText('not loaded on any serving node: requests get 404').waitFor();
  await page.getByText('own-1: loading').waitFor();
  report(40);
  await page.getByText('own-1: loading, 40 %').waitFor();
  await watched.expectAccessible('a model that is loading');
  await page.getByRole('link', { name: 'Nodes', exact: true }).click();
  await page.getByRole('row', { name: /own-1.*echo-large: loading, 40 %/ }).waitFor();
  await page.getByRole('link', { name: 'Fleet', exact: true }).click();
  await page.getByText('echo-large: loading, 40 %').waitFor();
  await page.goto(`/stacks/${stack}`);
  report(90);
  await page.getByText('own-1: loading, 90 %').waitFor();
  finish();
  await page.getByText('served by 1 node').waitFor();
  expect(await page.getByText('loading').count()).toBe(0);
  watched.expectClean();
  await watched.close();
});

test('with too many nodes to list, the fleet page shows those that do not serve', async () => {
  const [down = '', ...up] = poolNodes;
  await Promise.all(up.map((node) => startAgent(node, engineOf(['echo-small']))));
  const watched = await openPage();
  const { page } = watched;
  const pool = page.getByRole('region', { name: 'Pool' });
  await pool.getByText(`${up.length} of ${poolNodes.length} nodes serve`).waitFor();
  const tiles = pool.getByRole('article');
  expect(await tiles.locator('strong').allTextContents()).toEqual([down]);
  const [drained = ''] = up;
  await admin.call('POST', `/nodes/${drained}/drain?force=true`, {});
  await tiles.nth(1).waitFor();
  expect(
    (await tiles.allTextContents()).map((text) => /^(pool-\d+).*(down|drained)/.exec(text)?.slice(1)),
  ).toEqual([
    [down, 'down'],
    [drained, 'drained'],
  ]);
  await pool.getByText(`${up.length - 1} of ${poolNodes.length} nodes serve`).waitFor();
  await admin.call('POST', `/nodes/${drained}/undrain`, {});
  await tiles.nth(1).waitFor({ state: 'detached' });
  watched.expectClean();
  await watched.close();
});

test('the organisation menu lists those that the person may see', async () => {
  const choices = async (watched: WatchedPage): Promise<string[]> => {
    const choice = watched.page.getByRole('combobox', { name: 'Organisation' });
    await choice.click();
    await watched.page.getByRole('option', { name: 'Acme' }).waitFor();
    return watched.page.getByRole('option').allTextContents();
  };
  const { url } = await admin.call('POST', '/organisations/acme/members/duo/link', {});
  const member = await openPage(url);
  await heading(member.page, 'API keys').waitFor();
  expect(await choices(member)).toEqual(['Acme acme', 'Birch birch']);
  const operator = await openPage();
  await operator.page.goto('/keys');
  expect(await choices(operator)).toEqual(['All', 'Acme acme', 'Birch birch', 'Cedar cedar']);
  for (const watched of [member, operator]) {
    watched.expectClean();
    await watched.close();
  }
});

test('with too many organisations for columns, the fleet page has a table, missing models first', async () => {
  const ids = Array.from({ length: 26 }, (_, n) => `team-${n}`);
  for (const id of ids) {
    await admin.call('POST', '/organisations', { id, name: `Team ${id.slice(5)}`, tier: 'Platinum' });
    const made = await admin.call('POST', '/stacks', { organisation: id, surface: 'openai' });
    if (id === 'team-7') await admin.call('PUT', `/stacks/${made.id}/models/echo-large`, {});
  }
  const watched = await openPage();
  const { page } = watched;
  const table = page.getByRole('region', { name: 'Capacity by organisation' });
  const titles = table.locator('tbody tr td.title');
  await titles.nth(26).waitFor();
  expect(await titles.first().textContent()).toMatch(/^(Acme|Team 7)$/);
  const row = table.getByRole('row', { name: /Team 7/ });
  expect((await row.getByRole('cell').allTextContents()).slice(1)).toEqual([
    '1',
    '0 of 0',
    expect.stringContaining('1'),
  ]);
  // Only the pool has a column of its own; all organisations share a table.
  expect(await page.locator('.map-column').count()).toBe(1);
  await watched.expectAccessible('the fleet with a table of organisations');
  await page.getByLabel('Search this table').fill('team 7');
  await titles.nth(1).waitFor({ state: 'detached' });
  await row.getByRole('link', { name: 'Team 7' }).click();
  await heading(page, 'Team 7').waitFor();
  watched.expectClean();
  await watched.close();
});
