/**
 * Tests both main paths over Kafka with real processes of the built service. A command must become a commit on the topic and
 * reach every gateway, and a request must be answered from the folded state. A gateway must also survive the loss of its
 * broker.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { statusWith } from '../support/process-fleet.ts';
import { type Launch, startDev } from '../support/processes.ts';
import { type Kafka, startKafka } from './broker.ts';

interface Ready {
  readonly admin: string;
  readonly operatorToken: string;
  readonly gateways: readonly { readonly name: string; readonly api: string }[];
  readonly organisations: readonly { readonly id: string; readonly key: string | null }[];
}

const run = promisify(execFile);
const binary = new URL('../../dist/cli/headgate.js', import.meta.url).pathname;
const dir = mkdtempSync(join(tmpdir(), 'headgate-roads-'));
let kafka: Kafka;
let dev: Launch<Ready>;
beforeAll(async () => {
  kafka = await startKafka();
  dev = await startDev<Ready>(dir, ['--log', kafka.url]);
}, 120_000);
afterAll(async () => {
  await dev?.end();
  await kafka?.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** Runs `headgate …` and returns its output, parsed as JSON. */
async function cli(...words: readonly string[]): Promise<Record<string, unknown>> {
  const { admin, operatorToken } = dev.ready;
  const env = {
    ...process.env,
    HEADGATE_ADMIN: admin,
    HEADGATE_TOKEN: operatorToken,
    HEADGATE_LOG: kafka.url,
  };
  const { stdout } = await run(process.execPath, [binary, ...words, '-o', 'json'], { env, cwd: dir });
  return JSON.parse(stdout) as Record<string, unknown>;
}

async function createKey(): Promise<{ id: string; value: string }> {
  const organisation = dev.ready.organisations.find(({ key }) => key)!;
  const created = await cli(
    'key',
    'create',
    '--org',
    organisation.id,
    '--name',
    'roads',
    '--expires',
    'never',
  );
  return created as unknown as { id: string; value: string };
}

test('every gateway accepts a new key, and refuses it once it is revoked', async () => {
  const { id, value } = await createKey();
  const apis = dev.ready.gateways.map(({ api }) => api);
  expect(apis.length).toBeGreaterThan(1);
  for (const api of apis) await expect.poll(() => statusWith(api, value), { timeout: 10_000 }).toBe(200);
  const revoked = await cli('key', 'revoke', id, '--yes', '--wait=30s');
  const confirmed = (revoked['gateways'] as { confirmed: boolean }[]).map((gateway) => gateway.confirmed);
  expect(confirmed).toEqual(apis.map(() => true));
  for (const api of apis) expect(await statusWith(api, value)).toBe(401);
});

test('usage of completed requests reaches the totals through the topic’s twelve partitions', async () => {
  const organisation = dev.ready.organisations.find(({ key }) => key)!;
  const total = async () => Number((await cli('usage', 'show', '--org', organisation.id))['totalTokens']);
  const before = await total();
  for (const { api } of dev.ready.gateways) expect(await statusWith(api, organisation.key!)).toBe(200);
  await expect.poll(total, { timeout: 10_000 }).toBeGreaterThan(before);
});

test('replaying the log on Kafka leads to the same end', async () => {
  const replayed = await cli('replay', '--from-log');
  expect(Number(replayed['position'])).toBeGreaterThan(1);
});

test('requests are answered while the broker is dead, and commands once it is back', async () => {
  const { value } = await createKey();
  const { api } = dev.ready.gateways[0]!;
  await expect.poll(() => statusWith(api, value), { timeout: 10_000 }).toBe(200);
  await kafka.kill(1);
  for (let n = 0; n < 5; n++) expect(await statusWith(api, value)).toBe(200);
  await kafka.restart(1);
  await expect.poll(async () => (await createKey()).value, { timeout: 30_000 }).toMatch(/^hg_/);
  expect(await statusWith(api, value)).toBe(200);
});
