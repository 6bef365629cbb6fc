/**
 * One process's view of the brokers: which broker leads which partition, and one shared connection per broker for short
 * requests. Tails and appenders use connections of their own, because a waiting fetch blocks all later requests. This file
 * does not retry requests, and waits no longer than a connection's time limits. Callers retry as their `RetryPolicy` says.
 */
import type { Dial, KafkaConnection, TopicMetadata, TopicPartition } from './connection.ts';
import { KafkaFault } from './errors.ts';
import type { KafkaFiles } from './files.ts';
import type { KafkaSettings } from './settings.ts';
import { TopicReadings } from './topic-readings.ts';

/** Age in ms at which metadata is requested again even if no error occurred. */
const metadataAgeMsMax = 10_000;
/** Node id that brokers return while a partition has no leader. */
const noLeader = -1;
/** Time in ms after the start from which requests do not wait for brokers, if none has ever accepted a connection. */
const unreachableAfterMs = 5000;

interface Address {
  readonly host: string;
  readonly port: number;
}

export interface Leader extends Address {
  readonly nodeId: number;
  /** Number of replicas of the partition, including the leader's. */
  readonly replicas: number;
  /** Brokers that hold the other replicas, as far as the metadata lists them. */
  readonly others: readonly Address[];
}

/** Number of other replicas that must name a leader, so that no other leader can have enough in-sync replicas. */
function witnessesNeeded(replicas: number): number {
  return replicas > 1 ? Math.max(1, replicas - 2) : 0;
}

const clusters = new Map<string, KafkaCluster>();

/** Returns the cluster that this process shares for these brokers and settings. Callers must call `use` and `release`. */
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

/** Parses `host:port`. An IPv6 host must be in brackets. */
function parseAddress(broker: string): Address {
  const colon = broker.lastIndexOf(':');
  const host = broker.slice(0, colon).replace(/^\[(.*)\]$/, '$1');
  return { host, port: Number(broker.slice(colon + 1)) };
}

export class KafkaCluster {
  /** Pending and passed checks of topics, by topic plan. */
  readonly checkedTopics = new Map<string, Promise<void>>();
  /** State of reading for all logs that this process has on these brokers. */
  readonly readings = new TopicReadings();
  /** Files that contain settings for connections to the brokers, if there are any. */
  readonly files: KafkaFiles | undefined;
  readonly #seeds: readonly Address[];
  readonly #dial: Dial;
  readonly #onUnused: () => void;
  readonly #connections = new Map<string, Promise<KafkaConnection>>();
  readonly #topics = new Map<string, { metadata: Promise<TopicMetadata>; atMs: number }>();
  /** Brokers in the last metadata. They are tried before the configured ones. */
  #brokers: readonly Address[] = [];
  /** Number of faults so far. It determines which broker the next request tries first. */
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

  /** Whether no broker has accepted a connection since the cluster was created some time ago. */
  get isUnreachable(): boolean {
    return !this.#reached && performance.now() - this.#sinceMs > unreachableAfterMs;
  }

  use(): void {
    this.#users++;
  }

  /** Ends one use of the cluster. After the last one, all shared connections are closed. */
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

  /** Returns a shared connection to the first broker that accepts one. Rejects with `KafkaFault`. */
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

  /** Returns the shared connection to this broker. Rejects with `KafkaFault`. */
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

  /** Opens a new connection to this broker, which the caller must destroy. Rejects with `KafkaFault`. */
  dial(address: Address): Promise<KafkaConnection> {
    return this.#dial(address);
  }

  /** Returns the metadata of a topic, which is at most 10 s old. Rejects with `KafkaFault`. */
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

  /** Drops a topic's metadata after an error, so that the next request asks for it again and starts with another broker. */
  invalidate(topic: string): void {
    this.#topics.delete(topic);
    this.#rotation++;
  }

  /** Returns the broker that leads a partition. Rejects with `KafkaFault`, also if the partition has no leader. */
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

  /** Resolves once enough of the other replicas, when asked, name the same leader. Rejects with `KafkaFault`. */
  async confirmLeader(leader: Leader, { topic, partition }: TopicPartition): Promise<void> {
    const witnesses = leader.others.map(async (address) => {
      const { partitions } = await (await this.connectionTo(address)).metadata(topic);
      const named = partitions.find(({ partitionId }) => partitionId === partition)?.leader;
      if (named !== leader.nodeId) throw new KafkaFault('LEADER_DISPUTED', { kind: 'answered' });
    });
    await awaitQuorum(witnesses, witnessesNeeded(leader.replicas));
  }

  /** Asks the other replicas who leads. Returns true if at least one names another broker and none names `leader`. */
  async isDeposed(leader: Leader, { topic, partition }: TopicPartition): Promise<boolean> {
    const asked = leader.others.map(async (address) => {
      const { partitions } = await (await this.connectionTo(address)).metadata(topic);
      return partitions.find(({ partitionId }) => partitionId === partition)?.leader ?? noLeader;
    });
    const named = await Promise.all(asked.map((answer) => answer.catch(() => noLeader)));
    return named.some((nodeId) => nodeId !== noLeader) && !named.includes(leader.nodeId);
  }
}

/** Resolves once enough witnesses agree, so that a slow broker does not delay the result if the others suffice. */
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
