/**
 * The one interface to a Kafka client: one connection to one broker. client.ts implements it; everything else of the log
 * knows only this. A connection never reconnects and never repeats a request: once it is lost, each request on it fails,
 * and its user opens another. Every request has a time-out, after which the connection is closed.
 */

/** One broker or replica set member as the cluster names it. */
export interface KafkaNode {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
}

export interface PartitionMetadata {
  readonly partitionId: number;
  /** The broker that accepts writes; -1 while there is none. */
  readonly leader: number;
  readonly replicas: readonly number[];
}

export interface TopicMetadata {
  readonly brokers: readonly KafkaNode[];
  /** Empty where the topic does not exist. */
  readonly partitions: readonly PartitionMetadata[];
  /** Kafka's error code for the topic; 0 where there is none, 3 where it does not exist. */
  readonly errorCode: number;
}

export interface FetchedPartition {
  /** Offset after the last record that readers may see. */
  readonly highWatermark: number;
  /** Offset of the first record that is kept. */
  readonly startOffset: number;
  /** Record batches as Kafka stores them; the last one may be cut off. */
  readonly recordSet: Buffer;
}

export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

export interface FetchRequest extends TopicPartition {
  readonly offset: number;
  /** How long the broker may delay its response while there is no new record. */
  readonly waitMs: number;
  /** The first batch of records is always complete, also where it is larger. */
  readonly bytesMax: number;
}

export interface NewMessage {
  readonly value: Buffer;
  readonly headers: Readonly<Record<string, Buffer>>;
}

export interface NewTopic {
  readonly topic: string;
  readonly partitions: number;
  readonly replicas: number;
  readonly settings: Readonly<Record<string, string>>;
}

/** Every request rejects with KafkaFault. */
export interface KafkaConnection {
  readonly isOpen: boolean;
  /** The largest version of a fetch that the broker knows, which shows its release. */
  readonly fetchVersionMax: number | undefined;
  metadata(topic: string): Promise<TopicMetadata>;
  /** Offset of the first record kept (`start`), or the offset after the last record readers may see (`end`). */
  offset(target: TopicPartition, which: 'start' | 'end'): Promise<number>;
  /** The offset of the first record from this time (ms since 1970) on; undefined where there is none. */
  offsetAt(target: TopicPartition, atMs: number): Promise<number | undefined>;
  fetch(request: FetchRequest): Promise<FetchedPartition>;
  /** Resolves with the offset of the first message once all in-sync replicas have them. Never repeats the request. */
  produce(target: TopicPartition, messages: readonly NewMessage[]): Promise<number>;
  createTopic(topic: NewTopic): Promise<void>;
  /** The effective settings of a topic, its own and the brokers'. */
  topicSettings(topic: string): Promise<ReadonlyMap<string, string>>;
  /** Closes the connection at once; pending requests on it are rejected. Idempotent. */
  destroy(): void;
}

/** Connects and authenticates. Rejects with an unsent KafkaFault within a few seconds. */
export type Dial = (address: { readonly host: string; readonly port: number }) => Promise<KafkaConnection>;
