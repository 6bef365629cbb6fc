/**
 * Tests that a control plane asks each gateway for decisions at the address that the gateway advertises. Over TLS the control
 * plane must check the gateway's certificate for the configured name, or else for the host of that address. The certificate
 * in this file is valid for localhost and 127.0.0.1.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checksIn } from '../support/checks.ts';
import { type GatewayProcess, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

const fixture = (name: string): string => new URL(`../fixtures/tls/${name}`, import.meta.url).pathname;
const fleet = new ProcessFleet({ env: { NODE_EXTRA_CA_CERTS: fixture('ca.pem') } });
const tls = ['--tls-cert', fixture('first.pem'), '--tls-key', fixture('first.key')];

/**
 * Each row contains a gateway's name and flags, then whether a control plane reaches it, first without and then with the
 * certificate's name configured.
 */
const gateways: readonly (readonly [string, readonly string[], boolean, boolean])[] = [
  ['gw-own-address', [...tls, '--metrics-bind', '127.0.0.2'], false, true],
  ['gw-host', [...tls, '--metrics-bind', '127.0.0.1', '--advertise', 'localhost'], true, true],
  ['gw-elsewhere', [...tls, '--metrics-bind', '127.0.0.1', '--advertise', '127.0.0.3'], false, false],
  ['gw-other-scheme', ['--advertise', 'https://127.0.0.1'], false, false],
];
/**
 * Each row contains a control plane's name and flags, then the column of `gateways` that applies to it, or undefined if it
 * expects a name that the certificate does not have.
 */
const planes: readonly (readonly [string, readonly string[], 2 | 3 | undefined])[] = [
  ['cp-host', [], 2],
  ['cp-name', ['--gateway-tls-name', 'localhost'], 3],
  ['cp-other-name', ['--gateway-tls-name', 'example.net'], undefined],
];
const started = new Map<string, Plane>();

beforeAll(async () => {
  for (const [name, flags] of planes) started.set(name, await fleet.serve('control-plane', name, flags));
  await Promise.all(gateways.map(([name, flags]) => fleet.serve<GatewayProcess>('gateway', name, flags)));
}, 180_000);
afterAll(() => fleet.close());

const isDecision = (gateway: string, reached: boolean): [string, boolean] => [gateway, reached];

test.each(planes)('%s reaches the gateways that it should reach', async (name, _flags, column) => {
  const env = { HEADGATE_ADMIN: (started.get(name) as Plane).ready.admin };
  const expected = gateways.map((row) => isDecision(row[0], column !== undefined && row[column]));
  let found: unknown;
  const ask = async (): Promise<boolean> => {
    const { code, stderr } = await fleet.cli(['decisions', 'export'], env);
    const unanswered = /not all gateways answered: (.*)/.exec(stderr)?.[1]?.split(', ') ?? [];
    // A gateway that has not reported its address yet counts as unanswered.
    found =
      code === 0 || code === 5
        ? gateways.map(([gateway]) => isDecision(gateway, !unanswered.includes(gateway)))
        : stderr;
    return JSON.stringify(found) === JSON.stringify(expected);
  };
  const known = async () => (await fleet.admin(started.get(name) as Plane).call('GET', '/gateways')).items;
  await until(async () => (await known()).length === gateways.length);
  await until(ask, 30_000).catch(() => expect(found).toEqual(expected));
  const { stdout } = await fleet.cli(['doctor', '--only', 'gateways', '-o', 'json'], env);
  const mute = checksIn(stdout).flatMap(({ code, object }) => (code === 'HG4013' ? (object ?? []) : []));
  expect(mute).toEqual(expected.flatMap(([gateway, reached]) => (reached ? [] : [gateway])).sort());
});

test.each(['', 'ftp://host', 'http://host/path', 'http://user@host', 'host:9464', '$(NAME).pods', 'a b'])(
  'a gateway does not start with the address %j',
  async (address) => {
    const own = ['gateway', '--data', 'none', '--name', 'none', '--advertise', address];
    const { code, stderr } = await fleet.cli(own);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--advertise')]);
  },
);
