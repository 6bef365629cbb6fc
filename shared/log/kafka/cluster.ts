/**
 * The brokers as one process sees them: which broker leads which partition, and one connection to each broker for short
 * requests, shared by all logs of the process. Tails and appenders have connections of their own, because a broker
 * responds in order on each connection, and a waiting fetch would block everything after it.
 * Nothing here retries or waits longer than a connection's own time-outs; the caller's RetryPolicy does.
 */
import type { Dial, KafkaConnection, TopicMetadata, TopicPartition } from './connection.ts';
import { KafkaFault } from './errors.ts';
import type { KafkaFiles } from './files.ts';
import type { KafkaSettings } from './settings.ts';
import { TopicReadings } from './topic-readings.ts';

/** Metadata is requested again after this long, also without an error. */
const metadataAgeMsMax = 10_000;
/** Node id that brokers return while a partition has no leader. */
const noLeader = -1;
/** Where no broker has accepted a connection for this long since the start, requests no longer wait for one. */
const unreachableAfterMs = 5000;

interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Leader extends Address {
  readonly nodeId: number;
  /** How many replicas the partition has. */
  readonly replicas: number;
  /** The brokers with the other replicas, as far as the metadata lists them. */
  readonly others: readonly Address[];
}

/**
 * How many of the other replicas must name the same leader. Another leader would need two replicas in sync (one, where
 * there are two in all), so at least one of the replicas that respond here would name it.
 */
function witnessesNeeded(replicas: number): number {
  return replicas > 1 ? Math.max(1, replicas - 2) : 0;
}

const clusters = new Map<string, KafkaCluster>();

/** The one cluster of this process for these brokers and settings. Its users call `use` and `release`. */
export function clusterOf(
  brokers: readonly string[],
  settings: KafkaSettings,
  dial: Dial,
  files?: KafkaFiles,
): KafkaCluster {
  const name = JSON.stringify([brokers, settings]);
  const known = clusters.get(name);
  if (known) return known;
  const cluster = new KafkaCluster(brokers.map(parseAddress), dial, () => clusters.delete(name), files);
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
  /** Checks of topics, pending or passed, by topic plan. */
  readonly checkedTopics = new Map<string, Promise<void>>();
  /** Of all logs of this process on these brokers. */
  readonly readings = new TopicReadings();
  /** Of the settings, where some come from files. */
  readonly files: KafkaFiles | undefined;
  readonly #seeds: readonly Address[];
  readonly #dial: Dial;
  readonly #onUnused: () => void;
  readonly #connections = new Map<string, Promise<KafkaConnection>>();
  readonly #topics = new Map<string, { metadata: Promise<TopicMetadata>; atMs: number }>();
  /** Brokers to try first: those of the last metadata. */
  #brokers: readonly Address[] = [];
  /** Incremented at every fault, so that the next request tries another broker first. */
  #rotation = 0;
  #users = 0;
  #released = false;
  #reached = false;
  readonly #sinceMs = performance.now();

  constructor(seeds: readonly Address[], dial: Dial, onUnused: () => void, files?: KafkaFiles) {
    this.#seeds = seeds;
    this.files = files;
    this.#dial = async (address) => {
      const connection = await dial(address);
      this.#reached = true;
      return connection;
    };
    this.#onUnused = onUnused;
  }

  /** No broker has accepted a connection since the start, which was some time ago. */
  get isUnreachable(): boolean {
    return !this.#reached && performance.now() - this.#sinceMs > unreachableAfterMs;
  }

  use(): void {
    this.#users++;
  }

  /** The last user's release closes all shared connections. */
  release(): void {
    this.#users--;
    if (this.#users > 0 || this.#released) return;
    this.#released = true;
    this.#onUnused();
    for (const connection of this.#connections.values())
      connection.then(
        (open) => open.destroy(),
        () => undefined,
      );
    this.#connections.clear();
  }

  /** A shared connection to the first broker that accepts one. Rejects with KafkaFault. */
  async anyBroker(): Promise<KafkaConnection> {
    let fault: unknown = new KafkaFault('NO_BROKER', { kind: 'unsent' });
    const tried = new Set<string>();
    const rotation = this.#rotation % Math.max(this.#brokers.length, 1);
    for (const address of [
      ...this.#brokers.slice(rotation),
      ...this.#brokers.slice(0, rotation),
      ...this.#seeds,
    ]) {
      const name = `${address.host}:${address.port}`;
      if (tried.has(name)) continue;
      tried.add(name);
      try {
        return await this.connectionTo(address);
      } catch (error) {
        fault = error;
      }
    }
    throw fault;
  }

  /** The shared connection to a broker. Rejects with KafkaFault. */
  async connectionTo(address: Address): Promise<KafkaConnection> {
    const name = `${address.host}:${address.port}`;
    const shared = this.#connections.get(name);
    if (shared !== undefined) {
      const connection = await shared;
      if (connection.isOpen) return connection;
      if (this.#connections.get(name) === shared) this.#connections.delete(name);
      return this.connectionTo(address);
    }
    if (this.#released) throw new KafkaFault('CLOSED', { kind: 'unsent' });
    const dialling = this.#dial(address);
    this.#connections.set(name, dialling);
    try {
      return await dialling;
    } catch (error) {
      if (this.#connections.get(name) === dialling) this.#connections.delete(name);
      throw error;
    }
  }

  /** A new connection to a broker, which its user destroys. Rejects with KafkaFault. */
  dial(address: Address): Promise<KafkaConnection> {
    return this.#dial(address);
  }

  /** The metadata of a topic, at most 10 s old. Rejects with KafkaFault. */
  async metadata(topic: string): Promise<TopicMetadata> {
    const known = this.#topics.get(topic);
    if (known && performance.now() - known.atMs < metadataAgeMsMax) return await known.metadata;
    const requested = { metadata: this.#requestMetadata(topic), atMs: performance.now() };
    this.#topics.set(topic, requested);
    try {
      return await requested.metadata;
    } catch (error) {
      if (this.#topics.get(topic) === requested) this.#topics.delete(topic);
      throw error;
    }
  }

  async #requestMetadata(topic: string): Promise<TopicMetadata> {
    const connection = await this.anyBroker();
    const metadata = await connection.metadata(topic);
    this.#brokers = [...metadata.brokers].sort((a, b) => a.nodeId - b.nodeId);
    return metadata;
  }

  /** The next request for metadata reaches a broker, and another one first; call after any error. */
  invalidate(topic: string): void {
    this.#topics.delete(topic);
    this.#rotation++;
  }

  /** The broker that leads a partition. Rejects with KafkaFault, also where there is no leader now. */
  async leader({ topic, partition }: TopicPartition): Promise<Leader> {
    const { brokers, partitions, errorCode } = await this.metadata(topic);
    const found = partitions.find(({ partitionId }) => partitionId === partition);
    const broker = brokers.find(({ nodeId }) => nodeId === found?.leader);
    if (found && broker) {
      const others = brokers.filter(
        ({ nodeId }) => nodeId !== broker.nodeId && found.replicas.includes(nodeId),
      );
      return { ...broker, replicas: found.replicas.length, others };
    }
    this.invalidate(topic);
    const missing = errorCode === 3 || (errorCode === 0 && !found);
    throw new KafkaFault(missing ? 'UNKNOWN_TOPIC_OR_PARTITION' : 'LEADER_NOT_AVAILABLE', {
      kind: 'answered',
    });
  }

  /** Resolves once enough of the other replicas, in a request sent now, name the same leader. Rejects with KafkaFault. */
  async confirmLeader(leader: Leader, { topic, partition }: TopicPartition): Promise<void> {
    const witnesses = leader.others.map(async (address) => {
      const { partitions } = await (await this.connectionTo(address)).metadata(topic);
      const named = partitions.find(({ partitionId }) => partitionId === partition)?.leader;
      if (named !== leader.nodeId) throw new KafkaFault('LEADER_DISPUTED', { kind: 'answered' });
    });
    await quorumOf(witnesses, witnessesNeeded(leader.replicas));
  }

  /** Asks the other replicas who leads. True if at least one names another leader, and none names this one. */
  async isDeposed(leader: Leader, { topic, partition }: TopicPartition): Promise<boolean> {
    const asked = leader.others.map(async (address) => {
      const { partitions } = await (await this.connectionTo(address)).metadata(topic);
      return partitions.find(({ partitionId }) => partitionId === partition)?.leader ?? noLeader;
    });
    const named = await Promise.all(asked.map((answer) => answer.catch(() => noLeader)));
    return named.some((nodeId) => nodeId !== noLeader) && !named.includes(leader.nodeId);
  }
}

/** Resolves as soon as that many have; a slow or unreachable broker delays nothing where the others are enough. */
function quorumOf(witnesses: readonly Promise<void>[], needed: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let agreed = 0;
    let failed = 0;
    if (needed === 0) resolve();
    if (witnesses.length < needed) reject(new KafkaFault('NO_SECOND_BROKER', { kind: 'unsent' }));
    for (const witness of witnesses)
      witness.then(
        () => ++agreed === needed && resolve(),
        (error: unknown) => ++failed > witnesses.length - needed && reject(error),
      );
  });
}
