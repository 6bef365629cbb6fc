/**
 * The parts of kafkajs that the Kafka log uses and that kafkajs does not describe itself: its broker, its pool of
 * connections and its queue of requests. They are internals; package.json pins kafkajs to the version described here.
 */
interface KafkajsLogger {
  namespace(name: string): KafkajsLogger;
  debug(): void;
  info(): void;
  warn(): void;
  error(): void;
}

interface KafkajsSingleConnection {
  isConnected(): boolean;
}

declare module 'kafkajs/src/network/connectionPool.js' {
  class ConnectionPool {
    constructor(options: {
      host: string;
      port: number;
      clientId: string;
      ssl: object | null;
      sasl: object | null;
      logger: KafkajsLogger;
      connectionTimeout: number;
      requestTimeout: number;
      enforceRequestTimeout: boolean;
      socketFactory: (target: {
        host: string;
        port: number;
        onConnect: () => void;
      }) => import('node:net').Socket;
    });
    getConnection(index?: number): Promise<KafkajsSingleConnection>;
    getConnectionByRequest(request: unknown): Promise<KafkajsSingleConnection>;
    send(request: unknown): Promise<unknown>;
    isConnected(): boolean;
  }
  export = ConnectionPool;
}

declare module 'kafkajs/src/broker/index.js' {
  class Broker {
    constructor(options: {
      connectionPool: import('kafkajs/src/network/connectionPool.js');
      logger: KafkajsLogger;
      versions: object | null;
      authenticationTimeout: number;
      allowAutoTopicCreation: boolean;
    });
    versions: object | null;
    connect(): Promise<void>;
    lookupRequest(apiKey: number, definition: unknown): (parameters: object) => { response: object };
    listOffsets(request: object): Promise<{
      responses: readonly { partitions: readonly { offset: string }[] }[];
    }>;
    fetch(request: object): Promise<{
      responses: readonly {
        partitions: readonly import('./connection.ts').FetchedPartition[];
      }[];
    }>;
    produce(request: object): Promise<{
      topics: readonly { partitions: readonly { baseOffset: string }[] }[];
    }>;
    createTopics(request: object): Promise<unknown>;
    describeConfigs(request: object): Promise<{
      resources: readonly {
        configEntries: readonly { configName: string; configValue: string | null }[];
      }[];
    }>;
  }
  export = Broker;
}

declare module 'kafkajs/src/network/requestQueue/index.js' {
  class RequestQueue {
    throttledUntil: number;
    throttleCheckTimeoutId: NodeJS.Timeout | null;
    pending: readonly unknown[];
    checkPendingRequests(): void;
    scheduleCheckPendingRequests(): void;
  }
  export = RequestQueue;
}

declare module 'kafkajs/src/protocol/requests/index.js' {
  const requests: { requests: { Metadata: unknown } };
  export = requests;
}
