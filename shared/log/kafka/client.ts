/**
 * The only file that uses kafkajs, including some of its private parts. It turns kafkajs's brokers into `KafkaConnections`
 * (`connection.ts`) with one socket each, and maps kafkajs's errors to `KafkaFault`. It uses only the wire protocol, because
 * kafkajs's consumer skips records after a rebalance, its producer may acknowledge records that are not in the log, and its
 * admin client fails if any topic has an error. Other files in this folder handle offsets, retries and closing.
 * `client.test.ts` fails if kafkajs changes.
 */
import { createRequire } from 'node:module';
import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { wallClockMs } from '../../runtime/clock.ts';
import type {
  Dial,
  FetchedPartition,
  FetchRequest,
  KafkaConnection,
  NewMessage,
  NewTopic,
  TopicMetadata,
  TopicPartition,
} from './connection.ts';
import { KafkaFault } from './errors.ts';
import { decodeFetchResponse, fetchVersions } from './fetch-response.ts';
import type { KafkaSettings } from './settings.ts';

/** Time limit in ms for connecting, including the handshake and authentication. */
const dialTimeoutMs = 3000;
/** Time limit in ms for each response. A fetch may additionally take its waiting time. */
const requestTimeoutMs = 5000;
/** Time in ms for which the leader waits for its replicas. Below `requestTimeoutMs`, so that its response arrives in time. */
const replicasTimeoutMs = 4000;
const metadataApiKey = 3;
const fetchApiKey = 1;
const topicResource = 2;

interface Logger {
  namespace(name: string): Logger;
  debug(): void;
  info(): void;
  warn(): void;
  error(): void;
}

interface RequestQueue {
  throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  readonly pending: readonly unknown[];
  checkPendingRequests(): void;
  scheduleCheckPendingRequests(): void;
}

interface ConnectionPool {
  readonly pool: readonly { readonly requestQueue: RequestQueue }[];
  getConnection(index: number): Promise<unknown>;
  getConnectionByRequest(request: unknown): Promise<unknown>;
  send(request: unknown): Promise<unknown>;
  isConnected(): boolean;
}

interface ConnectionPoolOptions {
  readonly host: string;
  readonly port: number;
  readonly clientId: string;
  readonly ssl: object | null;
  readonly sasl: object | null;
  readonly logger: Logger;
  readonly connectionTimeout: number;
  readonly requestTimeout: number;
  readonly enforceRequestTimeout: boolean;
  readonly socketFactory: (target: SocketTarget) => Socket;
}

interface SocketTarget {
  readonly host: string;
  readonly port: number;
  readonly onConnect: () => void;
}

interface Broker {
  readonly versions: object | null;
  connect(): Promise<void>;
  lookupRequest(apiKey: number, definition: unknown): (parameters: object) => { response: object };
  listOffsets(request: object): Promise<{ responses: readonly Partitions<{ offset: string }>[] }>;
  produce(request: object): Promise<{ topics: readonly Partitions<{ baseOffset: string }>[] }>;
  createTopics(request: object): Promise<unknown>;
  describeConfigs(
    request: object,
  ): Promise<{ resources: readonly { configEntries: readonly ConfigEntry[] }[] }>;
}

interface Partitions<Item> {
  readonly partitions: readonly Item[];
}

interface ConfigEntry {
  readonly configName: string;
  readonly configValue: string | null;
}

interface BrokerOptions {
  readonly connectionPool: ConnectionPool;
  readonly logger: Logger;
  readonly versions: object | null;
  readonly authenticationTimeout: number;
  readonly allowAutoTopicCreation: boolean;
}

const require = createRequire(import.meta.url);
const BrokerClass: new (options: BrokerOptions) => Broker = require('kafkajs/src/broker/index.js');
const ConnectionPoolClass: new (
  options: ConnectionPoolOptions,
) => ConnectionPool = require('kafkajs/src/network/connectionPool.js');
const protocol: {
  requests: {
    Metadata: unknown;
    Fetch: { protocol(options: { version: number }): (parameters: object) => { response: object } };
  };
} = require('kafkajs/src/protocol/requests/index.js');
const { createErrorFromCode }: { createErrorFromCode: (code: number) => Error } =
  require('kafkajs/src/protocol/error.js');

/** Returns a function that connects to brokers. If `current` is given, each connection uses the settings that it returns. */
export function createDial(settings: KafkaSettings, current = () => settings): Dial {
  // API versions by broker, so that each broker is asked only once.
  const versions = new Map<string, object>();
  return async ({ host, port }) => {
    const connection = new KafkajsConnection(host, port, current(), versions.get(`${host}:${port}`) ?? null);
    await connection.connect();
    if (connection.versions) versions.set(`${host}:${port}`, connection.versions);
    return connection;
  };
}

const silent: Logger = { namespace: () => silent, debug() {}, info() {}, warn() {}, error() {} };

class KafkajsConnection implements KafkaConnection {
  readonly #broker: Broker;
  readonly #pool: ConnectionPool;
  readonly #settings: KafkaSettings;
  readonly #pending = new Set<(fault: KafkaFault) => void>();
  #socket: Socket | undefined;
  #lost = false;

  constructor(host: string, port: number, settings: KafkaSettings, versions: object | null) {
    this.#settings = settings;
    this.#pool = new ConnectionPoolClass({
      host,
      port,
      clientId: 'headgate',
      ssl: null,
      // Pass a copy, because kafkajs stores values derived from the password in the object.
      sasl: settings.sasl ? { ...settings.sasl } : null,
      logger: silent,
      connectionTimeout: dialTimeoutMs,
      requestTimeout: requestTimeoutMs,
      enforceRequestTimeout: false,
      socketFactory: (target) => this.#openSocket(target),
    });
    // kafkajs would open a second socket for fetches, and reconnect both. This connection has one socket and ends with that
    // socket.
    this.#pool.getConnectionByRequest = () => {
      if (this.#lost) throw new KafkaFault('NOT_CONNECTED', { kind: 'unsent' });
      return this.#pool.getConnection(0);
    };
    for (const { requestQueue } of this.#pool.pool) scheduleOnlyPending(requestQueue);
    this.#broker = new BrokerClass({
      connectionPool: this.#pool,
      logger: silent,
      versions,
      authenticationTimeout: dialTimeoutMs,
      allowAutoTopicCreation: false,
    });
  }

  get versions(): object | null {
    return this.#broker.versions;
  }

  get fetchVersionMax(): number | undefined {
    return (this.versions as Readonly<Record<number, { readonly maxVersion: number }>> | null)?.[fetchApiKey]
      ?.maxVersion;
  }

  get isOpen(): boolean {
    return !this.#lost && this.#pool.isConnected();
  }

  async connect(): Promise<void> {
    try {
      await this.#bounded(() => this.#broker.connect(), dialTimeoutMs);
    } catch (error) {
      this.destroy();
      throw new KafkaFault(error instanceof KafkaFault ? error.type : 'UNKNOWN', {
        kind: 'unsent',
        cause: error,
      });
    }
  }

  async metadata(topic: string): Promise<TopicMetadata> {
    const { topicMetadata, brokers } = await this.#bounded(async () => {
      const encode = this.#broker.lookupRequest(metadataApiKey, protocol.requests.Metadata);
      const request = encode({ topics: [topic], allowAutoTopicCreation: false });
      // Prevents kafkajs from throwing a topic's error, because here the error is part of the result.
      const response = { ...request.response, parse: async (data: unknown) => data };
      return (await this.#pool.send({ ...request, response })) as MetadataResponse;
    });
    const found = topicMetadata.find((candidate) => candidate.topic === topic);
    return {
      brokers,
      partitions: found?.partitionMetadata ?? [],
      errorCode: found?.topicErrorCode ?? 3,
    };
  }

  offset(target: TopicPartition, which: 'start' | 'end'): Promise<number> {
    return this.#listOffset(target, which === 'start' ? -2 : -1);
  }

  async offsetAt(target: TopicPartition, atMs: number): Promise<number | undefined> {
    const offset = await this.#listOffset(target, Math.max(Math.floor(atMs), 0));
    return offset < 0 ? undefined : offset;
  }

  /** `timestamp` is in ms since 1970. The protocol defines -2 as the first offset and -1 as the end. */
  async #listOffset({ topic, partition }: TopicPartition, timestamp: number): Promise<number> {
    const topics = [{ topic, partitions: [{ partition, timestamp }] }];
    const { responses } = await this.#bounded(() =>
      this.#broker.listOffsets({ replicaId: -1, isolationLevel: 0, topics }),
    );
    return Number(onlyOne(responses[0]?.partitions).offset);
  }

  async fetch({ topic, partition, offset, waitMs, bytesMax }: FetchRequest): Promise<FetchedPartition> {
    const request = {
      maxWaitTime: waitMs,
      minBytes: 1,
      maxBytes: bytesMax,
      isolationLevel: 0,
      topics: [{ topic, partitions: [{ partition, fetchOffset: String(offset), maxBytes: bytesMax }] }],
    };
    const version = Math.min(this.fetchVersionMax ?? fetchVersions.max, fetchVersions.max);
    if (version < fetchVersions.min) throw new KafkaFault('UNSUPPORTED_VERSION', { kind: 'unsent' });
    const encoded = protocol.requests.Fetch.protocol({ version })(request);
    const response = {
      decode: async (bytes: Buffer) => decodeFetchResponse(bytes, version),
      parse: refuseError,
    };
    const send = () => this.#pool.send({ ...encoded, response }) as Promise<FetchedPartition>;
    return await this.#bounded(send, requestTimeoutMs + waitMs);
  }

  async produce({ topic, partition }: TopicPartition, messages: readonly NewMessage[]): Promise<number> {
    const topicData = [{ topic, partitions: [{ partition, messages }] }];
    const { topics } = await this.#bounded(() =>
      this.#broker.produce({ acks: -1, timeout: replicasTimeoutMs, topicData }),
    );
    return Number(onlyOne(topics[0]?.partitions).baseOffset);
  }

  async createTopic({ topic, partitions, replicas, settings }: NewTopic): Promise<void> {
    const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }));
    const request = { topic, numPartitions: partitions, replicationFactor: replicas, configEntries };
    await this.#bounded(() => this.#broker.createTopics({ topics: [request], timeout: replicasTimeoutMs }));
  }

  async topicSettings(topic: string): Promise<ReadonlyMap<string, string>> {
    // Omit the names of settings, so that Kafka returns all of them.
    const resources = [{ type: topicResource, name: topic, configNames: [] }];
    const response = await this.#bounded(() => this.#broker.describeConfigs({ resources }));
    const entries = response.resources[0]?.configEntries ?? [];
    return new Map(entries.map(({ configName, configValue }) => [configName, configValue ?? '']));
  }

  destroy(): void {
    this.#lose(new KafkaFault('CLOSED', { kind: 'lost' }));
  }

  #openSocket({ host, port, onConnect }: SocketTarget): Socket {
    const { tls } = this.#settings;
    const name = isIP(host) ? {} : { servername: host };
    const socket = tls
      ? connectTls({ host, port, ...name, ...tls }, onConnect)
      : connectPlain({ host, port }, onConnect);
    socket.setNoDelay(true);
    socket.setKeepAlive(true, 10_000);
    socket.once('close', () => this.#lose(new KafkaFault('CLOSED', { kind: 'lost' })));
    this.#socket = socket;
    return socket;
  }

  #lose(fault: KafkaFault): void {
    if (this.#lost) return;
    this.#lost = true;
    for (const reject of [...this.#pending]) reject(fault);
    // Pass an error, so that kafkajs also rejects its pending requests.
    this.#socket?.destroy(new Error('connection abandoned'));
  }

  /** Settles within the time limit, even if kafkajs never responds. */
  #bounded<Result>(request: () => Promise<Result>, timeoutMs = requestTimeoutMs): Promise<Result> {
    if (this.#lost) return Promise.reject(new KafkaFault('NOT_CONNECTED', { kind: 'unsent' }));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#lose(new KafkaFault('TIMEOUT', { kind: 'lost' })), timeoutMs);
      const settle = () => {
        clearTimeout(timer);
        this.#pending.delete(fail);
      };
      const fail = (error: unknown) => {
        settle();
        reject(mapKafkaError(error));
      };
      this.#pending.add(fail);
      request().then((result) => {
        settle();
        resolve(result);
      }, fail);
    });
  }
}

interface MetadataResponse {
  readonly brokers: TopicMetadata['brokers'];
  readonly topicMetadata: readonly {
    readonly topic: string;
    readonly topicErrorCode: number;
    readonly partitionMetadata: TopicMetadata['partitions'];
  }[];
}

/** Throws kafkajs's error for an error code, so that kafkajs treats it as an error of the broker. */
async function refuseError<Response extends { readonly errorCode: number }>(
  response: Response,
): Promise<Response> {
  if (response.errorCode !== 0) throw createErrorFromCode(response.errorCode);
  return response;
}

/** Replaces a kafkajs timer that runs every millisecond while a connection is open, even if no request is pending. */
function scheduleOnlyPending(queue: RequestQueue): void {
  queue.scheduleCheckPendingRequests = () => {
    if (queue.throttleCheckTimeoutId || queue.pending.length === 0) return;
    const delayMs = Math.max(queue.throttledUntil - wallClockMs(), 10);
    queue.throttleCheckTimeoutId = setTimeout(() => {
      queue.throttleCheckTimeoutId = null;
      queue.checkPendingRequests();
    }, delayMs);
  };
}

function onlyOne<Item>(items: readonly Item[] | undefined): Item {
  const item = items?.[0];
  if (item === undefined) throw new KafkaFault('EMPTY_RESPONSE', { kind: 'lost' });
  return item;
}

/** Maps an error of kafkajs to a `KafkaFault`. Broker errors have a `type`. "Not connected" means that nothing was sent. */
function mapKafkaError(error: unknown): KafkaFault {
  if (error instanceof KafkaFault) return error;
  if (!(error instanceof Error)) return new KafkaFault('UNKNOWN', { kind: 'lost', cause: error });
  const { name, message } = error;
  const { errors, partitions } = error as {
    readonly errors?: readonly Error[];
    readonly partitions?: readonly { readonly error?: Error }[];
  };
  const inner = errors?.[0] ?? partitions?.[0]?.error;
  if (inner) return mapKafkaError(inner);
  if (name === 'KafkaJSSASLAuthenticationError')
    return new KafkaFault('SASL', { kind: 'unsent', cause: error });
  const { type, code } = error as { type?: unknown; code?: unknown };
  if (typeof type === 'string') return new KafkaFault(type, { kind: 'answered', cause: error });
  if (message === 'Not connected') return new KafkaFault('NOT_CONNECTED', { kind: 'unsent', cause: error });
  return new KafkaFault(typeof code === 'string' ? code : name, { kind: 'lost', cause: error });
}
