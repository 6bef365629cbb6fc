/**
 * Three brokers, one of which can be cut off from the other two while its clients still reach it, as when a network partition
 * isolates the leader. It keeps answering as if it were the leader, while the other two elect another one. Every listener
 * except the plain one is behind a proxy, which recognises nodes by their client ids.
 */
import { freePorts, type Kafka, startKafka } from './broker.ts';
import { startProxy, type TestProxy } from './proxy.ts';

const nodes = [1, 2, 3] as const;
/** Kafka's listeners for other brokers, for controllers, and for the client that is cut off together with a node. */
const listeners = ['INTERNAL', 'CONTROLLER', 'OBSERVED'] as const;

export interface SplitKafka {
  readonly kafka: Kafka;
  /** Log URL for the client that can be cut off together with a node. */
  readonly observedUrl: string;
  /** Cuts the node and the observed client off from the other two nodes. */
  split(node: number): void;
  heal(): void;
  stop(): Promise<void>;
}

export async function startSplitKafka(): Promise<SplitKafka> {
  const ports = await freePorts(2 * nodes.length * listeners.length);
  const portOf = (node: number, listener: (typeof listeners)[number], proxied: boolean) =>
    ports[(listeners.indexOf(listener) * 3 + node - 1) * 2 + (proxied ? 1 : 0)]!;
  const addresses = (node: number, clientPort: number, proxied: boolean) =>
    [`PLAINTEXT://127.0.0.1:${clientPort}`]
      .concat(listeners.map((name) => `${name}://127.0.0.1:${portOf(node, name, proxied)}`))
      .join(',');
  const wire = (node: number, clientPort: number): string[] => [
    `listeners=${addresses(node, clientPort, false)}`,
    `advertised.listeners=${addresses(node, clientPort, true)}`,
    'inter.broker.listener.name=INTERNAL',
    `listener.security.protocol.map=PLAINTEXT:PLAINTEXT,${listeners.map((name) => `${name}:PLAINTEXT`).join(',')}`,
    `controller.quorum.voters=${nodes.map((id) => `${id}@127.0.0.1:${portOf(id, 'CONTROLLER', true)}`).join(',')}`,
  ];
  const proxies: { node: number; listener: string; proxy: TestProxy }[] = [];
  for (const node of nodes)
    for (const listener of listeners) {
      const proxy = await startProxy(portOf(node, listener, false), portOf(node, listener, true));
      proxies.push({ node, listener, proxy });
    }
  const kafka = await startKafka({ nodes: 3, wire });
  return {
    kafka,
    observedUrl: `kafka://${nodes.map((node) => `127.0.0.1:${portOf(node, 'OBSERVED', true)}`).join(',')}`,
    split: (alone) => {
      for (const { node, listener, proxy } of proxies) {
        if (listener !== 'OBSERVED') proxy.sever((id) => (nodeOf(id) === alone) !== (node === alone));
        else if (node !== alone) proxy.sever();
      }
    },
    heal: () => {
      for (const { proxy } of proxies) proxy.heal();
    },
    stop: async () => {
      await kafka.stop();
      await Promise.all(proxies.map(({ proxy }) => proxy.close()));
    },
  };
}

/** Returns the node number in a client id such as `raft-client-1`, `broker-1-fetcher-0` or `1`. */
function nodeOf(clientId: string): number {
  return Number(/\d+/.exec(clientId)?.[0] ?? 0);
}
