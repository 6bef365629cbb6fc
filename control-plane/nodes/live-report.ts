/**
 * What a replica holds and reports of a node beyond its health, bounded whatever agents send: names and reasons are texts
 * of theirs. What is left out is counted, so that nobody takes the rest for all.
 */
import type { Beat, LiveNode } from '../../schemas/node-messages.ts';

/** Of one node; a long list of failed loads adds nothing to its beginning. */
const installsHeldMax = 20;
const installsReportedMax = 5;
const nodesReportedMax = 2000;
/** Of the nodes in one status record, which has to stay below what Kafka takes. */
const reportBytesMax = 150_000;

export type HeldBeat = Pick<LiveNode, 'inFlight' | 'installs' | 'installsOmitted'>;

/** What is held of a beat until the next. */
export function heldOf({ inFlight, installs = [] }: Beat): HeldBeat {
  return { ...(inFlight !== undefined && { inFlight }), ...cut(installs, installsHeldMax, 0) };
}

function cut(
  installs: NonNullable<LiveNode['installs']>,
  max: number,
  omittedBefore: number,
): Pick<LiveNode, 'installs' | 'installsOmitted'> {
  const omitted = omittedBefore + Math.max(0, installs.length - max);
  return {
    ...(installs.length > 0 && max > 0 && { installs: installs.slice(0, max) }),
    ...(omitted > 0 && { installsOmitted: omitted }),
  };
}

export interface NodesReport {
  readonly nodes: Record<string, LiveNode>;
  readonly nodesOmitted?: number;
}

/** That a node is attached comes first; installs are reported as far as there is room left. */
export function reportOf(live: ReadonlyMap<string, LiveNode>): NodesReport {
  const nodes: Record<string, LiveNode> = {};
  let bytes = 0;
  let count = 0;
  for (const [id, node] of live) {
    const bare = withInstalls(node, 0);
    const size = sizeOf(id, bare);
    if (count >= nodesReportedMax || bytes + size > reportBytesMax) break;
    nodes[id] = bare;
    bytes += size;
    count++;
  }
  for (const [id, node] of live) {
    const bare = nodes[id];
    if (bare === undefined || node.installs === undefined) continue;
    const full = withInstalls(node, installsReportedMax);
    const more = sizeOf(id, full) - sizeOf(id, bare);
    if (bytes + more > reportBytesMax) continue;
    nodes[id] = full;
    bytes += more;
  }
  const omitted = live.size - count;
  return { nodes, ...(omitted > 0 && { nodesOmitted: omitted }) };
}

function withInstalls({ installs = [], installsOmitted = 0, ...rest }: LiveNode, max: number): LiveNode {
  return { ...rest, ...cut(installs, max, installsOmitted) };
}

function sizeOf(id: string, node: LiveNode): number {
  return Buffer.byteLength(JSON.stringify({ [id]: node }));
}
