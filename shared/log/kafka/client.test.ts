/**
 * Tests the private files of kafkajs that `client.ts` uses. The tests fail if kafkajs's version, its pin or the form of these
 * files changes. In that case, compare the changed files with `client.ts`, then update the expectations here.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect, test } from 'vitest';

const require = createRequire(import.meta.url);
const version = '2.2.4';

test('the installed kafkajs is the pinned version whose private files client.ts describes', () => {
  const { dependencies } = require('../../../package.json') as { dependencies: Record<string, string> };
  expect(dependencies['kafkajs']).toBe(version);
  expect((require('kafkajs/package.json') as { version: string }).version).toBe(version);
});

test.each([
  ['broker/index.js', '9cbea8898528c439'],
  ['network/connectionPool.js', 'ecba4ba6fc4f2a6e'],
  ['network/connection.js', '2a993b2e74421ca6'],
  ['network/requestQueue/index.js', 'b55986089c14f8f7'],
  ['protocol/requests/index.js', 'fd26a30565d7f0c1'],
  ['protocol/requests/metadata/index.js', '9db984ef0bbcd73a'],
  ['protocol/requests/fetch/index.js', 'b0961e16fca52023'],
  ['protocol/requests/fetch/v7/request.js', '8100e605a5ae1727'],
  ['protocol/requests/fetch/v11/request.js', 'e652bb05ffab315d'],
  ['protocol/error.js', '8911e3226a8aebdd'],
  ['errors.js', 'bb3e50177a7b73f4'],
])('kafkajs/src/%s is unchanged', (path, digest) => {
  const source = readFileSync(require.resolve(`kafkajs/src/${path}`));
  expect(createHash('sha256').update(source).digest('hex').slice(0, 16)).toBe(digest);
});

interface Queue {
  readonly throttledUntil: unknown;
  readonly throttleCheckTimeoutId: unknown;
  readonly pending: unknown;
}

test('a connection pool has the connections, queues and methods that client.ts uses', () => {
  const Pool = require('kafkajs/src/network/connectionPool.js') as new (
    options: object,
  ) => { pool: readonly { requestQueue: Queue }[] };
  const logger = { namespace: () => logger };
  const pool = new Pool({ host: 'host', port: 1, clientId: 'test', logger });
  for (const method of ['getConnection', 'getConnectionByRequest', 'send', 'isConnected'])
    expect(pool).toHaveProperty(method, expect.any(Function));
  expect(pool.pool).toHaveLength(2);
  for (const { requestQueue } of pool.pool) {
    for (const method of ['checkPendingRequests', 'scheduleCheckPendingRequests'])
      expect(requestQueue).toHaveProperty(method, expect.any(Function));
    expect(requestQueue.throttledUntil).toEqual(expect.any(Number));
    expect(requestQueue.throttleCheckTimeoutId).toBeNull();
    expect(requestQueue.pending).toEqual([]);
  }
});

test('a broker has the fields and methods that client.ts uses', () => {
  const Broker = require('kafkajs/src/broker/index.js') as new (options: object) => object;
  const logger = { namespace: () => logger };
  const broker = new Broker({ connectionPool: { connectionTimeout: 1, host: 'host', port: 1 }, logger });
  const methods = [
    'connect',
    'lookupRequest',
    'listOffsets',
    'fetch',
    'produce',
    'createTopics',
    'describeConfigs',
  ];
  for (const method of methods) expect(broker).toHaveProperty(method, expect.any(Function));
  expect(broker).toHaveProperty('versions', null);
  const protocol = require('kafkajs/src/protocol/requests/index.js') as { requests: { Metadata: unknown } };
  expect(protocol.requests.Metadata).toEqual({ versions: expect.any(Array), protocol: expect.any(Function) });
});
