/**
 * Tests that a node serves a model only if the node has loaded it and it is installed at the node's place. A commit that
 * changes either fact must take effect at once.
 */
import { expect, test } from 'vitest';
import type { PlaceKey } from '../../schemas/names.ts';
import { ChainWriter, known } from '../../test/support/commits.ts';
import { cachedLookup } from './cached-lookup.ts';
import { createLookup } from './lookup.ts';
import { memorySnapshot } from './open-snapshot.ts';

const stack = 'stk-amber-otter-1';
const places: readonly PlaceKey[] = ['pool', `stack:${stack}`, 'organisation:acme'];

/** Returns events after which a node at each place is up and has the model loaded. */
function upEverywhere() {
  return places.flatMap((place) => {
    const [kind = '', id] = place.split(':');
    const node = { id: `node-${kind}`, url: 'http://127.0.0.1:9001', dialect: 'vllm', agent: true };
    const claim = { id: node.id, owner: 'control-1', generation: 1 };
    return [
      known('node.registered', { ...node, place: id === undefined ? { kind } : { kind, id } } as never),
      known('node.joined', claim),
      known('node.health_changed', { ...claim, up: true, models: ['echo'] }),
    ];
  });
}

test('Routing algorithm 1: pool and stacks serve what is installed on them at once, and an own node needs no install', () => {
  const writer = new ChainWriter();
  const snapshot = memorySnapshot();
  const model = known('model.set', { id: 'echo', family: 'e', added: '2026-01-01T00:00:00Z', weight: 1 });
  snapshot.apply([writer.open(), writer.add([model, ...upEverywhere()])]);
  const lookup = cachedLookup(createLookup(snapshot.db));
  snapshot.watchRows(lookup.forget);
  const serving = () => places.filter((place) => lookup.routes(place, 'echo').length === 1);
  const listing = () => places.filter((place) => lookup.listing(place).length === 1);
  const steps = [
    [known('no_op', {}), []],
    [known('pool.model_installed', { model: 'echo' }), ['pool']],
    [known('stack.model_installed', { stack, model: 'other' }), ['pool']],
    [known('stack.model_installed', { stack, model: 'echo' }), ['pool', `stack:${stack}`]],
    [known('pool.model_uninstalled', { model: 'echo' }), [`stack:${stack}`]],
    [known('stack.model_uninstalled', { stack, model: 'echo' }), []],
  ] as const;
  for (const [event, installed] of steps) {
    snapshot.apply([writer.add([event])]);
    expect(serving(), event.type).toEqual([...installed, 'organisation:acme']);
    expect(listing(), event.type).toEqual([...installed, 'organisation:acme']);
    expect(lookup.isPooled('echo')).toBe(serving().includes('pool'));
  }
});
