/** Evidence about a test's requests from simulated nodes and usage totals. Tests compare the gateway's behaviour with it. */
import { expect, vi } from 'vitest';
import type { FaultyNode } from '../simulator/faulty-node.ts';
import type { Answer } from './api.ts';
import { operatorToken, type TestFleet } from './fleet.ts';

/** Node paths that receive a request's text: completions, embeddings and token counts. Probes send no text. */
const completionPaths = ['/v1/chat/completions', '/v1/embeddings'];
const countPaths = ['/tokenize', '/v1/chat/completions/input_tokens'];

function requestsOn(node: FaultyNode, paths: readonly string[]): number {
  const { requestsByPath } = node.stats();
  return paths.reduce((sum, path) => sum + (requestsByPath[path] ?? 0), 0);
}

/** Number of completions and embeddings that the node has received. */
export function inferences(node: FaultyNode): number {
  return requestsOn(node, completionPaths);
}

/** Number of times that the node has received a request's text, for any purpose. */
function textsSent(node: FaultyNode): number {
  return requestsOn(node, [...completionPaths, ...countPaths]);
}

/** Runs `act` and returns how often it sent a request's text to each node. Nodes that received none are left out. */
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

/** Waits until the organisation's usage totals contain this many requests. */
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

/**
 * Returns the ids of an organisation's recorded requests, once the request of `last` is recorded. Rows arrive in order, so
 * all earlier requests are recorded by then.
 */
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
