/** Tests the fleet page's summary of organisations with capacity of their own, for a few organisations and for thousands. */
import { expect, test } from 'vitest';
import { capacities } from '../../console/lib/capacity.ts';
import { type FleetReads, holes, nodesByPlace } from '../../console/lib/holes.ts';
import { cpuMsOf } from '../support/cpu.ts';

type Node = FleetReads['nodes'][number];
const node = (id: string, place: Node['place'], loaded: readonly string[]) =>
  ({ id, place, up: true, drained: false, loaded }) as unknown as Node;
const ofStack = (id: string) => ({ kind: 'stack', id }) as const;

function fleetOf(organisations: number): FleetReads {
  const ids = Array.from({ length: organisations }, (_, n) => n);
  return {
    pool: { models: ['echo-small'], nodes: [] },
    tiers: [],
    organisations: [{ id: 'org-0', name: 'First', tier: 'Team', suspended: false }],
    organisationsInAll: organisations + 5,
    stacks: ids.map((n) => ({ id: `stk-${n}`, organisation: `org-${n}`, models: ['echo-small'] })),
    // Every second stack has a serving node. One organisation has a node but no stack.
    nodes: [
      ...ids.filter((n) => n % 2 === 0).map((n) => node(`node-${n}`, ofStack(`stk-${n}`), ['echo-small'])),
      node('own', { kind: 'organisation', id: 'aside' }, []),
    ],
  } as unknown as FleetReads;
}

function mapOf(fleet: FleetReads) {
  const missing = holes(fleet);
  return { missing, rows: capacities({ ...fleet, places: nodesByPlace(fleet.nodes), missing }) };
}

test('each organisation with a stack or node has one entry, with its nodes and unserved models', () => {
  const { missing, rows } = mapOf(fleetOf(3));
  expect(missing.map(({ where }) => where)).toEqual(['the pool', 'stk-1']);
  const short = rows.map(({ id, name, stacks, nodes, missing: holesOfIt }) => [
    ...[id, name, holesOfIt, nodes.length],
    ...stacks.map((stack) => `${stack.id}: ${stack.nodes.map((one) => one.id).join()}`),
  ]);
  expect(short).toEqual([
    ['aside', 'aside', 0, 1],
    ['org-0', 'First', 0, 0, 'stk-0: node-0'],
    ['org-1', 'org-1', 1, 0, 'stk-1: '],
    ['org-2', 'org-2', 0, 0, 'stk-2: node-2'],
  ]);
});

test('thousands of stacks and nodes take a browser only milliseconds', () => {
  const fleet = fleetOf(5000);
  // If the page compared each stack with each node, this would take about a second.
  expect(cpuMsOf(() => void mapOf(fleet))).toBeLessThan(300);
});
