/**
 * Builds the image on a locally made base and runs processes in its file system: read-only, as user 1000, as process 1 of a
 * namespace, with one volume each, and with a real Kafka.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { type Kafka, startKafka } from '../kafka/broker.ts';
import { gatewayToken, model, operatorToken, organisation, statusWith } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { type Container, canRunImages, Image } from './container.ts';

const root = resolve(import.meta.dirname, '../..');
const project = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly version: string;
  readonly devDependencies: Readonly<Record<string, string>>;
};
if (!canRunImages)
  console.warn('SKIPPED: the image needs root, buildah, mmdebstrap and unshare (Debian: apt-get install)');

interface Plane {
  readonly admin: string;
  readonly metrics: string;
  readonly console?: string;
}
interface Gateway {
  readonly api: string;
  readonly metrics: string;
}

describe.skipIf(!canRunImages)('the image', () => {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-image-'));
  let image: Image;
  let kafka: Kafka | undefined;
  let env: Readonly<Record<string, string>>;

  beforeAll(async () => {
    const args = ['tools/scripts/image.mjs', '--stand-in', '--tag', 'headgate-test'];
    const { status, stdout } = spawnSync('node', args, {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    console.log(stdout);
    expect(status).toBe(0);
    image = new Image('headgate-test');
    kafka = await startKafka();
    env = {
      HEADGATE_LOG: kafka.url,
      HEADGATE_GATEWAY_TOKEN: gatewayToken,
      HEADGATE_LOG_LEVEL: 'warn',
      HEADGATE_METRICS_PORT: '0',
      HEADGATE_DRAIN_DELAY: '0',
    };
  }, 900_000);
  afterAll(async () => {
    await image?.close();
    await kafka?.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  /** Starts a process of the image with a volume of the given name. The same name reuses the volume. */
  function serve<Ready>(
    kind: string,
    name: string,
    args: readonly string[],
    more: Readonly<Record<string, string>> = {},
  ): Promise<Container<Ready>> {
    return image.start<Ready>(image.volume(join(dir, name)), [kind, ...args], { ...env, ...more });
  }
  const controlPlane = (name: string) =>
    serve<Plane>('control-plane', name, ['--name', name, '--port', '0', '--console-port', '0'], {
      HEADGATE_OPERATOR_TOKEN: operatorToken,
    });
  const gateway = (name: string) => serve<Gateway>('gateway', name, ['--name', name, '--port', '0']);

  test('has a numeric user, its volume, its version and an entry point without a shell', () => {
    expect(image.config).toMatchObject({
      User: '1000:1000',
      Entrypoint: ['node', '/app/dist/cli/headgate.js'],
      Volumes: { '/data': {} },
      Labels: { 'org.opencontainers.image.version': project.version },
    });
    expect(statSync(join(image.root, 'data')).uid).toBe(1000);
  });

  test('contains the program, pages and documents, but no tests, sources or development packages', () => {
    const app = join(image.root, 'app');
    const files = readdirSync(app, { recursive: true, encoding: 'utf8' });
    const own = files.filter((path) => !path.startsWith('node_modules'));
    expect(
      own.filter((path) => /(?:\.test\.js|\.tsx?|\.map|(?:^|\/)(?:test|bench)\/.*)$/.test(path)),
    ).toEqual([]);
    expect(files.filter((path) => /\.(?:c|cpp|h|gyp|tgz)$/.test(path))).toEqual([]);
    const packages = Object.keys(project.devDependencies);
    expect(packages.filter((name) => existsSync(join(app, 'node_modules', name)))).toEqual([]);
    for (const path of [
      'docs/operate.md',
      'docs/errors',
      'dist/console/index.html',
      'dist/play/index.html',
      'LICENSE',
    ])
      expect(existsSync(join(app, path)), path).toBe(true);
    expect(files.filter((path) => path.endsWith('.node'))).toHaveLength(2);
  });

  test('has a file system that its user can write to only on the volume', () => {
    const volume = image.volume(join(dir, 'read-only'));
    const write = (path: string) =>
      image.run(volume, ['node', '-e', `fs.writeFileSync('${path}', ''); console.log(process.getuid())`]);
    expect(write('/app/dist/x').stderr).toContain('EROFS');
    expect(write('/tmp/x').stderr).toContain('EROFS');
    expect(write('/data/x')).toMatchObject({ code: 0, stdout: '1000\n' });
    const doctor = image.run(volume, [
      ...image.config.Entrypoint,
      ...'doctor --pre --verbose --data /data'.split(' '),
    ]);
    expect(doctor, doctor.stderr).toMatchObject({ code: 0 });
  });

  test('serves a fleet over Kafka, and a draining gateway loses no stream and restarts on its volume', async () => {
    const engine = await serve<{ url: string }>('sim-node', 'engine', [
      ...['--port', '0', '--models', model, '--tokens-per-second', '20'],
    ]);
    const planes = await Promise.all([controlPlane('plane-1'), controlPlane('plane-2')]);
    const gateways = await Promise.all([gateway('gateway-1'), gateway('gateway-2')]);
    const admin = new DevAdmin(planes[0].ready.admin, operatorToken);
    const node = { id: 'pool-1', url: engine.ready.url, dialect: 'vllm' as const, agent: true };
    await admin.apply({
      version: 1,
      models: [{ id: model, family: 'echo', weight: 1 }],
      tiers: [{ id: 'Wide', models: '*' }],
      pool: { models: [model], nodes: [node] },
      organisations: [{ id: organisation, name: 'Acme', tier: 'Wide' }],
    });
    const token = await admin.createNodeToken('pool-1');
    const urls = planes.flatMap(({ ready }) => ['--control-plane', ready.admin]);
    const agent = await serve(
      'node-agent',
      'agent',
      ['--node', 'pool-1', '--engine', engine.ready.url, ...urls],
      {
        HEADGATE_NODE_TOKEN: token.value,
      },
    );
    const key = await new DevAdmin(planes[1].ready.admin, operatorToken).createKey(organisation, 'k');
    for (const { ready } of gateways)
      await until(async () => (await statusWith(ready.api, key.value)) === 200, 60_000);
    expect((await fetch(planes[0].ready.console!)).headers.get('content-type')).toContain('text/html');

    const [first] = gateways;
    const stream = await openStream(first.ready.api, key.value);
    const ended = first.stop();
    await until(async () => (await statusWith(first.ready.api, key.value).catch(() => 0)) === 0);
    expect(await stream.rest(), 'the stream ends as its engine ended it').toContain('data: [DONE]');
    expect(await ended).toBe(0);
    expect(await statusWith(gateways[1].ready.api, key.value)).toBe(200);

    const again = await gateway('gateway-1');
    await until(async () => (await statusWith(again.ready.api, key.value)) === 200, 60_000);
    for (const each of [agent, again, gateways[1], ...planes, engine]) expect(await each.stop()).toBe(0);
  }, 300_000);
});

/** Starts a completion that takes some seconds, and resolves once its first bytes have arrived. */
async function openStream(api: string, key: string): Promise<{ rest(): Promise<string> }> {
  const messages = [{ role: 'user', content: 'word '.repeat(60) }];
  const response = await fetch(`${api}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages, stream: true }),
  });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value ?? '';
  return {
    async rest() {
      for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
      return text;
    },
  };
}
