/**
 * Flips a bit in a control plane's `state.db`. The control plane must stop before much depends on the damaged file, and must
 * then rebuild it.
 */
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { type Plane, ProcessFleet } from '../support/process-fleet.ts';

const fleet = new ProcessFleet();
afterAll(() => fleet.close());

const path = join(fleet.dir, 'cp', 'state.db');
const start = () => fleet.serve<Plane['ready']>('control-plane', 'cp');

async function names(plane: Plane): Promise<unknown> {
  const { items } = (await fleet.admin(plane).call('GET', '/organisations')) as { items: { name: string }[] };
  return items.map(({ name }) => name);
}

test('a replica whose rows differ from their digest ends, and is correct after a restart', async () => {
  let plane = await start();
  await fleet.admin(plane).call('POST', '/organisations', { id: 'acme', name: 'Acme Corporation' });
  await plane.end('SIGTERM');

  const bytes = readFileSync(path);
  const at = bytes.indexOf('Acme Corporation');
  expect(at).toBeGreaterThan(0);
  bytes[at]! ^= 1;
  writeFileSync(path, bytes);

  plane = await start();
  if (plane.child.exitCode === null) await once(plane.child, 'exit');
  expect(plane.child.exitCode).toBe(1);
  expect(plane.stderr()).toContain('state.db is damaged: this replica ends');
  expect(existsSync(`${path}.aside`)).toBe(true);

  plane = await start();
  expect(await names(plane)).toEqual(['Acme Corporation']);
});
