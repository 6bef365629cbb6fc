/**
 * The brokers as one process sees them: who leads which partition, and one connection to each broker for short questions,
 * shared by all logs of the process. Tails and writers take connections of their own, because a broker answers the
 * requests of one connection in order, and a waiting fetch would hold up all behind it.
 * Nothing here retries or waits beyond a connection's own bounds; who asks decides how long it is worth it.
 */
import type { Dial, KafkaConnection, Place, TopicMetadata } from './connection.ts';
import { KafkaFault } from './errors.ts';
import type { KafkaSettings } from './settings.ts';

/** Who leads what is asked again after this long, though no error said so. */
const metadataAgeMsMax = 10_000;
/** Brokers none of which took a connection for so long since the start are not waited for again and again. */
const awayMs = 5000;

interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Leader extends Address {
  readonly nodeId: number;
  /** How many replicas the partition has. */
  readonly replicas: number;
  /** The brokers that hold the other replicas, as far as they are known to be there. */
  readonly others: readonly Address[];
}

/**
 * How many of the other replicas must name the same leader. Whoever leads without this one needs two replicas in sync
 * (one, where there are two in all), and at least one of them is among those asked and knows its new leader.
 */
function witnessesNeeded(replicas: number): number {
  return replicas > 1 ? Math.max(1, replicas - 2) : 0;
}

const clusters = new Map<string, KafkaCluster>();

/** The one cluster of this process for these brokers and settings. Its users call `use` and `release`. */
export function clusterOf(brokers: readonly string[], settings: KafkaSettings, dial: Dial): KafkaCluster {
  const name = JSON.stringify([brokers, settings]);
  const known = clusters.get(name);
  if (known) return known;
  const cluster = new KafkaCluster(brokers.map(parseAddress), dial, () => clusters.delete(name));
  clusters.set(name, cluster);
  return cluster;
}

/** `host:port`, an IPv6 host in brackets. */
function parseAddress(broker: string): Address {
  const colon = broker.lastIndexOf(':');
  const host = broker.slice(0, colon).replace(/^\[(.*)\]$/, '$1');
  return { host, port: Number(broker.slice(colon + 1)) };
}

export class KafkaCluster {
  /** Checks of topics under way or passed, by what was wanted of the topic. */
  readonly checkedTopics = new Map<string, Promise<void>>();
  readonly #seeds: readonly Address[];
  readonly #dial: Dial;
  readonly #onUnused: () => void;
  readonly #asking = new Map<string, Promise<KafkaConnection>>();
  readonly #topics = new Map<string, { metadata: Promise<TopicMetadata>; atMs: number }>();
  /** Brokers to ask first: the last that answered. */
  #known: readonly Address[] = [];
  /** Grows with every fault, so that the next question goes to another broker first. */
  #turn = 0;
  #users = 0;
  #released = false;
  #reached = false;
  readonly #sinceMs = performance.now();

  constructor(seeds: readonly Address[], dial: Dial, onUnused: () => void) {
    this.#seeds = seeds;
    this.#dial = async (address) => {
      const connection = await dial(address);
      this.#reached = true;
      return connection;
    };
    this.#onUnused = onUnused;
  }

  /** No broker has taken a connection since the process began, and it has been tried for a while. */
  get isAway(): boolean {
    return !this.#reached && performance.now() - this.#sinceMs > awayMs;
  }

  use(): void {
    this.#users++;
  }

  /** The last user takes all connections with it. */
  release(): void {
    this.#users--;
    if (this.#users > 0 || this.#released) return;
    this.#released = true;
    this.#onUnused();
    for (const connection of this.#asking.values())
      connection.then(
        (made) => made.destroy(),
        () => undefined,
      );
    this.#asking.clear();
  }

  /** Asks whichever broker answers. Rejects with KafkaFault. */
  async anyBroker(): Promise<KafkaConnection> {
    let fault: unknown = new KafkaFault('NO_BROKER', { kind: 'unsent' });
    const tried = new Set<string>();
    const turn = this.#turn % Math.max(this.#known.length, 1);
    for (const address of [...this.#known.slice(turn), ...this.#known.slice(0, turn), ...this.#seeds]) {
      const name = `${address.host}:${address.port}`;
      if (tried.has(name)) continue;
      tried.add(name);
      try {
        return await this.ask(address);
      } catch (error) {
        fault = error;
      }
    }
    throw fault;
  }

  /** The shared connection to a broker. Rejects with KafkaFault. */
  async ask(address: Address): Promise<KafkaConnection> {
    const name = `${address.host}:${address.port}`;
    const made = this.#asking.get(name);
    if (made !== undefined) {
      const connection = await made;
      if (connection.isOpen) return connection;
      if (this.#asking.get(name) === made) this.#asking.delete(name);
      return this.ask(address);
    }
    if (this.#released) throw new KafkaFault('CLOSED', { kind: 'unsent' });
    const making = this.#dial(address);
    this.#asking.set(name, making);
    try {
      return await making;
    } catch (error) {
      if (this.#asking.get(name) === making) this.#asking.delete(name);
      throw error;
    }
  }

  /** A new connection to a broker, which its user destroys. Rejects with KafkaFault. */
  dial(address: Address): Promise<KafkaConnection> {
    return this.#dial(address);
  }

  /** What the brokers say of a topic, at most 10 s old. Rejects with KafkaFault. */
  async metadata(topic: string): Promise<TopicMetadata> {
    const known = this.#topics.get(topic);
    if (known && performance.now() - known.atMs < metadataAgeMsMax) return await known.metadata;
    const asked = { metadata: this.#askMetadata(topic), atMs: performance.now() };
    this.#topics.set(topic, asked);
    try {
      return await asked.metadata;
    } catch (error) {
      if (this.#topics.get(topic) === asked) this.#topics.delete(topic);
      throw error;
    }
  }

  async #askMetadata(topic: string): Promise<TopicMetadata> {
    const connection = await this.anyBroker();
    const metadata = await connection.metadata(topic);
    this.#known = [...metadata.brokers].sort((a, b) => a.nodeId - b.nodeId);
    return metadata;
  }

  /** Asks anew the next time, and another broker first; called after any error. */
  forget(topic: string): void {
    this.#topics.delete(topic);
    this.#turn++;
  }

  /** Rejects with KafkaFault, also where there is no leader now. */
  async leader({ topic, partition }: Place): Promise<Leader> {
    const { brokers, partitions, errorCode } = await this.metadata(topic);
    const found = partitions.find(({ partitionId }) => partitionId === partition);
    const broker = brokers.find(({ nodeId }) => nodeId === found?.leader);
    if (found && broker) {
      const others = brokers.filter(
        ({ nodeId }) => nodeId !== broker.nodeId && found.replicas.includes(nodeId),
      );
      return { ...broker, replicas: found.replicas.length, others };
    }
    this.forget(topic);
    const missing = errorCode === 3 || (errorCode === 0 && !found);
    throw new KafkaFault(missing ? 'UNKNOWN_TOPIC_OR_PARTITION' : 'LEADER_NOT_AVAILABLE', {
      kind: 'answered',
    });
  }

  /** Resolves once enough of the other replicas, asked now, name the same leader. Rejects with KafkaFault. */
  async confirm(leader: Leader, { topic, partition }: Place): Promise<void> {
    const asked = leader.others.map(async (address) => {
      const { partitions } = await (await this.ask(address)).metadata(topic);
      const named = partitions.find(({ partitionId }) => partitionId === partition)?.leader;
      if (named !== leader.nodeId) throw new KafkaFault('LEADER_DISPUTED', { kind: 'answered' });
    });
    await enoughOf(asked, witnessesNeeded(leader.replicas));
  }
}

/** Resolves as soon as that many have; a broker that is slow or away holds nothing up where the others will do. */
function enoughOf(asked: readonly Promise<void>[], needed: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let agreed = 0;
    let failed = 0;
    if (needed === 0) resolve();
    if (asked.length < needed) reject(new KafkaFault('NO_SECOND_BROKER', { kind: 'unsent' }));
    for (const one of asked)
      one.then(
        () => ++agreed === needed && resolve(),
        (error: unknown) => ++failed > asked.length - needed && reject(error),
      );
  });
}
