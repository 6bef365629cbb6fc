/** Limits the live state of nodes that a replica keeps, because untrusted agents send it. Counts the entries left out. */
import type { Beat, LiveNode } from '../../schemas/records/node-messages.ts';

/** Maximum number of installs kept per node. The first failed loads show the cause, so more would add nothing. */
const installsHeldMax = 20;
const installsReportedMax = 5;
const nodesReportedMax = 2000;
/** Maximum number of bytes for all nodes in one status record, which must fit into a Kafka message. */
const reportBytesMax = 150_000;

export type HeldHeartbeat = Omit<LiveNode, 'beatSeconds'>;

/** Returns the part of a heartbeat that stays in memory until the next one. */
export function toHeldHeartbeat({ inFlight, installs = [] }: Beat): HeldHeartbeat {
  return { ...(inFlight !== undefined && { inFlight }), ...truncate(installs, installsHeldMax, 0) };
}

/** Returns the facts about a node that are not in the log, whether or not the node has an agent. */
export function toLiveNode(
  unlisted: readonly string[],
  { hasWithheld }: { readonly hasWithheld: boolean },
): Pick<LiveNode, 'unlisted' | 'withheld'> {
  return { ...(unlisted.length > 0 && { unlisted: [...unlisted] }), ...(hasWithheld && { withheld: true }) };
}

function truncate(
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

/** Builds the report on a replica's nodes: first every attached node, then installs and unlisted models as space permits. */
export function buildNodesReport(live: ReadonlyMap<string, LiveNode>): NodesReport {
  const nodes: Record<string, LiveNode> = {};
  let bytes = 0;
  let count = 0;
  for (const [id, node] of live) {
    const bare = withInstalls(node, 0);
    const size = entryBytes(id, bare);
    if (count >= nodesReportedMax || bytes + size > reportBytesMax) break;
    nodes[id] = bare;
    bytes += size;
    count++;
  }
  for (const [id, node] of live) {
    const bare = nodes[id];
    if (bare === undefined) continue;
    const { unlisted } = node;
    const full = { ...withInstalls(node, installsReportedMax), ...(unlisted && { unlisted }) };
    const more = entryBytes(id, full) - entryBytes(id, bare);
    if (bytes + more > reportBytesMax) continue;
    nodes[id] = full;
    bytes += more;
  }
  const omitted = live.size - count;
  return { nodes, ...(omitted > 0 && { nodesOmitted: omitted }) };
}

function withInstalls(
  { installs = [], installsOmitted = 0, unlisted: _, ...rest }: LiveNode,
  max: number,
): LiveNode {
  return { ...rest, ...truncate(installs, max, installsOmitted) };
}

function entryBytes(id: string, node: LiveNode): number {
  return Buffer.byteLength(JSON.stringify({ [id]: node }));
}
