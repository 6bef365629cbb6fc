/**
 * Checks docker-compose.yml itself: options that the CLI accepts, tokens of each service, and the targets of its monitoring.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { folderOfTest } from '../support/folders.ts';
import { checkFlags } from './flags.ts';

const root = resolve(import.meta.dirname, '../..');
interface Service {
  readonly image: string;
  readonly profiles?: readonly string[];
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string | number>>;
  readonly volumes?: readonly string[];
  readonly read_only?: boolean;
  readonly restart?: string;
  readonly stop_grace_period?: string;
}
interface Scrape {
  readonly job_name: string;
  readonly static_configs: readonly { readonly targets: readonly string[] }[];
}
const file = parse(readFileSync(join(root, 'docker-compose.yml'), 'utf8'), { merge: true }) as {
  readonly services: Readonly<Record<string, Service>>;
};
const services = Object.entries(file.services);
const own = services.filter(([, { image }]) => image === 'headgate');

test.each(own)('%s starts with its arguments and variables on a read-only file system', (_, service) => {
  const env = Object.entries(service.environment ?? {}).map(([name, value]) => [
    name,
    String(value).replace(/^\$\{.*\}$/, 'a-token-from-elsewhere'),
  ]);
  // Needs no variable for the process's name, because a container has a host name.
  const options = checkFlags(service.command ?? [], Object.fromEntries(env));
  const drain = Number(options['drainDelay'] ?? 0) + Number(options['drainTimeout'] ?? 0);
  // A process may take 20 s to stop after its drain, and must not be killed before then.
  if (drain > 0) expect(Number.parseInt(service.stop_grace_period ?? '0', 10)).toBeGreaterThan(drain + 20);
  expect(service.read_only).toBe(true);
  const tokens = env.flatMap(([name]) => (name?.endsWith('_TOKEN') ? [name] : []));
  const [kind] = service.command ?? [];
  const expected = { 'control-plane': ['HEADGATE_GATEWAY_TOKEN', 'HEADGATE_OPERATOR_TOKEN'] as string[] };
  const wanted = kind === 'gateway' ? ['HEADGATE_GATEWAY_TOKEN'] : (expected[kind as 'control-plane'] ?? []);
  expect(tokens.sort()).toEqual(wanted);
});

test.each(services)('%s restarts whenever it ends', (_, { restart }) => {
  expect(restart).toBe('unless-stopped');
});

test('monitoring starts only on request, with files that exist', () => {
  const monitoring = services.filter(([, { profiles }]) => profiles?.includes('monitoring'));
  expect(monitoring.map(([name]) => name)).toEqual(['prometheus', 'grafana']);
  const mounted = monitoring.flatMap(([, { volumes = [] }]) =>
    volumes.map((each) => each.split(':')[0] ?? ''),
  );
  const paths = mounted.filter((path) => path.startsWith('./'));
  expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

test('Prometheus scrapes every process of the fleet under the names that the alerts use', () => {
  const config = parse(readFileSync(join(root, 'deploy/compose/prometheus.yaml'), 'utf8')) as {
    readonly scrape_configs: readonly Scrape[];
  };
  const scraped = config.scrape_configs.flatMap(({ job_name: job, static_configs: targets }) =>
    targets.flatMap((each) => each.targets.map((target) => [target, job])),
  );
  const processes = own.filter(([, { command }]) => command?.[0] !== 'sim-node');
  expect(scraped.sort()).toEqual(
    processes.map(([name, { command }]) => [`${name}:9464`, `headgate-${command?.[0]}`]).sort(),
  );
});

const hasPromtool = spawnSync('promtool', ['--version']).status === 0;
if (!hasPromtool) console.warn('SKIPPED: the configuration of Prometheus needs promtool');

test.skipIf(!hasPromtool)('promtool accepts the mounted configuration', () => {
  const dir = folderOfTest('compose');
  for (const volume of file.services['prometheus']?.volumes ?? []) {
    const [source = '', target = ''] = volume.split(':');
    if (source.startsWith('./')) cpSync(join(root, source), join(dir, target.split('/').pop() ?? ''));
  }
  const words = ['check', 'config', join(dir, 'prometheus.yml')];
  const { status, stdout, stderr } = spawnSync('promtool', words, { encoding: 'utf8' });
  expect(status, `${stdout}${stderr}`).toBe(0);
  expect(stdout).toContain('rules found');
});
