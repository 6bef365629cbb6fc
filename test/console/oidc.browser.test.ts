/** Tests signing in through a real identity provider, in a real browser. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { launchBrowser, WatchedPage } from '../support/browser.ts';
import { button } from '../support/console-fleet.ts';
import { IdentityProvider } from '../support/identity-provider.ts';
import { startProcess } from '../support/processes.ts';

/** Finds a port in advance, because the provider must know the console's address before the console starts. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test('an operator signs in and out with the identity provider, and others learn that they are no members', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-oidc-'));
  const port = await freePort();
  const provider = await IdentityProvider.start(() => [`http://127.0.0.1:${port}/oidc/callback`], {
    olga: ['headgate-operators'],
  });
  const secret = join(dir, 'client-secret');
  writeFileSync(secret, provider.client.secret, { mode: 0o600 });
  const place = ['--log', `sqlite:${join(dir, 'log')}`, '--data', join(dir, 'data'), '--name', 'cp-1'];
  const ports = ['--port', '0', '--metrics-port', '0', '--console-port', String(port)];
  const oidc = ['--oidc-issuer', provider.issuer, '--oidc-client-id', provider.client.id];
  const more = ['--oidc-client-secret-file', secret, '--oidc-operator-group', 'headgate-operators'];
  const plane = await startProcess<{ console: string }>({
    ...{ dir, name: 'plane', args: ['control-plane', ...place, ...ports, ...oidc, ...more] },
    env: {
      HEADGATE_OPERATOR_TOKEN: 'operator-token-of-the-tests',
      HEADGATE_GATEWAY_TOKEN: 'gateway-token-of-the-tests',
    },
  });
  const browser = await launchBrowser();
  const signIn = async (account: string): Promise<WatchedPage> => {
    const watched = await WatchedPage.open(browser, plane.ready.console, { partner: provider.issuer });
    const { page } = watched;
    await page.goto('/sign-in');
    await button(page, 'Sign in with your organisation').click();
    await page.locator('input[name=login]').fill(account);
    await page.locator('input[name=password]').fill('x');
    await page.locator('button[type=submit]').click();
    await page.waitForURL((url) => url.origin === plane.ready.console);
    return watched;
  };
  try {
    const olga = await signIn('olga');
    await olga.page.getByText('Four steps to the first answer').waitFor();
    expect(new URL(olga.page.url()).search).toBe('');
    await button(olga.page, 'Sign out').click();
    await button(olga.page, 'Sign out of this browser').click();
    await button(olga.page, 'Sign in with your organisation').waitFor();
    olga.expectClean();
    await olga.close();

    const nobody = await signIn('nobody');
    await nobody.page.getByText('You are not a member of any organisation').waitFor();
    await nobody.expectAccessible('no role');
    nobody.expectClean();
    await nobody.close();
  } finally {
    await browser.close();
    await plane.end();
    await provider.close();
    rmSync(dir, { recursive: true, force: true });
  }
});
