/**
 * Tests a replica whose fold has stopped. It still reports on the status topic but cannot write to the log. The other
 * replicas must take over its nodes, both probed nodes and nodes with agents, as if the replica were silent.
 */

import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { LiveNodeResource } from '../../schemas/admin/admin.ts';
import { openDatabase } from '../../shared/runtime/sqlite.ts';
import { type SimNode, startSimNode } from '../../tools/simulator/sim-node.ts';
import { type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { endsInOrder, isFaulted } from './clients.ts';

let fleet: ProcessFleet;
const nodes: SimNode[] = [];
beforeEach(() => {
  fleet = new ProcessFleet();
});
afterEach(async () => {
  await fleet.close();
  for (const node of nodes.splice(0)) await node.close();
});

async function nodeOf(plane: Plane, id: string): Promise<LiveNodeResource | undefined> {
  const { items } = await plane.admin.call('GET', '/nodes');
  return items.find((node) => node.id === id);
}

/** Makes this replica unable to fold the next commit about organisations. */
function spoil(folder: string): void {
  const db = openDatabase(join(fleet.dir, folder, 'state.db'), { durability: 'normal', busyTimeoutMs: 5000 });
  db.exec(
    "CREATE TRIGGER spoilt BEFORE INSERT ON organisation BEGIN SELECT RAISE(ABORT, 'this row cannot be kept'); END",
  );
  db.close();
}

test('if a replica’s fold stops, another replica claims its nodes and reports on them', async () => {
  const first = await fleet.startPlane('cp-1');
  const node = await startSimNode({ models: ['echo-small'], tokensPerSecond: 0 });
  nodes.push(node);
  await first.admin.apply({
    version: 1,
    models: [{ id: 'echo-small', family: 'echo', weight: 1 }],
    tiers: [{ id: 'Pro', models: '*' }],
    pool: { models: ['echo-small'], nodes: [{ id: 'bare', url: node.url, dialect: 'vllm' }] },
  });
  await vi.waitFor(
    async () => expect(await nodeOf(first, 'bare')).toMatchObject({ owner: 'cp-1', up: true }),
    {
      timeout: 30_000,
      interval: 100,
    },
  );
  const second = await fleet.startPlane('cp-2');
  spoil('cp-1');
  await second.admin.call('POST', '/organisations', { id: 'bolt', name: 'Bolt' });
  await isFaulted(first.ready, /this row cannot be kept/);
  expect(await nodeOf(second, 'bare')).toMatchObject({ owner: 'cp-1' });

  await vi.waitFor(async () => expect(await nodeOf(second, 'bare')).toMatchObject({ owner: 'cp-2' }), {
    timeout: 30_000,
    interval: 100,
  });
  await nodes.pop()?.close();
  await vi.waitFor(async () => expect(await nodeOf(second, 'bare')).toMatchObject({ up: false }), {
    timeout: 30_000,
    interval: 100,
  });
  expect(await nodeOf(first, 'bare')).toMatchObject({ owner: 'cp-1', up: true });
  await endsInOrder(first);
  await endsInOrder(second);
});
