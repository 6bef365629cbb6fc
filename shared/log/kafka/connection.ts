/**
 * What the Kafka log asks of one connection to one broker, in its own words. kafka-log.ts makes such connections;
 * everything else of the log knows only this. A connection never reconnects and never asks twice: once it is lost, each
 * request on it fails, and its user takes another. Every request is bounded in time, and the connection dies of a late one.
 */

/** One broker or replica set member as the cluster names it. */
export interface KafkaNode {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
}

export interface PartitionMetadata {
  readonly partitionId: number;
  /** The node that takes writes; -1 while there is none. */
  readonly leader: number;
  readonly replicas: readonly number[];
}

export interface TopicMetadata {
  readonly brokers: readonly KafkaNode[];
  /** Empty where the topic does not exist. */
  readonly partitions: readonly PartitionMetadata[];
  /** Kafka's error code for the topic; 0 where it is well, 3 where it does not exist. */
  readonly errorCode: number;
}

export interface FetchedMessage {
  readonly offset: string;
  /** ms since 1970. */
  readonly timestamp: string;
  readonly value: Buffer | null;
  readonly headers?: Readonly<Record<string, Buffer | string | readonly (Buffer | string)[] | undefined>>;
  readonly isControlRecord?: boolean;
}

export interface FetchedPartition {
  /** Offset behind the last record that readers may see. */
  readonly highWatermark: string;
  /** Offset of the first record that is kept. */
  readonly lastStartOffset: string;
  readonly messages: readonly FetchedMessage[];
}

export interface Place {
  readonly topic: string;
  readonly partition: number;
}

export interface FetchRequest extends Place {
  readonly offset: number;
  /** How long the broker may hold the answer back while there is nothing new. */
  readonly waitMs: number;
  /** At least one batch of records comes whatever its size. */
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
  metadata(topic: string): Promise<TopicMetadata>;
  /** Offset of the first record kept (`start`), or the one behind the last record readers may see (`end`). */
  offset(place: Place, which: 'start' | 'end'): Promise<number>;
  fetch(request: FetchRequest): Promise<FetchedPartition>;
  /** Resolves with the offset of the first message once all in-sync replicas have them. Never asks twice. */
  produce(place: Place, messages: readonly NewMessage[]): Promise<number>;
  createTopic(topic: NewTopic): Promise<void>;
  /** The settings in force for a topic, its own and the brokers'. */
  topicSettings(topic: string): Promise<ReadonlyMap<string, string>>;
  /** Ends the connection at once; what waits on it is rejected. Idempotent. */
  destroy(): void;
}

/** Connects and authenticates. Rejects with an unsent KafkaFault within a few seconds. */
export type Dial = (address: { readonly host: string; readonly port: number }) => Promise<KafkaConnection>;
