/**
 * Tests every wait listed in `waits` over real sockets: the wait is shortened and its peer stalls. Each wait must end as its
 * row says.
 */
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer as createHttpServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { BodyBudget } from '../../shared/runtime/byte-budget.ts';
import { Ticker } from '../../shared/runtime/ticker.ts';
import { type WaitName, waits } from '../../shared/runtime/waits.ts';
import { chat as ask } from '../../test/support/api.ts';
import { serveExchanges } from '../../test/support/exchange-server.ts';
import { quiet, startFleet } from '../../test/support/fleet.ts';
import {
  type ForwardServerOptions,
  post,
  routeTo,
  startForwardServer,
} from '../../test/support/forward-server.ts';
import { MemoryLog, MemoryTopic } from '../../test/support/memory-log.ts';
import { specFleet } from '../../test/support/spec-fleet.ts';
import { until } from '../../test/support/until.ts';
import { BodyWorker } from '../body-worker/body-worker.ts';
import { readBody } from '../http/body.ts';
import type { Exchange } from '../http/exchange.ts';
import { createPromptCounter } from '../nodes/count-tokens.ts';
import { NodePools } from '../nodes/node-pools.ts';
import { fetchSnapshot } from '../snapshot/fetch-snapshot.ts';
import { shapeChat } from '../surfaces/chat/shape-chat.ts';

const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  open.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** A client that sends the given bytes and, unless told otherwise, reads the answer. */
class Client {
  text = '';
  readonly socket: Socket;
  readonly closed: Promise<unknown>;

  constructor(port: number, bytes: string, reads = true) {
    this.socket = connect(port, '127.0.0.1').on('error', () => undefined);
    this.closed = once(this.socket, 'close');
    this.socket.write(bytes);
    if (reads) this.socket.on('data', (chunk) => (this.text += chunk.toString()));
    open.push(() => this.socket.destroy());
  }

  async status(): Promise<number> {
    await this.closed;
    return Number(/^HTTP\/1\.1 (\d+)/.exec(this.text)?.[1] ?? 0);
  }
}

type Handle = (exchange: Exchange) => unknown;

async function listener(handle: Handle, timeouts: object = {}): Promise<number> {
  const { port, destroy } = await serveExchanges(handle, { timeouts });
  open.push(destroy);
  return port;
}

/** Answers with a stream that is larger than the kernel's buffers. */
function flood({ answer }: Exchange): void {
  answer.start('text/event-stream', []);
  answer.write('x'.repeat(30_000_000));
}

const head = (length: number): string => `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`;

/** Starts a listener that reads bodies as a gateway does, and closes the connection after each answer. */
function bodyListener(budget: BodyBudget, paceMs: number, turnMsMax: number): Promise<number> {
  const pace = { bytes: 80, ms: paceMs, ticker: new Ticker(20) };
  return listener((exchange) =>
    readBody(exchange, budget.of('one'), { pace, turnMsMax, bytesMax: 32 * 1024 * 1024 }).catch(
      ({ status }: { status: number }) => {
        exchange.makeLast();
        void exchange.answer.whole(status, undefined, [], '');
      },
    ),
  );
}

/** Starts a node that accepts connections and otherwise does nothing. */
const rawNode = async (onConnection: (socket: Socket) => void = () => undefined): Promise<number> =>
  portOf(
    createServer((socket) => {
      open.push(() => socket.destroy());
      onConnection(socket.on('error', () => undefined));
    }),
  );

/** Starts a node that answers each request with these bytes and keeps the connection open. */
const node = async (bytes: string): Promise<string> =>
  `http://127.0.0.1:${await rawNode((socket) => socket.once('data', () => socket.write(bytes)))}`;

const prompt = { model: 'm', messages: [{ role: 'user', content: 'a' }] };
const ok = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type:';
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;
const delta = { choices: [{ index: 0, delta: { content: 'a' }, finish_reason: null }] };
const event = chunk(`data: ${JSON.stringify(delta)}\n\n`);

async function forwarded(
  urls: readonly string[],
  stream: boolean,
  options: Partial<ForwardServerOptions>,
): Promise<unknown> {
  const server = await startForwardServer({
    candidates: urls.map((url, at) => routeTo(url, { node: `n${at}` })),
    ...options,
  });
  open.push(() => server.close());
  const { status } = await post(`${server.url}/v1/chat/completions`, { ...prompt, stream }).answer;
  const ended = (await server.next()) as { readonly reason?: string; readonly by?: string };
  return `${status} ${ended.by ?? ''} ${ended.reason}`;
}

async function snapshotFrom(answer: (response: ServerResponse) => void, shortened: object): Promise<boolean> {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-waits-'));
  open.push(() => rmSync(dir, { recursive: true, force: true }));
  const port = await portOf(createHttpServer((_, response) => answer(response)));
  return fetchSnapshot({
    ...{ path: join(dir, 'state.db'), controlPlanes: [`http://127.0.0.1:${port}`], token: 'token-1' },
    ...{ log: new MemoryLog(new MemoryTopic()), logId: undefined, logger: quiet, ...shortened },
  });
}

const snapshotHeaders = { 'x-headgate-sha256': '0', 'content-length': 1000 };

/** One function for each wait. It shortens only this wait, makes the peer stall, and returns what happened. */
const stalls: Readonly<Record<WaitName, () => Promise<unknown>>> = {
  clientHead: async () => {
    const port = await listener(() => undefined, { headersTimeoutMs: 100 });
    return [await new Client(port, 'POST / HTTP/1.1\r\nHost:').status(), await new Client(port, '').status()];
  },
  clientNext: async () => {
    const port = await listener(({ answer }) => answer.whole(200, undefined, [], ''), {
      keepAliveTimeoutMs: 50,
    });
    return new Client(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n').status();
  },
  clientBody: async () => {
    const port = await bodyListener(new BodyBudget(), 50, 1e9);
    return [await new Client(port, head(1000)).status(), await new Client(port, `${head(1000)}a`).status()];
  },
  clientRequest: async () => {
    const port = await listener(() => undefined, { headersTimeoutMs: 100, requestTimeoutMs: 100 });
    const client = new Client(port, `${head(100_000)}a`);
    const drip = setInterval(() => client.socket.write('a'), 20);
    open.push(() => clearInterval(drip));
    return client.status();
  },
  clientRest: async () => {
    const refuse: Handle = (exchange) => {
      void exchange.answer.whole(413, undefined, [], '');
      exchange.discardBody();
    };
    const port = await listener(refuse, { restTimeoutMs: 50 });
    return new Client(port, `${head(1000)}a`).status();
  },
  clientReads: async () => {
    let delivered: Promise<boolean> | undefined;
    const stream: Handle = (exchange) => {
      flood(exchange);
      delivered = exchange.answer.end();
    };
    const port = await listener(stream, { stallTimeoutMs: 50, lastBytesTimeoutMs: 60_000 });
    const { socket } = new Client(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n', false);
    await until(() => delivered !== undefined);
    const arrived = await delivered;
    socket.resume();
    return arrived;
  },
  clientLastBytes: async () => {
    const cut: Handle = (exchange) => {
      flood(exchange);
      exchange.answer.destroy();
    };
    const timeouts = { stallTimeoutMs: 60_000, lastBytesTimeoutMs: 50 };
    const { port, sockets, destroy } = await serveExchanges(cut, { timeouts });
    open.push(destroy);
    new Client(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n', false);
    await until(() => sockets.size === 1);
    const [socket] = sockets;
    await until(() => socket?.destroyed === true);
    return socket?.destroyed;
  },
  bodyTurn: async () => {
    const budget = new BodyBudget(8_000_000);
    const one = budget.of('one');
    // Use up the organisation's share, and the part of the budget that one body may use beyond the share.
    one.reserve(1_000_000);
    one.wait({ bytesLeft: 500_000, onRoom: () => undefined });
    const port = await bodyListener(budget, 1e9, 50);
    return new Client(port, `${head(900_000)}${'a'.repeat(500_000)}`).status();
  },
  nodeConnect: async () => {
    // A node whose TLS handshake never completes counts as not connected.
    const silent = `https://127.0.0.1:${await rawNode()}`;
    return forwarded([silent], false, { connectMs: 50 });
  },
  nodeSearch: async () => {
    const silent = `https://127.0.0.1:${await rawNode()}`;
    const settings = { searchMs: 120 };
    const begun = performance.now();
    const outcome = await forwarded(Array(1000).fill(silent), false, { connectMs: 50, settings });
    return [outcome, performance.now() - begun < 1000 * 50];
  },
  nodeCount: async () => {
    const pools = new NodePools({ credential: () => undefined, tickMs: 10 });
    open.push(() => pools.close());
    const count = createPromptCounter(pools, new BodyWorker(), { countMs: 50 });
    return count(routeTo(await node('')), shapeChat(prompt).asked, 'one');
  },
  nodeFirstEvent: async () => {
    const settings = { firstEventMs: 50 };
    const unread = `http://127.0.0.1:${await rawNode((socket) => socket.pause())}`;
    return [
      await forwarded([await node('')], true, { settings }),
      await forwarded([await node(`${ok} text/event-stream\r\n\r\n${chunk(': comment\n\n')}`)], true, {
        settings,
      }),
      await forwarded([unread], true, { settings }),
    ];
  },
  nodeNextEvent: async () =>
    forwarded([await node(`${ok} text/event-stream\r\n\r\n${event}`)], true, {
      settings: { betweenEventsMs: 50 },
    }),
  nodeWhole: async () => forwarded([await node('')], false, { settings: { wholeAnswerMs: 50 } }),
  nodeNextBytes: async () =>
    forwarded([await node(`${ok} application/json\r\n\r\n${chunk('{')}`)], false, {
      settings: { betweenBytesMs: 50 },
    }),
  nodeError: async () => {
    const error = 'HTTP/1.1 500 X\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{';
    return forwarded([await node(error)], false, { settings: { errorBodyMs: 50 } });
  },
  nodeRest: async () => {
    let closed: Promise<unknown> | undefined;
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const last = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage };
    const frames = `${event}${chunk(`data: ${JSON.stringify(last)}\n\ndata: [DONE]\n\n`)}`;
    const port = await rawNode((socket) => {
      closed = once(socket, 'close');
      socket.once('data', () => socket.write(`${ok} text/event-stream\r\n\r\n${frames}`));
    });
    const outcome = await forwarded([`http://127.0.0.1:${port}`], true, {});
    await closed;
    return outcome;
  },
  gatewayRoom: async () => {
    const fleet = await startFleet({
      ...{ gateways: 2, tokensPerSecond: 1 },
      fleet: (urls) => {
        const made = specFleet(urls);
        return { ...made, tiers: (made.tiers ?? []).map((tier) => ({ ...tier, concurrency: 1 })) };
      },
    });
    open.push(() => fleet.close());
    const { value: key } = await fleet.key('cedar');
    await fleet.settle();
    const stream = {
      model: 'echo-small',
      messages: [{ role: 'user', content: 'say 99 words' }],
      stream: true,
    };
    const lines = ['POST /v1/chat/completions HTTP/1.1', 'Host: 127.0.0.1', `Authorization: Bearer ${key}`];
    const body = JSON.stringify(stream);
    const type = ['Content-Type: application/json', `Content-Length: ${body.length}`];
    const holder = new Client(fleet.port(0), `${[...lines, ...type, '', ''].join('\r\n')}${body}`);
    await until(() => holder.text.includes('data:'));
    const { status } = await ask({ port: fleet.port(1), key, model: 'echo-small' });
    holder.socket.destroy();
    return status;
  },
  snapshotHead: () => snapshotFrom(() => undefined, { headMsMax: 50 }),
  snapshotPiece: () =>
    snapshotFrom((response) => response.writeHead(200, snapshotHeaders).write('a'), { silentMsMax: 50 }),
  snapshotWhole: () =>
    snapshotFrom(
      (response) => {
        response.writeHead(200, snapshotHeaders);
        const drip = setInterval(() => response.write('a'), 20);
        open.push(() => clearInterval(drip));
      },
      { wholeMsMax: 200 },
    ),
};

const notInTime = (awaited: string) => `503  the node did not send ${awaited} in time`;

const outcomes: Readonly<Record<WaitName, unknown>> = {
  clientHead: [400, 400],
  clientNext: 200,
  clientBody: [503, 503],
  clientRequest: 400,
  clientRest: 413,
  clientReads: false,
  clientLastBytes: true,
  bodyTurn: 503,
  nodeConnect: '503  the node did not take a connection in time',
  nodeSearch: ['503  the node did not take a connection in time', true],
  nodeCount: undefined,
  nodeFirstEvent: [notInTime('a first event'), notInTime('a first event'), notInTime('a first event')],
  nodeNextEvent: '200 deadline the node did not send a further event in time',
  nodeWhole: notInTime('its answer'),
  nodeNextBytes: notInTime('the rest of its answer'),
  nodeError: notInTime('the whole body of its error'),
  nodeRest: '200  undefined',
  gatewayRoom: 429,
  snapshotHead: false,
  snapshotPiece: false,
  snapshotWhole: false,
};

test.each(Object.entries(stalls))('a stalled peer is not waited for forever: %s', async (name, stall) => {
  expect(await stall()).toEqual(outcomes[name as WaitName]);
});

test('docs/network.md lists every wait with its deadline', () => {
  const page = readFileSync(new URL('../../docs/network.md', import.meta.url), 'utf8');
  const table = /^## Waits of a gateway$.*?(?=^## )/ms.exec(page)?.[0] ?? '';
  const times = [...table.matchAll(/ \| ([\d.]+) s \|/g)].map(([, seconds]) => Number(seconds) * 1000);
  expect(times).toEqual(Object.values(waits).map(({ ms }) => ms));
});
