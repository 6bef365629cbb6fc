/**
 * The log on Kafka, and the only file that knows kafkajs. It opens a partition as a ControlLog, and makes connections out
 * of kafkajs's broker, one socket each. Of kafkajs only the wire protocol is used: its consumer skips records after a
 * rebalance and resets an offset out of range without a word, its producer may acknowledge what is not in the log, and
 * its clusters reconnect and close at times of their own. Positions, retries and closing are decided in this folder.
 */
import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import Broker from 'kafkajs/src/broker/index.js';
import ConnectionPool from 'kafkajs/src/network/connectionPool.js';
import RequestQueue from 'kafkajs/src/network/requestQueue/index.js';
import requests from 'kafkajs/src/protocol/requests/index.js';
import type { ControlLog } from '../core/control-log.ts';
import { clusterOf } from './cluster.ts';
import type {
  Dial,
  FetchedPartition,
  FetchRequest,
  KafkaConnection,
  NewMessage,
  NewTopic,
  Place,
  TopicMetadata,
} from './connection.ts';
import { KafkaFault } from './errors.ts';
import { KafkaPartitionLog, type KafkaPartitionOptions } from './partition-log.ts';
import type { KafkaSettings } from './settings.ts';

/** Connecting, shaking hands and authenticating. */
const dialTimeoutMs = 3000;
/** Each answer; a fetch may take its waiting time longer. */
const requestTimeoutMs = 5000;
/** What the leader waits for its replicas, below our own patience, so that its answer is seen. */
const replicasTimeoutMs = 4000;
const metadataApiKey = 3;
const topicResource = 2;

// kafkajs arms this timer again each millisecond as long as a connection is open, whether or not anything waits.
RequestQueue.prototype.scheduleCheckPendingRequests = function (this: RequestQueue): void {
  if (this.throttleCheckTimeoutId || this.pending.length === 0) return;
  const delayMs = Math.max(this.throttledUntil - Date.now(), 10);
  this.throttleCheckTimeoutId = setTimeout(() => {
    this.throttleCheckTimeoutId = null;
    this.checkPendingRequests();
  }, delayMs);
};

/**
 * Opens one partition of a topic; creates the topic where it is missing and checks how it is set. Brokers that cannot be
 * reached are no error: the log opens, and everything asked of it rejects with LogUnavailable until they can be.
 * Rejects with TopicMisset (a LogUnavailable), and with LogUnavailable where the brokers do not let us in.
 */
export async function openKafkaLog(
  brokers: readonly string[],
  settings: KafkaSettings,
  options: KafkaPartitionOptions,
): Promise<ControlLog> {
  const cluster = clusterOf(brokers, settings, dialWith(settings));
  const log = new KafkaPartitionLog(cluster, options);
  try {
    await log.open();
    return log;
  } catch (error) {
    await log.close();
    throw error;
  }
}

/** Makes connections that speak as the settings say. */
export function dialWith(settings: KafkaSettings): Dial {
  // What a broker can do is asked once for each of them.
  const versions = new Map<string, object>();
  return async ({ host, port }) => {
    const connection = new KafkajsConnection(host, port, settings, versions.get(`${host}:${port}`) ?? null);
    await connection.connect();
    if (connection.versions) versions.set(`${host}:${port}`, connection.versions);
    return connection;
  };
}

const silent: KafkajsLogger = { namespace: () => silent, debug() {}, info() {}, warn() {}, error() {} };

class KafkajsConnection implements KafkaConnection {
  readonly #broker: Broker;
  readonly #pool: ConnectionPool;
  readonly #settings: KafkaSettings;
  readonly #waiting = new Set<(fault: KafkaFault) => void>();
  #socket: Socket | undefined;
  #lost = false;

  constructor(host: string, port: number, settings: KafkaSettings, versions: object | null) {
    this.#settings = settings;
    this.#pool = new ConnectionPool({
      host,
      port,
      clientId: 'headgate',
      ssl: null,
      // A copy: kafkajs writes into it what it made of the password.
      sasl: settings.sasl ? { ...settings.sasl } : null,
      logger: silent,
      connectionTimeout: dialTimeoutMs,
      requestTimeout: requestTimeoutMs,
      enforceRequestTimeout: false,
      socketFactory: (target) => this.#openSocket(target),
    });
    // The pool keeps a second socket for fetches and opens either of them again by itself: here one is all there is.
    this.#pool.getConnectionByRequest = () => {
      if (this.#lost) throw new KafkaFault('NOT_CONNECTED', { kind: 'unsent' });
      return this.#pool.getConnection(0);
    };
    this.#broker = new Broker({
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
      const ask = this.#broker.lookupRequest(metadataApiKey, requests.requests.Metadata);
      const request = ask({ topics: [topic], allowAutoTopicCreation: false });
      // An error of the topic is an answer to be looked at, not a failure to ask.
      const response = { ...request.response, parse: async (data: unknown) => data };
      return (await this.#pool.send({ ...request, response })) as KafkajsMetadata;
    });
    const found = topicMetadata.find((candidate) => candidate.topic === topic);
    return {
      brokers,
      partitions: found?.partitionMetadata ?? [],
      errorCode: found?.topicErrorCode ?? 3,
    };
  }

  async offset({ topic, partition }: Place, which: 'start' | 'end'): Promise<number> {
    const timestamp = which === 'start' ? -2 : -1;
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
    const { responses } = await this.#bounded(() => this.#broker.fetch(request), requestTimeoutMs + waitMs);
    return onlyOne(responses[0]?.partitions);
  }

  async produce({ topic, partition }: Place, messages: readonly NewMessage[]): Promise<number> {
    const topicData = [{ topic, partitions: [{ partition, messages }] }];
    const { topics } = await this.#bounded(() =>
      this.#broker.produce({ acks: -1, timeout: replicasTimeoutMs, topicData }),
    );
    return Number(onlyOne(topics[0]?.partitions).baseOffset);
  }

  async createTopic({ topic, partitions, replicas, settings }: NewTopic): Promise<void> {
    const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }));
    const wanted = { topic, numPartitions: partitions, replicationFactor: replicas, configEntries };
    await this.#bounded(() => this.#broker.createTopics({ topics: [wanted], timeout: replicasTimeoutMs }));
  }

  async topicSettings(topic: string): Promise<ReadonlyMap<string, string>> {
    // Without names, Kafka answers with every setting.
    const resources = [{ type: topicResource, name: topic, configNames: [] }];
    const answer = await this.#bounded(() => this.#broker.describeConfigs({ resources }));
    const entries = answer.resources[0]?.configEntries ?? [];
    return new Map(entries.map(({ configName, configValue }) => [configName, configValue ?? '']));
  }

  destroy(): void {
    this.#lose(new KafkaFault('CLOSED', { kind: 'lost' }));
  }

  #openSocket({ host, port, onConnect }: { host: string; port: number; onConnect: () => void }): Socket {
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
    for (const reject of [...this.#waiting]) reject(fault);
    // With an error, so that kafkajs forgets what waits, too.
    this.#socket?.destroy(new Error('the connection is given up'));
  }

  /** Settles in time, whatever the driver does. */
  #bounded<Answer>(ask: () => Promise<Answer>, timeoutMs = requestTimeoutMs): Promise<Answer> {
    if (this.#lost) return Promise.reject(new KafkaFault('NOT_CONNECTED', { kind: 'unsent' }));
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => this.#lose(new KafkaFault('TIMEOUT', { kind: 'lost' })), timeoutMs);
      const settle = () => {
        clearTimeout(late);
        this.#waiting.delete(fail);
      };
      const fail = (error: unknown) => {
        settle();
        reject(inOurWords(error));
      };
      this.#waiting.add(fail);
      ask().then((answer) => {
        settle();
        resolve(answer);
      }, fail);
    });
  }
}

interface KafkajsMetadata {
  readonly brokers: TopicMetadata['brokers'];
  readonly topicMetadata: readonly {
    readonly topic: string;
    readonly topicErrorCode: number;
    readonly partitionMetadata: TopicMetadata['partitions'];
  }[];
}

function onlyOne<Item>(items: readonly Item[] | undefined): Item {
  const item = items?.[0];
  if (item === undefined) throw new KafkaFault('EMPTY_ANSWER', { kind: 'lost' });
  return item;
}

/** kafkajs tells answers by their type, and says "Not connected" where it did not write. */
function inOurWords(error: unknown): KafkaFault {
  if (error instanceof KafkaFault) return error;
  if (!(error instanceof Error)) return new KafkaFault('UNKNOWN', { kind: 'lost', cause: error });
  const { name, message } = error;
  const inner = (error as { errors?: readonly Error[] }).errors?.[0];
  if (inner) return inOurWords(inner);
  if (name === 'KafkaJSSASLAuthenticationError')
    return new KafkaFault('SASL', { kind: 'unsent', cause: error });
  const { type, code } = error as { type?: unknown; code?: unknown };
  if (typeof type === 'string') return new KafkaFault(type, { kind: 'answered', cause: error });
  if (message === 'Not connected') return new KafkaFault('NOT_CONNECTED', { kind: 'unsent', cause: error });
  return new KafkaFault(typeof code === 'string' ? code : name, { kind: 'lost', cause: error });
}
