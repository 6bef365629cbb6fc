/** Tests how `doctor` checks ports on this machine. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, test } from 'vitest';
import { runCli } from '../test/support/run-cli.ts';

/** Returns the findings about ports, with their objects. Empty if no port was checked. */
async function ports(...argv: string[]): Promise<string[]> {
  const { out } = await runCli(['doctor', ...argv, '-o', 'json']);
  const { checks } = JSON.parse(out) as { checks: { code: string; level: string; object?: string }[] };
  return checks
    .filter(({ code }) => code === 'HG1008')
    .map(({ level, object = '' }) => `${level} ${object}`.trim());
}

test('a port in use on another local address is reported, and a port given twice is tried once', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.2');
  await once(server, 'listening');
  const port = String((server.address() as AddressInfo).port);
  expect(await ports('--pre', '--ports', `${port},${port}`)).toEqual([`warn ${port}`]);
  // Ports named on the command line are checked even on machines where Headgate processes run.
  expect(await ports('--only', 'machine', '--ports', port)).toEqual([`warn ${port}`]);
  server.close();
  await once(server, 'close');
  expect(await ports('--pre', '--ports', `${port},${port}`)).toEqual(['ok']);
});

test('without --pre, only named ports are tried, and no others are reported as free', async () => {
  expect(await ports('--only', 'machine')).toEqual([]);
});
