/**
 * Interface to one connection to one Kafka broker, implemented by `client.ts`. A connection never reconnects or repeats a
 * request. Once it is lost, every request fails. Every request has a time limit, after which the connection is closed.
 */

/** Id and address of a broker, as the cluster reports them. */
export interface KafkaNode {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
}

export interface PartitionMetadata {
  readonly partitionId: number;
  /** Node id of the broker that accepts writes. -1 while there is none. */
  readonly leader: number;
  readonly replicas: readonly number[];
}

export interface TopicMetadata {
  readonly brokers: readonly KafkaNode[];
  /** Partitions of the topic. Empty if the topic does not exist. */
  readonly partitions: readonly PartitionMetadata[];
  /** Kafka's error code for the topic. 0 means no error, and 3 that the topic does not exist. */
  readonly errorCode: number;
}

export interface FetchedPartition {
  /** Offset after the last record that readers may see. */
  readonly highWatermark: number;
  /** Offset of the first remaining record. */
  readonly startOffset: number;
  /** Record batches in Kafka's format. The last one may be truncated. */
  readonly recordSet: Buffer;
}

export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}

export interface FetchRequest extends TopicPartition {
  readonly offset: number;
  /** Time in ms for which the broker may delay its response if there are no new records. */
  readonly waitMs: number;
  /** Size limit of the response. The first record batch is always complete, even if it is larger. */
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

/** A connection to a single broker. Requests reject with `KafkaFault`. */
export interface KafkaConnection {
  readonly isOpen: boolean;
  /** Latest fetch version that the broker supports, which reveals its release. */
  readonly fetchVersionMax: number | undefined;
  metadata(topic: string): Promise<TopicMetadata>;
  /** Returns the offset of the first remaining record (`start`), or the one after the last visible record (`end`). */
  offset(target: TopicPartition, which: 'start' | 'end'): Promise<number>;
  /** Returns the offset of the first record at or after this time (ms since 1970), or undefined if there is none. */
  offsetAt(target: TopicPartition, atMs: number): Promise<number | undefined>;
  fetch(request: FetchRequest): Promise<FetchedPartition>;
  /** Resolves to the first message's offset once all in-sync replicas have the messages. Never repeats the request. */
  produce(target: TopicPartition, messages: readonly NewMessage[]): Promise<number>;
  createTopic(topic: NewTopic): Promise<void>;
  /** Returns the settings that apply to a topic, whether set on the topic or on the brokers. */
  topicSettings(topic: string): Promise<ReadonlyMap<string, string>>;
  /** Closes the connection immediately and rejects its pending requests. Further calls have no effect. */
  destroy(): void;
}

/** Connects and authenticates. Rejects with a `KafkaFault` of kind `unsent` within a few seconds. */
export type Dial = (address: { readonly host: string; readonly port: number }) => Promise<KafkaConnection>;
