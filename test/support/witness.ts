/** What simulated nodes and the usage totals say of a test's requests: the witnesses against which a gateway is checked. */
import { expect } from 'vitest';
import type { SimNode } from '../../node/sim-node.ts';
import type { TestFleet } from './fleet.ts';

/** Completions and embeddings that a node has been asked for; probes and token counts are left out. */
export function inferences(node: SimNode): number {
  const { requestsByPath } = node.stats();
  return (requestsByPath['/v1/chat/completions'] ?? 0) + (requestsByPath['/v1/embeddings'] ?? 0);
}

/** By node, how many inferences `act` caused there; nodes that were not asked are left out. */
export async function askedDuring(
  fleet: TestFleet,
  act: () => Promise<unknown>,
): Promise<Record<string, number>> {
  const before = Object.entries(fleet.nodes).map(([id, node]) => [id, inferences(node)] as const);
  await act();
  return Object.fromEntries(
    before
      .map(([id, count]) => [id, inferences(fleet.nodes[id as keyof typeof fleet.nodes]) - count] as const)
      .filter(([, asked]) => asked > 0),
  );
}

export interface UsageTotals {
  readonly totalTokens: number;
  readonly requests: number;
}

export async function usageOf(fleet: TestFleet, organisation: string): Promise<UsageTotals> {
  const { totalTokens, requests } = await fleet.admin.call<UsageTotals>(
    'GET',
    `/usage?organisation=${organisation}`,
  );
  return { totalTokens, requests };
}

/** Waits until so many requests of the organisation are in its totals. */
export async function usageReaches(
  fleet: TestFleet,
  organisation: string,
  requests: number,
): Promise<UsageTotals> {
  await expect
    .poll(async () => (await usageOf(fleet, organisation)).requests, { timeout: 10_000, interval: 20 })
    .toBe(requests);
  return usageOf(fleet, organisation);
}
