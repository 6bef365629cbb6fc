/**
 * Tests the commands that the console shows for an empty fleet. Run one after another without changes, they must lead to an
 * answer.
 */
import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'vitest';
import { launchBrowser, WatchedPage } from '../support/browser.ts';
import { scaledMs } from '../support/budget.ts';
import { button } from '../support/console-fleet.ts';
import { operatorToken, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { binary } from '../support/processes.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);

test('the four steps of an empty fleet are ticked off one by one, and the last request is answered', async () => {
  const fleet = new ProcessFleet();
  const browser = await launchBrowser();
  let watched: WatchedPage | undefined;
  try {
    const plane: Plane = await fleet.serve('control-plane', 'plane', ['--console-port', '0']);
    const gateway = await fleet.serve<{ api: string }>('gateway', 'gateway-1');
    // A model name with a slash, which is common for vLLM.
    const node = await fleet.simNode('node', '--models', 'acme/my-model');
    const ready = plane.ready as unknown as { readonly console: string };
    watched = await WatchedPage.open(browser, ready.console, { allowed: /status of 401/ });
    const { page } = watched;
    await page.goto('/sign-in');
    await page.getByLabel('Operator token').fill(operatorToken);
    await button(page, 'Sign in').click();
    const steps = page.getByRole('listitem').filter({ has: page.locator('code') });
    await until(async () => (await steps.count()) === 4);
    await page.goto('/requests');
    await page.getByText('There are no requests yet').waitFor();
    await page.getByRole('main').getByRole('link', { name: 'API keys' }).waitFor();
    await page.goto('/fleet');
    await until(async () => (await steps.count()) === 4);

    const bin = join(fleet.dir, 'bin');
    mkdirSync(bin);
    writeFileSync(join(bin, 'headgate'), `#!/bin/sh\nexec '${process.execPath}' '${binary}' "$@"\n`);
    chmodSync(join(bin, 'headgate'), 0o755);
    const env = {
      ...process.env,
      PATH: `${bin}${delimiter}${process.env['PATH']}`,
      HEADGATE_ADMIN: plane.ready.admin,
      HEADGATE_TOKEN: operatorToken,
    };
    const command = async (step: number): Promise<string> =>
      (await steps.nth(step).locator('code').textContent()) ?? '';
    const shell = async (text: string): Promise<string> =>
      (await run('/bin/bash', ['-c', text], { env })).stdout.trim();
    const isDone = (step: number): Promise<void> =>
      steps
        .nth(step)
        .getByText(/done$/)
        .waitFor({ timeout: scaledMs(40_000) });

    await shell((await command(0)).replace('http://127.0.0.1:8000', node.ready.url));
    await isDone(0);
    // The next command must contain the model that was found on the node.
    await until(async () => (await command(1)).includes('acme/my-model'));
    await shell(await command(1));
    await isDone(1);
    const key = (await shell(await command(2))).split('\n').at(-1) ?? '';
    await isDone(2);
    const request = (await command(3))
      .replace('KEY', key)
      .replace('http://127.0.0.1:8080/v1', gateway.ready.api)
      .replace('curl', 'curl -s');
    await until(async () => (await shell(request)).includes('"finish_reason":"stop"'));
    await isDone(3);
    await page.getByText('Every installed model is loaded on a serving node.').waitFor();
    watched.expectClean();
  } finally {
    await watched?.close();
    await browser.close();
    await fleet.close();
  }
});
