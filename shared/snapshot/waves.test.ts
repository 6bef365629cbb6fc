/**
 * Tests that a gateway reads the base or, once the open change has reached it, the base with the change. The same prepared
 * statements must read both, and switch with the commit that advances the change.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { SnapshotReader } from '../../data-plane/snapshot/reader.ts';
import { type KnownEvent, toStored } from '../../schemas/events/events.ts';
import { ChainWriter, known, sha256 } from '../../test/support/commits.ts';
import { cachedLookup } from './cached-lookup.ts';
import { createLookup } from './lookup.ts';
import { openOrRebuild } from './open-snapshot.ts';

const limits = { id: 'Team', rank: 1 } as const;
const model = (id: string) =>
  known('model.set', { id, family: 'echo', added: '2026-01-01T00:00:00.000Z', weight: 1 });
const fleet: readonly KnownEvent[] = [
  model('echo'),
  model('large'),
  known('tier.set', { ...limits, concurrency: 8, models: ['echo', 'large'] }),
  known('organisation.set', { id: 'acme', name: 'Acme', tier: 'Team', anchor: '2026-01-01' }),
  known('pool.model_installed', { model: 'echo' }),
  known('pool.model_installed', { model: 'large' }),
  known('key.created', {
    ...{ id: 'key-1', organisation: 'acme', name: 'laptop', hash: sha256('key-1') },
    ...{ expires: 'never', expiresAt: null },
  }),
];
const staged = known('change.staged', {
  change: '3',
  events: [
    known('tier.set', { ...limits, concurrency: 4, models: ['echo'] }),
    known('pool.model_uninstalled', { model: 'large' }),
  ].map(toStored),
  waves: [{ gateways: ['gw-1'] }, { share: 1 }],
  holdSeconds: 300,
  watch: { refusals: 1, errors: 1, least: 50 },
});

function gateways() {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-waves-'));
  const writer = new ChainWriter();
  const { snapshot } = openOrRebuild(join(folder, 'state.db'));
  snapshot.apply([writer.open(), writer.add(fleet)]);
  const opened = ['gw-1', 'gw-2'].map((name) => {
    const reader = new SnapshotReader(snapshot, name);
    return { reader, lookup: cachedLookup(createLookup(reader.db)) };
  });
  snapshot.watchRows((...row) => {
    for (const { lookup } of opened) lookup.forget(...row);
  });
  onTestFinished(() => {
    for (const { reader } of opened) reader.close();
    snapshot.close();
    rmSync(folder, { recursive: true });
  });
  const commit = (...events: KnownEvent[]): void => {
    snapshot.apply([writer.add(events)]);
    for (const { reader } of opened) reader.refresh();
  };
  const seen = () =>
    opened.map(({ reader, lookup }) => {
      const owner = lookup.keyOwner(Buffer.from(sha256('key-1'), 'hex'));
      return {
        ...{ change: reader.overlaid?.change, concurrency: owner?.tier?.concurrency },
        ...{ includes: lookup.tierIncludes('Team', 'large'), pooled: lookup.isPooled('large') },
        revoked: owner?.revoked,
      };
    });
  return { commit, seen, readers: opened.map(({ reader }) => reader) };
}

const base = { change: undefined, concurrency: 8, includes: true, pooled: true, revoked: false };
const changed = { change: '3', concurrency: 4, includes: false, pooled: false, revoked: false };

test('a change is in force only on the gateways of its wave, and nowhere once it is withdrawn', () => {
  const { commit, seen } = gateways();
  commit(staged);
  expect(seen()).toEqual([base, base]);
  commit(known('change.advanced', { change: '3', wave: 1 }));
  expect(seen()).toEqual([changed, base]);
  commit(known('change.advanced', { change: '3', wave: 2 }));
  expect(seen()).toEqual([changed, changed]);
  commit(known('change.withdrawn', { change: '3', reason: 'by hand' }));
  expect(seen()).toEqual([base, base]);
});

test('a revocation during an open change is in force on all gateways, inside and outside its wave', () => {
  const { commit, seen } = gateways();
  commit(staged, known('change.advanced', { change: '3', wave: 1 }));
  commit(known('key.revoked', { id: 'key-1' }));
  expect(seen().map(({ revoked }) => revoked)).toEqual([true, true]);
  expect(seen()[0]?.change).toBe('3');
});

test('a completed change is in force on all gateways, and none shows it as a change any more', () => {
  const { commit, seen } = gateways();
  commit(staged, known('change.advanced', { change: '3', wave: 1 }));
  const events = staged.type === 'change.staged' ? staged.data.events : [];
  commit(known('change.completed', { change: '3' }), ...(events as unknown as KnownEvent[]));
  const all = { ...changed, change: undefined };
  expect(seen()).toEqual([all, all]);
});

test('a decision counts for the change if and only if it read one of its rows', () => {
  const { commit, readers } = gateways();
  commit(staged, known('change.advanced', { change: '3', wave: 1 }));
  const [inside, outside] = readers.map(({ overlaid }) => overlaid);
  expect(outside).toBeUndefined();
  expect(inside?.decided({ tier: 'Team', model: 'echo', stack: undefined })).toBe(true);
  expect(inside?.decided({ tier: 'Other', model: 'large', stack: undefined })).toBe(true);
  expect(inside?.decided({ tier: 'Other', model: 'large', stack: 'stk-amber-otter-1' })).toBe(false);
  expect(inside?.decided({ tier: 'Other', model: 'echo', stack: undefined })).toBe(false);
});
