/** Tests connections to a node over real sockets, with nodes that answer oddly, early, in pieces, twice or not at all. */
import { createServer, type Server, type Socket } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { portOf } from '../../test/support/listen.ts';
import { until } from '../../test/support/until.ts';
import { BodyPieces } from './body-pieces.ts';
import { CallFailure, type CallReader, NodeCall, type NodeRequest } from './node-call.ts';
import { type NodeConnectionEvent, nodeConnectionTransitions } from './node-connection-states.ts';
import { NodePools } from './node-pools.ts';

interface Node {
  readonly url: string;
  readonly sockets: Socket[];
  /** Texts that the node has received, one for each connection. */
  readonly asked: string[];
}

/** Starts a node. Whenever more text arrives on a connection, it calls `answer` with all text received on it. */
async function node(answer: (socket: Socket, text: string) => void): Promise<Node> {
  const sockets: Socket[] = [];
  const asked: string[] = [];
  const server: Server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    const index = sockets.push(socket) - 1;
    asked[index] = '';
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => {
      asked[index] += bytes.toString('latin1');
      answer(socket, bytes.toString('latin1'));
    });
  });
  const port = await portOf(server);
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://127.0.0.1:${port}`, sockets, asked };
}

function pools(): NodePools {
  const opened = new NodePools({ credential: () => undefined, tickMs: 5 });
  onTestFinished(() => opened.close());
  return opened;
}

interface NodeAnswer {
  readonly call: NodeCall;
  readonly heads: string[];
  text: string;
  /** How the call ended, or undefined if it has not ended yet. */
  end: string | undefined;
  failure: string | undefined;
  isSent: boolean;
}

function call(opened: NodePools, url: string, more: Partial<NodeRequest> = {}): NodeAnswer {
  const reader: CallReader = {
    onSent: () => {
      called.isSent = true;
    },
    onHead: (status, type) => called.heads.push(`${status} ${type}`),
    onData: (chunk) => {
      called.text += chunk.toString('latin1');
    },
    onEnd: () => {
      called.end = 'end';
    },
    onFailure: (error) => {
      called.end = error.message;
      called.failure = error instanceof CallFailure ? error.kind : error.name;
    },
  };
  const made = new NodeCall(opened.ticker, reader);
  const called: NodeAnswer = {
    ...{ call: made, heads: [], text: '' },
    ...{ end: undefined, failure: undefined, isSent: false },
  };
  made.setDeadline(5000, 'its answer');
  const request = {
    url,
    path: '/v1/x',
    body: '{"a":"b"}',
    accept: 'application/json',
    credential: null,
  } as const;
  made.start(opened, { ...request, ...more });
  return called;
}

async function ended(called: NodeAnswer): Promise<string | undefined> {
  await until(() => called.end !== undefined);
  return called.end;
}

const ok = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n';
const whole = `${ok}Content-Length: 2\r\n\r\n{}`;

// Allows retries, because a busy machine may deliver the other node's bytes last, in which case the test proves nothing.
test('after a few pieces that take long to process, another node gets its turn', { retry: 3 }, async () => {
  const sockets: Socket[] = [];
  const [busy, other] = await Promise.all([node((socket) => sockets.push(socket)), node(() => undefined)]);
  const opened = pools();
  const read: string[] = [];
  const start = (url: string): NodeCall => {
    const made = new NodeCall(opened.ticker, {
      onHead: () => undefined,
      onData: () => {
        read.push(url);
        for (const untilMs = performance.now() + 8; performance.now() < untilMs; );
      },
      onEnd: () => undefined,
      onFailure: () => undefined,
    });
    made.setDeadline(60_000, 'its answer');
    const request = { path: '/', body: '{}', accept: 'application/json', credential: null } as const;
    made.start(opened, { url, ...request });
    return made;
  };
  const calls = Array.from({ length: 40 }, () => start(busy.url));
  const last = start(other.url);
  await until(() => sockets.length === 40 && other.sockets.length === 1);
  // Send the other node's answer in the middle, because a busy machine may deliver the last bytes much later.
  for (const socket of [...sockets.slice(0, 20), ...other.sockets, ...sockets.slice(20)]) socket.write(whole);
  await until(() => read.length === 41);
  expect(read.indexOf(other.url)).toBeLessThan(15);
  for (const made of [...calls, last]) made.abort();
});

test('a request’s head, length and body go out in one write', async () => {
  const { url, asked } = await node((socket) => socket.write(whole));
  const opened = pools();
  const first = call(opened, `${url}/base/`, { traceparent: 't' });
  expect([await ended(first), first.heads, first.text]).toEqual(['end', ['200 application/json'], '{}']);
  expect(asked[0]).toBe(
    `POST /base/v1/x HTTP/1.1\r\nhost: ${url.slice(7)}\r\nconnection: keep-alive\r\ncontent-type: application/json\r\n` +
      'accept: application/json\r\ntraceparent: t\r\ncontent-length: 9\r\n\r\n{"a":"b"}',
  );
  const other = call(opened, url, { body: '"ä€"', isLastOnConnection: true });
  await ended(other);
  expect(asked.at(-1)).toMatch(/connection: close\r\n.*content-length: 7\r\n\r\n"Ã¤â\x82¬"$/s);
});

const chunked = `${ok}Transfer-Encoding: chunked\r\n\r\n`;
const answers: readonly (readonly [string, string, string])[] = [
  ['with a length', whole, '{}'],
  ['in chunks, with trailers', `${chunked}1;a=b\r\n{\r\n01\r\n}\r\n0\r\nx-trailer: 1\r\n\r\n`, '{}'],
  [
    'after early responses',
    `HTTP/1.1 103 Early\r\nlink: a\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n${whole}`,
    '{}',
  ],
  ['without a body', 'HTTP/1.1 204 None\r\nContent-Type: application/json\r\n\r\n', ''],
];

test.each(answers)(
  'an answer %s may be cut anywhere, and its connection is reused',
  async (_, bytes, body) => {
    let at = 0;
    const { url, sockets } = await node((socket) => {
      socket.write(bytes.slice(0, at));
      setImmediate(() => socket.write(bytes.slice(at)));
    });
    const opened = pools();
    for (; at < bytes.length; at += 1 + (at % 3)) {
      const called = call(opened, url);
      expect([await ended(called), called.text]).toEqual(['end', body]);
      expect(called.heads).toHaveLength(1);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(sockets).toHaveLength(1);
  },
);

test.each([
  ['a second answer at once', whole + whole],
  ['an extra byte after it', `${whole}x`],
  ['`Connection: close`', `${ok}Connection: close\r\nContent-Length: 2\r\n\r\n{}`],
  ['HTTP/1.0', whole.replace('1.1', '1.0')],
  ['a short keep-alive time', `${ok}Keep-Alive: timeout=2\r\nContent-Length: 2\r\n\r\n{}`],
])('an answer with %s is whole, but its connection ends', async (_, bytes) => {
  const { url, sockets } = await node((socket) => socket.write(bytes));
  const opened = pools();
  for (let i = 0; i < 2; i++) {
    const called = call(opened, url);
    expect([await ended(called), called.text]).toEqual(['end', '{}']);
    await until(() => opened.connections === 0);
  }
  expect(sockets).toHaveLength(2);
});

test('a body without a length ends with the connection, but only if that ends cleanly', async () => {
  const { url } = await node((socket) => {
    socket.write(`${ok}\r\n{"a":`);
    setImmediate(() => socket.end('1}'));
  });
  const called = call(pools(), url);
  expect([await ended(called), called.text]).toEqual(['end', '{"a":1}']);
  const resets = await node((socket) => {
    socket.write(`${ok}\r\n{"a":`);
    setTimeout(() => socket.resetAndDestroy(), 20);
  });
  expect(await ended(call(pools(), resets.url))).toBe('the connection to the node failed: ECONNRESET');
});

test.each([
  ['nothing', '', 'the node ended the connection before its answer'],
  ['half a head', 'HTTP/1.1 200', 'the node ended the connection within its answer'],
  ['half a body', `${ok}Content-Length: 3\r\n\r\n{}`, 'the node ended the connection within its answer'],
  ['an early response only', 'HTTP/1.1 100 C\r\n\r\n', 'the node ended the connection before its answer'],
])('a node that ends its side after %s has not answered', async (_, bytes, reason) => {
  const { url } = await node((socket) => socket.end(bytes));
  expect(await ended(call(pools(), url))).toBe(reason);
});

test.each([
  ['another protocol', 'HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n', 'upgrade'],
  [
    'both a length and chunks',
    `${ok}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n`,
    'length and chunks',
  ],
  ['two lengths', `${ok}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}`, 'length'],
  ['a bare line feed', 'HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\n{}', 'bare line feed'],
  ['something other than HTTP', 'SSH-2.0-OpenSSH_9.6\r\n', 'version'],
  ['a chunk without a size', `${chunked}\r\n`, 'chunk size'],
])('an answer with %s is not an answer', async (_, bytes, fault) => {
  const { url, sockets } = await node((socket) => socket.write(bytes));
  const opened = pools();
  expect(await ended(call(opened, url))).toBe(`the node's answer is not valid HTTP: ${fault}`);
  await until(() => sockets[0]?.readableEnded === true || sockets[0]?.destroyed === true);
  expect(opened.ticker.size).toBe(0);
});

test('a TLS node that ends the handshake counts as not reached', async () => {
  const { url } = await node((socket) => socket.end());
  const called = call(pools(), url.replace('http', 'https'));
  await ended(called);
  expect([called.isSent, called.failure]).toEqual([false, 'unreached']);
});

test('a node that sends endless early responses is given up', async () => {
  const { url } = await node((socket) => socket.write('HTTP/1.1 102 Processing\r\n\r\n'.repeat(9)));
  expect(await ended(call(pools(), url))).toBe('the node sent too many early answers');
});

test('an idle connection that its node ended or wrote to is not reused', async () => {
  const { url, sockets } = await node((socket) => socket.write(whole));
  const opened = pools();
  for (const [index, act] of [
    (socket: Socket) => socket.end(),
    (socket: Socket) => socket.resetAndDestroy(),
    (socket: Socket) => socket.write('HTTP/1.1 408 Timeout\r\n\r\n'),
    () => undefined,
  ].entries()) {
    expect(await ended(call(opened, url))).toBe('end');
    await new Promise((resolve) => setImmediate(resolve));
    expect(sockets).toHaveLength(index + 1);
    act(sockets[index] as Socket);
    if (index < 3) await until(() => opened.connections === 0);
  }
  expect(opened.connections).toBe(1);
});

const hangUps: readonly (readonly [string, (socket: Socket) => void])[] = [
  ['ends', (socket) => socket.end()],
  ['is reset', (socket) => socket.resetAndDestroy()],
];

test.each(hangUps)(
  'a request on a reused connection that %s without a byte is sent once more',
  async (_, hangUp) => {
    let hangUpsLeft = 0;
    const { url, sockets } = await node((socket) => {
      if (hangUpsLeft-- > 0) hangUp(socket);
      else socket.write(whole);
    });
    const opened = pools();
    for (const [hangUps, result, connections] of [
      [1, [undefined, '{}'], 3],
      [2, ['lost', ''], 4],
    ] as const) {
      // Leave two idle connections behind.
      await Promise.all([ended(call(opened, url)), ended(call(opened, url))]);
      await new Promise((resolve) => setImmediate(resolve));
      hangUpsLeft = hangUps;
      const called = call(opened, url);
      await ended(called);
      expect([[called.failure, called.text], sockets.length]).toEqual([result, connections]);
    }
  },
);

test('if a reused connection is lost after a byte or a time-out, the request ends', async () => {
  const ends: readonly ((socket: Socket, called: NodeAnswer) => void)[] = [
    (socket) => socket.end('H'),
    (socket) => socket.write('H', () => setTimeout(() => socket.resetAndDestroy(), 20)),
    (socket) => socket.end('HTTP/1.1 103 Early\r\n\r\n'),
    (_, { call }) => call.tick(Number.MAX_VALUE),
  ];
  for (const end of ends) {
    const { url, sockets, asked } = await node((socket) => {
      if (asked[0]?.indexOf('POST', 1) === -1) socket.write(whole);
    });
    const opened = pools();
    await ended(call(opened, url));
    await new Promise((resolve) => setImmediate(resolve));
    const called = call(opened, url);
    await until(() => asked[0]?.indexOf('POST', 1) !== -1);
    end(sockets[0] as Socket, called);
    await ended(called);
    expect(called.failure).toMatch(/lost|timeout/);
    await until(() => opened.connections === 0);
    expect(sockets).toHaveLength(1);
  }
});

test('a body in pieces, which cannot be sent twice, gets a new connection', async () => {
  const { url, sockets } = await node((socket, text) => {
    if (text.endsWith('}')) socket.write(whole);
  });
  const opened = pools();
  for (const connections of [1, 2]) {
    const called = call(opened, url, { body: new BodyPieces(Buffer.from('{}')) });
    expect([await ended(called), sockets.length]).toEqual(['end', connections]);
    await new Promise((resolve) => setImmediate(resolve));
  }
});

test('a body in pieces goes out as fast as the connection takes it, and an early answer ends the connection', async () => {
  const large = Buffer.alloc(8_000_000, 'a');
  const reads = await node((socket, text) => {
    // Answer only after the kernel must have reported the last byte of the request as sent.
    if (text.endsWith('z')) setTimeout(() => socket.write(whole), 50);
  });
  const taken: number[] = [];
  const opened = pools();
  const body = new BodyPieces(Buffer.concat([large, Buffer.from('z')]));
  const called = call(opened, reads.url, { body });
  body.onTaken = () => taken.push(1);
  expect(await ended(called)).toBe('end');
  expect(taken).toEqual([1]);
  expect(reads.asked[0]).toHaveLength((reads.asked[0] as string).indexOf('\r\n\r\n') + 4 + large.length + 1);
  expect(opened.connections).toBe(1);

  const refuses = await node((socket) => {
    socket.pause();
    socket.write('HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n');
  });
  const refused = call(opened, refuses.url, { body: new BodyPieces(large) });
  expect([await ended(refused), refused.heads]).toEqual(['end', ['413 ']]);
  await until(() => opened.connections === 1);
  // The connection must not be reused, because the node could read the unsent rest of the body as the next request.
  for (const connections of [2, 3]) {
    const inOne = call(opened, refuses.url, { body: large.toString() });
    expect([await ended(inOne), inOne.heads]).toEqual(['end', ['413 ']]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(refuses.sockets).toHaveLength(connections);
  }
});

describe('an aborted call', () => {
  test.each([
    ['before its connection', () => undefined, false],
    ['before its answer', () => undefined, true],
    ['during its answer', (socket: Socket) => socket.write(`${chunked}1\r\n{\r\n`), true],
  ] as const)('%s ends the connection', async (_, answer, waits) => {
    const { url, sockets, asked } = await node(answer);
    const opened = pools();
    const called = call(opened, url);
    if (waits) await until(() => (asked[0] ?? '').endsWith('}'));
    called.call.abort();
    await until(() => sockets.every(({ readableEnded, destroyed }) => readableEnded || destroyed));
    await until(() => opened.connections === 0 && opened.ticker.size === 0);
    expect([called.end, asked[0] ?? '']).toEqual([undefined, waits ? asked[0] : '']);
  });
});

test('a paused call receives nothing more, not even its end', async () => {
  const { url, sockets } = await node((socket) => socket.write(`${ok}Content-Length: 4\r\n\r\n{}`));
  const called = call(pools(), url);
  await until(() => called.text === '{}');
  called.call.pause();
  sockets[0]?.write('  ');
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect([called.text, called.end]).toEqual(['{}', undefined]);
  called.call.resume();
  expect([await ended(called), called.text]).toEqual(['end', '{}  ']);
});

test('every state can be reached, and the connection can end from each', () => {
  const states = Object.keys(nodeConnectionTransitions) as (keyof typeof nodeConnectionTransitions)[];
  const reached = new Set(['opening', 'closed']);
  for (const state of states)
    for (const next of Object.values(nodeConnectionTransitions[state])) reached.add(next);
  expect([...reached].sort()).toEqual([...states].sort());
  const never: readonly NodeConnectionEvent[] = ['lost', 'end-last'];
  for (const state of states)
    for (const event of never) expect(nodeConnectionTransitions[state][event] ?? 'closed').toBe('closed');
});
