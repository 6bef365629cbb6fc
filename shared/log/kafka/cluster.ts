/**
 * Brokers as one process sees them: which broker leads which partition, and one shared connection per broker for short
 * requests. Tails and appenders have their own connections, because a waiting fetch blocks everything after it. Nothing here
 * retries or waits longer than a connection's time limits; the caller's RetryPolicy does.
 */
import type { Dial, KafkaConnection, TopicMetadata, TopicPartition } from './connection.ts';
import { KafkaFault } from './errors.ts';
import type { KafkaFiles } from './files.ts';
import type { KafkaSettings } from './settings.ts';
import { TopicReadings } from './topic-readings.ts';

/** Age in ms at which metadata is requested again, even without an error. */
const metadataAgeMsMax = 10_000;
/** Node ID that brokers return while a partition does not have a leader. */
const noLeader = -1;
/** Time in ms after the start at which requests no longer wait for brokers, if none has ever accepted a connection. */
const unreachableAfterMs = 5000;

interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Leader extends Address {
  readonly nodeId: number;
  /** Number of the partition's replicas, including the leader's. */
  readonly replicas: number;
  /** Brokers with the other replicas, as far as the metadata lists them. */
  readonly others: readonly Address[];
}

/** Returns how many other replicas must name the same leader, so that no other leader can have enough in-sync replicas. */
function witnessesNeeded(replicas: number): number {
  return replicas > 1 ? Math.max(1, replicas - 2) : 0;
}

const clusters = new Map<string, KafkaCluster>();

/** Returns this process's shared cluster for these brokers and settings. Users must call `use` and `release`. */
export function sharedCluster(
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

/** Parses `host:port`; an IPv6 host is in brackets. */
function parseAddress(broker: string): Address {
  const colon = broker.lastIndexOf(':');
  const host = broker.slice(0, colon).replace(/^\[(.*)\]$/, '$1');
  return { host, port: Number(broker.slice(colon + 1)) };
}

export class KafkaCluster {
  /** Topic checks by topic plan, pending or passed. */
  readonly checkedTopics = new Map<string, Promise<void>>();
  /** Readings of all logs that this process has on these brokers. */
  readonly readings = new TopicReadings();
  /** Files that settings come from, if any. */
  readonly files: KafkaFiles | undefined;
  readonly #seeds: readonly Address[];
  readonly #dial: Dial;
  readonly #onUnused: () => void;
  readonly #connections = new Map<string, Promise<KafkaConnection>>();
  readonly #topics = new Map<string, { metadata: Promise<TopicMetadata>; atMs: number }>();
  /** Brokers of the last metadata. They are tried first. */
  #brokers: readonly Address[] = [];
  /** Incremented after every fault, so that the next request tries another broker first. */
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

  /** Whether no broker has ever accepted a connection although the process started some time ago. */
  get isUnreachable(): boolean {
    return !this.#reached && performance.now() - this.#sinceMs > unreachableAfterMs;
  }

  use(): void {
    this.#users++;
  }

  /** Releases one use. The last release closes all shared connections. */
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

  /** Returns a shared connection to the first broker that accepts one. Rejects with KafkaFault. */
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

  /** Returns the shared connection to a broker. Rejects with KafkaFault. */
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

  /** Opens a new connection to a broker; the caller must destroy it. Rejects with KafkaFault. */
  dial(address: Address): Promise<KafkaConnection> {
    return this.#dial(address);
  }

  /** Returns a topic's metadata, at most 10 s old. Rejects with KafkaFault. */
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

  /** Drops the topic's metadata after any error, so that the next request asks a broker, beginning with another one. */
  invalidate(topic: string): void {
    this.#topics.delete(topic);
    this.#rotation++;
  }

  /** Returns the broker that leads a partition. Rejects with KafkaFault, also if there is no leader now. */
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

  /** Resolves once enough of the other replicas, asked now, name the same leader. Rejects with KafkaFault. */
  async confirmLeader(leader: Leader, { topic, partition }: TopicPartition): Promise<void> {
    const witnesses = leader.others.map(async (address) => {
      const { partitions } = await (await this.connectionTo(address)).metadata(topic);
      const named = partitions.find(({ partitionId }) => partitionId === partition)?.leader;
      if (named !== leader.nodeId) throw new KafkaFault('LEADER_DISPUTED', { kind: 'answered' });
    });
    await awaitQuorum(witnesses, witnessesNeeded(leader.replicas));
  }

  /** Asks the other replicas who leads. True if at least one names another leader and none names this one. */
  async isDeposed(leader: Leader, { topic, partition }: TopicPartition): Promise<boolean> {
    const asked = leader.others.map(async (address) => {
      const { partitions } = await (await this.connectionTo(address)).metadata(topic);
      return partitions.find(({ partitionId }) => partitionId === partition)?.leader ?? noLeader;
    });
    const named = await Promise.all(asked.map((answer) => answer.catch(() => noLeader)));
    return named.some((nodeId) => nodeId !== noLeader) && !named.includes(leader.nodeId);
  }
}

/** Resolves once the needed number of witnesses agree, so that a slow broker causes no delay if the others suffice. */
function awaitQuorum(witnesses: readonly Promise<void>[], needed: number): Promise<void> {
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
