import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { Worker } from 'node:worker_threads';
import { afterEach, expect, test } from 'vitest';
import { Ticker } from '../../shared/runtime/ticker.ts';
import { urlOf } from '../../test/support/listen.ts';
import { stall } from '../../test/support/stall.ts';
import { until } from '../../test/support/until.ts';
import { type CallReader, NodeCall, type NodeRequest } from './node-call.ts';
import { NodePools } from './node-pools.ts';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function node(listener: Parameters<typeof createServer>[1]): Promise<string> {
  const server = createServer(listener as never);
  servers.push(server);
  return urlOf(server);
}

/** Makes one call and records what its reader received until the end. */
function call(
  opened: NodePools,
  url: string,
  more: Partial<NodeRequest> = {},
): { call: NodeCall; end: Promise<string> } {
  let made: NodeCall | undefined;
  const end = new Promise<string>((resolve) => {
    const reader: CallReader = {
      onHead: () => undefined,
      onData: () => undefined,
      onEnd: () => resolve('end'),
      onFailure: (error) => resolve(error.message),
    };
    made = new NodeCall(opened.ticker, reader);
    made.setDeadline(5000, 'its answer');
    made.start(opened, {
      url,
      path: '/x',
      body: '{}',
      accept: 'application/json',
      credential: null,
      ...more,
    });
  });
  return { call: made as NodeCall, end };
}

function pools(more: Partial<ConstructorParameters<typeof NodePools>[0]> = {}): NodePools {
  return new NodePools({ credential: () => undefined, tickMs: 5, ...more });
}

test('connections are kept alive and reused', async () => {
  const ports = new Set<number | undefined>();
  const url = await node((request, response) => {
    ports.add(request.socket.remotePort);
    response.end('{}');
  });
  const opened = pools();
  for (let i = 0; i < 20; i += 1) expect(await call(opened, url).end).toBe('end');
  // A connection becomes idle only one turn of the event loop after its answer, so two connections alternate.
  expect(ports.size).toBeLessThanOrEqual(2);
  expect(opened.connections).toBe(ports.size);
  await opened.close();
});

test('a request in flight never delays another one', async () => {
  let held = 0;
  const url = await node(() => {
    held += 1;
  });
  const opened = pools();
  for (let i = 0; i < 100; i += 1) void call(opened, url).end;
  await until(() => held === 100);
  await opened.close();
});

test('a response head larger than 16 KiB counts as a lost connection', async () => {
  const url = await node((_request, response) => {
    response.writeHead(200, { 'x-long': 'a'.repeat(17_000) }).end('{}');
  });
  const opened = pools();
  expect(await call(opened, url).end).toBe("the node's answer is not valid HTTP: large head");
  await opened.close();
});

test('a credential is sent as a bearer token, and an unchanged one is read only once', async () => {
  const seen: (string | undefined)[] = [];
  const url = await node((request, response) => {
    seen.push(request.headers.authorization);
    response.end('{}');
  });
  let reads = 0;
  const opened = pools({
    credential: (name) => {
      reads += 1;
      return name === 'KNOWN' ? 'secret' : undefined;
    },
  });
  for (let i = 0; i < 3; i += 1) await call(opened, url, { credential: 'KNOWN' }).end;
  expect(seen).toEqual(['Bearer secret', 'Bearer secret', 'Bearer secret']);
  expect(reads).toBe(1);
  expect(await call(opened, url, { credential: 'OTHER' }).end).toBe(
    'the credential of the node is not known here',
  );
  await opened.close();
});

test('a credential that is not valid in a header fails the call and is not revealed', async () => {
  const url = await node((_request, response) => response.end('{}'));
  const opened = pools({ credential: () => 'two\r\nlines' });
  const reason = await call(opened, url, { credential: 'X' }).end;
  expect(reason).toBe('the credential of the node may not be in a header');
  await opened.close();
});

test('an unused pool is closed, but one with a request in flight is not', async () => {
  let answer: (() => void) | undefined;
  const slow = await node((_request, response) => {
    answer = () => response.end('{}');
  });
  const quick = await node((_request, response) => response.end('{}'));
  const opened = pools({ unusedMs: 50 });
  const inFlight = call(opened, slow);
  await call(opened, quick).end;
  expect(opened.size).toBe(2);
  await until(() => opened.size === 1);
  await until(() => answer !== undefined);
  answer?.();
  expect(await inFlight.end).toBe('end');
  await until(() => opened.size === 0);
  await opened.close();
});

test('closing lets requests end within the grace period and destroys the rest', async () => {
  let answer: (() => void) | undefined;
  const url = await node((_request, response) => {
    answer = () => response.end('{}');
  });
  const graceful = pools();
  const ends = call(graceful, url);
  await until(() => answer !== undefined);
  const closed = graceful.close(5000);
  answer?.();
  expect(await ends.end).toBe('end');
  await closed;

  answer = undefined;
  const abrupt = pools();
  const cut = call(abrupt, url);
  await until(() => answer !== undefined);
  await abrupt.close(20);
  expect(await cut.end).toMatch(/^this gateway closed its connection/);
});

test('an internal error during a call is not taken for a failure of the node', async () => {
  const url = await node((_request, response) => response.end('{}'));
  const opened = pools();
  const received = await new Promise<Error>((resolve) => {
    const reader: CallReader = {
      onHead: () => {
        throw new TypeError('a fault');
      },
      onData: () => undefined,
      onEnd: () => undefined,
      onFailure: resolve,
    };
    const made = new NodeCall(opened.ticker, reader);
    made.setDeadline(1000, 'its answer');
    made.start(opened, { url, path: '/x', body: '{}', accept: 'application/json', credential: null });
  });
  expect(received).toBeInstanceOf(TypeError);
  expect(opened.ticker.size).toBe(0);
  await opened.close();
});

test('a connection that this gateway had no time to read is not a failure of the node', async () => {
  const url = await node((_request, response) => response.end('{}'));
  const opened = pools({ connectMs: 500 });
  const { end } = call(opened, url);
  stall(1000);
  expect(await end).toBe('end');
  await opened.close();
});

test('an answer that arrives while this gateway stalls is read before its wait can end', async () => {
  // Run the server in a thread of its own, so that it can answer while this thread stalls.
  const server = new Worker(
    `const { parentPort } = require('node:worker_threads');
   let answer;
   const server = require('node:http').createServer((request, response) => {
     answer = () => response.end('{}');
     parentPort.postMessage('asked');
   });
   parentPort.on('message', () => answer());
   server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));`,
    { eval: true },
  );
  const [port] = await once(server, 'message');
  const opened = pools({ tickMs: 250 });
  const { call: made, end } = call(opened, `http://127.0.0.1:${port}`);
  await once(server, 'message');
  const beganMs = opened.ticker.nowMs;
  made.setDeadline(900, 'its answer');
  const stalls = {
    index: -1,
    tick: (nowMs: number) => {
      if (nowMs - beganMs < 450) return;
      opened.ticker.delete(stalls);
      // Stall just before timers run, and therefore also before sockets are read.
      setImmediate(() => {
        server.postMessage('answer');
        stall(2000);
      });
    },
  };
  opened.ticker.add(stalls);
  expect(await end).toBe('end');
  await opened.close();
  await server.terminate();
});

test('the clock counts little of a stall, but all other time', async () => {
  const ticker = new Ticker(10);
  const waiting = { index: -1, tick: () => undefined };
  ticker.add(waiting);
  const beforeMs = ticker.nowMs;
  await until(() => ticker.nowMs - beforeMs >= 300);
  const stalledMs = ticker.nowMs;
  stall(1000);
  expect(ticker.nowMs - stalledMs).toBeLessThan(300);
  ticker.delete(waiting);
  const stoppedMs = ticker.nowMs;
  expect(stoppedMs).toBeGreaterThanOrEqual(stalledMs);
  ticker.add(waiting);
  expect(ticker.nowMs).toBeGreaterThanOrEqual(stoppedMs);
  ticker.delete(waiting);
});

test('the clock ticks only while something waits', async () => {
  const ticker = new Ticker(1);
  let ticks = 0;
  const waiting = {
    index: -1,
    tick: () => {
      ticks += 1;
    },
  };
  ticker.add(waiting);
  await until(() => ticks > 2);
  ticker.delete(waiting);
  const after = ticks;
  // Wait long enough for many ticks, to see that the ticker stands still when there is no work.
  await new Promise((resolve) => setTimeout(resolve, 15));
  expect(ticks).toBe(after);
  ticker.add(waiting);
  await until(() => ticks > after);
  ticker.delete(waiting);
});

test('every waiter is called at every tick, even while others end their waits', async () => {
  const ticker = new Ticker(1);
  const ticks = new Map<number, number>();
  for (let name = 0; name < 20; name++) {
    const waiting = {
      index: -1,
      tick: () => {
        const own = (ticks.get(name) ?? 0) + 1;
        ticks.set(name, own);
        if (own > name % 7) ticker.delete(waiting);
      },
    };
    ticker.add(waiting);
    ticker.add(waiting);
  }
  expect(ticker.size).toBe(20);
  await until(() => ticker.size === 0);
  for (let name = 0; name < 20; name++) expect(ticks.get(name)).toBe((name % 7) + 1);
});
