/**
 * Interface to a Kafka client: one connection to one broker, which client.ts implements. A connection never reconnects or
 * repeats a request: once it is lost, every request fails. Every request has a time limit, after which the connection is
 * closed.
 */

/** A broker as the cluster names it. */
export interface KafkaNode {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
}

export interface PartitionMetadata {
  readonly partitionId: number;
  /** Broker that accepts writes; -1 while there is none. */
  readonly leader: number;
  readonly replicas: readonly number[];
}

export interface TopicMetadata {
  readonly brokers: readonly KafkaNode[];
  /** Empty if the topic does not exist. */
  readonly partitions: readonly PartitionMetadata[];
  /** Kafka's error code for the topic: 0 for none, 3 if the topic does not exist. */
  readonly errorCode: number;
}

export interface FetchedPartition {
  /** Offset after the last record that readers may see. */
  readonly highWatermark: number;
  /** Offset of the first record kept. */
  readonly startOffset: number;
  /** Record batches in Kafka's format. The last one may be cut off. */
  readonly recordSet: Buffer;
}

export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

export interface FetchRequest extends TopicPartition {
  readonly offset: number;
  /** Time in ms for which the broker may delay its response while there is no new record. */
  readonly waitMs: number;
  /** Size limit. The first record batch is always complete, even if it is larger. */
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

/** A connection to a single broker. Every request rejects with KafkaFault. */
export interface KafkaConnection {
  readonly isOpen: boolean;
  /** Latest fetch version that the broker knows. It reveals the broker's release. */
  readonly fetchVersionMax: number | undefined;
  metadata(topic: string): Promise<TopicMetadata>;
  /** Returns the offset of the first record kept (`start`) or after the last record that readers may see (`end`). */
  offset(target: TopicPartition, which: 'start' | 'end'): Promise<number>;
  /** Returns the offset of the first record at or after this time (ms since 1970); undefined if there is none. */
  offsetAt(target: TopicPartition, atMs: number): Promise<number | undefined>;
  fetch(request: FetchRequest): Promise<FetchedPartition>;
  /** Resolves with the first message's offset once all in-sync replicas have the messages. Never repeats the request. */
  produce(target: TopicPartition, messages: readonly NewMessage[]): Promise<number>;
  createTopic(topic: NewTopic): Promise<void>;
  /** Returns a topic's effective settings, from the topic or the brokers. */
  topicSettings(topic: string): Promise<ReadonlyMap<string, string>>;
  /** Closes the connection at once and rejects its pending requests. Idempotent. */
  destroy(): void;
}

/** Connects and authenticates. Rejects with an unsent KafkaFault within a few seconds. */
export type Dial = (address: { readonly host: string; readonly port: number }) => Promise<KafkaConnection>;
