// Tests that a control plane does not block its event loop while it copies a large state.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { expect, test } from 'vitest';
import { openOrRebuild } from '../../shared/snapshot/open-snapshot.ts';

// Imports the built file, because only the build runs the copy in a thread of its own.
const built = new URL('../../dist/control-plane/state/snapshot-copies.js', import.meta.url).href;

test('a large state is copied without blocking the event loop', async () => {
  const { SnapshotCopies } = (await import(
    built
  )) as typeof import('../../control-plane/state/snapshot-copies.ts');
  const dir = mkdtempSync(join(tmpdir(), 'headgate-copy-'));
  const state = join(dir, 'state.db');
  const { snapshot } = openOrRebuild(state);
  snapshot.db.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000)
    INSERT INTO organisation (id, name, anchor, suspended)
    SELECT 'org-' || i, printf('%0200d', i), '2026-11-01', 0 FROM n`);
  try {
    const copies = new SnapshotCopies({ state, position: () => 0, folder: join(dir, 'copies') });
    const before = performance.eventLoopUtilization();
    const copy = await copies.acquire({ kind: 'operator' }, new AbortController().signal);
    const { active } = performance.eventLoopUtilization(before);
    expect(copy.bytes).toBeGreaterThan(80_000_000);
    // For comparison, a copy on this thread keeps its event loop busy for some hundred ms.
    const here = performance.eventLoopUtilization();
    snapshot.db.prepare('VACUUM INTO ?').run(join(dir, 'here.db'));
    await new Promise((resolve) => setImmediate(resolve));
    expect(active).toBeLessThan(performance.eventLoopUtilization(here).active / 4);
    copy.release();
    expect(readdirSync(join(dir, 'copies'))).toHaveLength(1);
  } finally {
    snapshot.close();
    rmSync(dir, { recursive: true, force: true });
  }
});
