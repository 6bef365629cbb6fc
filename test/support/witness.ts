/** What simulated nodes and the usage totals say of a test's requests: the witnesses against which a gateway is checked. */
import { expect, vi } from 'vitest';
import type { FaultyNode } from '../simulator/faulty-node.ts';
import type { Answer } from './api.ts';
import { operatorToken, type TestFleet } from './fleet.ts';

/** Where the text of a request may go at a node: completions, embeddings, and counts of tokens. Probes send none. */
const completionPaths = ['/v1/chat/completions', '/v1/embeddings'];
const countPaths = ['/tokenize', '/v1/chat/completions/input_tokens'];

function requestsOn(node: FaultyNode, paths: readonly string[]): number {
  const { requestsByPath } = node.stats();
  return paths.reduce((sum, path) => sum + (requestsByPath[path] ?? 0), 0);
}

/** Completions and embeddings that a node has been asked for. */
export function inferences(node: FaultyNode): number {
  return requestsOn(node, completionPaths);
}

/** How often a node has been sent the text of a request, for whatever purpose. */
function textsSent(node: FaultyNode): number {
  return requestsOn(node, [...completionPaths, ...countPaths]);
}

/** By node, how often `act` had the text of a request sent there; nodes that were sent none are left out. */
export async function askedDuring(
  fleet: TestFleet,
  act: () => Promise<unknown>,
): Promise<Record<string, number>> {
  const before = Object.entries(fleet.nodes).map(([id, node]) => [id, textsSent(node)] as const);
  await act();
  return Object.fromEntries(
    before
      .map(([id, count]) => [id, textsSent(fleet.nodes[id as keyof typeof fleet.nodes]) - count] as const)
      .filter(([, asked]) => asked > 0),
  );
}

export interface UsageTotals {
  readonly totalTokens: number;
  readonly requests: number;
}

export async function usageOf(fleet: TestFleet, organisation: string): Promise<UsageTotals> {
  const { totalTokens, requests } = await fleet.admin.call('GET', `/usage?organisation=${organisation}`);
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

export const requestIdOf = ({ fields }: Answer): string => fields['x-request-id'] ?? '';

/** Ids of the requests on record of an organisation. Rows ship in order, so once that of `last` is there, all before it are too. */
export async function recordedIds(fleet: TestFleet, organisation: string, last: Answer): Promise<string[]> {
  expect(last.status).toBe(200);
  const url = `${fleet.controlPlane.admin}/admin/v1/usage/export?organisation=${organisation}`;
  const headers = { authorization: `Bearer ${operatorToken}` };
  let ids: string[] = [];
  await vi.waitUntil(
    async () => {
      const rows = (await (await fetch(url, { headers })).text()).split('\n').filter(Boolean);
      ids = rows.map((row) => (JSON.parse(row) as { requestId: string }).requestId);
      return ids.includes(requestIdOf(last));
    },
    { timeout: 10_000, interval: 50 },
  );
  return ids;
}
