/** Flips bits in a control plane's `usage.db`. The control plane must report the damage and keep answering. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { ProcessFleet, statusWith } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

const waitMs = 60_000;
const fleet = new ProcessFleet();
afterAll(() => fleet.close());

const path = join(fleet.dir, 'plane', 'usage.db');

function keptRows(): number {
  const db = openDatabase(path, { durability: 'normal', readOnly: true });
  try {
    return Number(db.prepare('SELECT count(*) FROM request').pluck().get());
  } finally {
    db.close();
  }
}

/** Flips the lowest bit of the text's first byte, in the n-th row that contains the text. */
function flip(bytes: Buffer, text: string, nth: number): void {
  let found = -1;
  for (let count = 0; count <= nth; count++) found = bytes.indexOf(text, found + 1);
  expect(found).toBeGreaterThan(0);
  bytes[found]! ^= 1;
}

test('with four flipped bits, each damaged row is named and everything else is answered', async () => {
  const { plane: damaged, gateway, key: value } = await fleet.stand();
  await until(async () => (await statusWith(gateway.ready.api, value)) === 200, waitMs);
  for (let count = 0; count < 7; count++) expect(await statusWith(gateway.ready.api, value)).toBe(200);
  await until(() => keptRows() === 8, waitMs);
  await damaged.end('SIGTERM');

  const bytes = readFileSync(path);
  for (const [nth, text] of ['{"v":1', '"at":"', '"promptTokens"', '"organisation":"acme"'].entries())
    flip(bytes, text, nth);
  writeFileSync(path, bytes);

  const plane = await fleet.startPlane();
  const admin = fleet.admin(plane);
  const { items } = (await admin.call('GET', '/usage/keys?organisation=acme')) as {
    items: { requestsOfDay: number }[];
  };
  // The rows were counted before the damage, so the count is still right.
  expect(items).toEqual([expect.objectContaining({ requestsOfDay: 8 })]);
  const env = { HEADGATE_ADMIN: plane.ready.admin };
  const exported = await fleet.cli(['usage', 'export', '--org', 'acme'], env);
  expect([exported.code, exported.stdout.trim().split('\n').length]).toEqual([0, 4]);

  const verbose = async () => (await fetch(new URL('/readyz?verbose', plane.ready.metrics))).text();
  await until(async () => /^\[\+\]usage usage\.db is damaged: request \d+: /m.test(await verbose()), waitMs);
  const metrics = await (await fetch(new URL('/metrics', plane.ready.metrics))).text();
  expect(metrics).toMatch(/^headgate_usage_file_faults [4-9]$/m);
  const doctor = await fleet.cli(['doctor', '--only', 'limits', '-o', 'json'], env);
  const named = (
    JSON.parse(doctor.stdout).checks as { code: string; object?: string; next?: string }[]
  ).filter(({ code }) => code === 'HG7007');
  expect(named.map(({ object }) => object)).toEqual(Array(4).fill(expect.stringMatching(/^request \d+$/)));
  expect(named[0]?.next).toContain('docs/recover.md');
  expect(plane.stderr()).toContain('"event":"usage.rows_unreadable"');
  await until(() => plane.stderr().includes('"event":"usage.file_damaged"'));
  expect(plane.stderr()).not.toContain('command.internal_error');
});
