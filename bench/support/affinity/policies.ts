/** Ways to choose a node. Each gateway has its own instance but the oracle, which sees all nodes as they are. */
import { prefixesOf } from '../../../data-plane/shape/prompt-prefix.ts';
import { Affinity } from '../../../data-plane/upstream/affinity.ts';
import { NodeLoad } from '../../../data-plane/upstream/load.ts';
import type { SimulatedNode } from './cluster.ts';
import type { Turn } from './workloads.ts';

export interface Choice {
  readonly tenant: string;
  readonly turn: Turn;
  readonly blocks: readonly number[];
}

/** One gateway with its view of the load. */
export interface Policy {
  choose(nodes: readonly SimulatedNode[], choice: Choice): SimulatedNode;
  readonly load: NodeLoad;
}

export type PolicyName = 'random' | 'round robin' | 'least loaded' | 'two choices' | 'affinity' | 'oracle';

type Nodes = readonly SimulatedNode[];

function best(nodes: Nodes, score: (node: SimulatedNode) => number): SimulatedNode {
  let found = nodes[0] as SimulatedNode;
  for (const node of nodes) if (score(node) > score(found)) found = node;
  return found;
}

/** The node with the longest cached prefix of those at most 1.25 times as loaded as the mean. */
function oracle(nodes: Nodes, { blocks }: Choice): SimulatedNode {
  const total = nodes.reduce((sum, { inFlight }) => sum + inFlight, 0);
  const limit = Math.ceil((1.25 * (total + 1)) / nodes.length);
  const open = nodes.filter(({ inFlight }) => inFlight < limit);
  return best(open, (node) => node.cachedOf(blocks) - node.inFlight / 1000);
}

export function policy(name: PolicyName, random: () => number, now: () => number): Policy {
  const load = new NodeLoad({ random, now });
  const affinity = new Affinity({ load, secret: 'bench', now });
  let turns = Math.floor(random() * 8);
  const choices: Readonly<Record<PolicyName, Policy['choose']>> = {
    random: (nodes) => nodes[Math.floor(random() * nodes.length)] as SimulatedNode,
    'round robin': (nodes) => nodes[turns++ % nodes.length] as SimulatedNode,
    'least loaded': (nodes) => best(nodes, ({ node }) => random() - 1 - load.inFlight(node)),
    'two choices': (nodes) => load.choose(nodes) as SimulatedNode,
    affinity: (nodes, { tenant, turn }) => {
      const prefixes = prefixesOf({ messages: [...turn.messages] }, undefined);
      return affinity.choose(nodes, { tenant, group: 'pool model', prefixes }) as SimulatedNode;
    },
    oracle,
  };
  return { load, choose: choices[name] };
}
