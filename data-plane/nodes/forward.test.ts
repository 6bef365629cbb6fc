import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { createServer as createTcpServer, type Server as TcpServer } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import type { Dialect } from '../../schemas/names.ts';
import type { Fault } from '../../test/simulator/behaviour.ts';
import {
  type FaultyNode,
  type FaultyNodeOptions,
  startFaultyNode,
} from '../../test/simulator/faulty-node.ts';
import {
  type ForwardServer,
  type ForwardServerOptions,
  post,
  routeTo,
  startForwardServer,
} from '../../test/support/forward-server.ts';
import { portOf } from '../../test/support/listen.ts';
import { stall } from '../../test/support/stall.ts';
import { until, within } from '../../test/support/until.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of open.splice(0).reverse()) await one.close();
});

async function sim(options: Partial<FaultyNodeOptions> = {}, ...faults: Fault[]): Promise<FaultyNode> {
  const rules = faults.map((fault) => ({ match: {}, fault }));
  const node = await startFaultyNode({ models: ['m'], tokensPerSecond: 0, behaviour: { rules }, ...options });
  open.push(node);
  return node;
}

async function gateway(options: ForwardServerOptions): Promise<ForwardServer> {
  const server = await startForwardServer(options);
  open.push(server);
  return server;
}

async function handMade(
  listener: Parameters<typeof createServer>[1],
): Promise<{ url: string; server: Server }> {
  const server = createServer(listener as never);
  return { url: `http://127.0.0.1:${await listens(server)}`, server };
}

async function listens(server: Server | TcpServer): Promise<number> {
  const port = await portOf(server);
  open.push({
    close: async () => {
      if ('closeAllConnections' in server) server.closeAllConnections();
      server.close();
    },
  });
  return port;
}

async function deadUrl(): Promise<string> {
  const server = createTcpServer();
  const port = await portOf(server);
  server.close();
  await once(server, 'close');
  return `http://127.0.0.1:${port}`;
}

const chat = { model: 'asked', messages: [{ role: 'user', content: 'say 8 words' }] };
const streamed = { ...chat, stream: true };
const chatPath = '/v1/chat/completions';
const impatient = {
  firstEventMs: 150,
  betweenEventsMs: 150,
  wholeAnswerMs: 150,
  betweenBytesMs: 100,
  errorBodyMs: 150,
};

test('a streamed answer is rebuilt, ends with its terminator, and reports the node’s usage', async () => {
  const node = await sim();
  const server = await gateway({ candidates: [routeTo(node.url)] });
  const { status, headers, text, clean } = await post(server.url + chatPath, streamed).answer;
  expect(status).toBe(200);
  expect(headers['content-type']).toBe('text/event-stream; charset=utf-8');
  expect([headers['cache-control'], headers['x-accel-buffering']]).toEqual(['no-cache', 'no']);
  expect(clean).toBe(true);
  expect(text).toMatch(/data: \[DONE\]\n\n$/);
  expect(text).toContain('"model":"asked"');
  expect(text).not.toContain('"usage"');
  expect(await server.next()).toEqual({
    kind: 'completed',
    node: 'n1',
    usage: { promptTokens: 6, completionTokens: 8 },
  });
});

test('if an engine closes after each stream, the next request uses another connection', async () => {
  const reply = {
    choices: [{ index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' }],
  };
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  const chunk = { choices: [{ index: 0, delta: { content: 'a' }, finish_reason: 'stop' }], usage };
  const used = new WeakSet<object>();
  const { url } = await handMade((req, res) => {
    // Close the connection when a stream has used it before, as a node does that closes connections after streams.
    if (used.has(req.socket)) req.socket.destroy();
    else if (req.headers.accept === 'text/event-stream') {
      used.add(req.socket);
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.end(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`);
    } else
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ ...reply, usage }));
  });
  const server = await gateway({ candidates: [routeTo(url, { dialect: 'llamacpp' })] });
  for (const body of [chat, streamed, chat, streamed, streamed, chat]) {
    expect((await post(server.url + chatPath, body).answer).status).toBe(200);
    expect(await server.next()).toMatchObject({ kind: 'completed' });
  }
});

test('the node receives its own model name, a token limit, a request for usage, and its credential', async () => {
  let seen:
    | { authorization: string | undefined; path: string | undefined; body: Record<string, unknown> }
    | undefined;
  const node = await handMade(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    seen = { authorization: request.headers.authorization, path: request.url, body: JSON.parse(body) };
    response.writeHead(500).end();
  });
  const server = await gateway({
    candidates: [routeTo(`${node.url}/engine/`, { served: 'inner', credential: 'GPU' })],
    credential: (name) => `secret-of-${name}`,
    maxTokens: 77,
  });
  await post(server.url + chatPath, streamed).answer;
  expect(seen).toMatchObject({ authorization: 'Bearer secret-of-GPU', path: '/engine/v1/chat/completions' });
  expect(seen?.body).toMatchObject({
    model: 'inner',
    max_tokens: 77,
    stream_options: { include_usage: true },
  });
});

test('a node whose credential is missing here is not called without it', async () => {
  const node = await sim();
  const server = await gateway({ candidates: [routeTo(node.url, { credential: 'GPU' })] });
  expect((await post(server.url + chatPath, chat).answer).status).toBe(503);
  expect(node.stats().requests).toBe(0);
});

const early: [string, Fault][] = [
  ['resets the connection', { kind: 'refuse' }],
  ['never answers', { kind: 'stall' }],
  ['answers 500', { kind: 'status', status: 500 }],
  ['answers 400', { kind: 'status', status: 400 }],
  ['answers 401', { kind: 'status', status: 401, body: { error: 'Unauthorized' } }],
  ['answers 204', { kind: 'status', status: 204 }],
  ['redirects', { kind: 'redirect', location: 'http://127.0.0.1:1/' }],
  ['answers with a wrong content type', { kind: 'content-type', contentType: 'text/html' }],
  ['sends headers without end', { kind: 'endless-headers', everyMs: 1 }],
  ['sends its head byte by byte', { kind: 'slow-loris', part: 'head', everyMs: 20 }],
];

const earlyStreamed: [string, Fault][] = [
  ...early,
  ['begins with an error frame, then [DONE]', { kind: 'error-frame-then-done', afterEvents: 0 }],
  ['begins with an error frame', { kind: 'error-frame-no-done', afterEvents: 0 }],
  ['cuts before the first event', { kind: 'cut', afterEvents: 0, reset: false }],
  ['ends cleanly before the first event', { kind: 'clean-end-without-done', afterEvents: 0 }],
  ['begins with an empty chunk and ends', { kind: 'empty-chunk-end', afterEvents: 0 }],
  ['begins with garbage', { kind: 'garbage', afterEvents: 0 }],
  ['begins with a huge event', { kind: 'huge-event', bytes: 3_000_000 }],
  ['sends nothing but comments', { kind: 'stall-after', afterEvents: 0, commentEveryMs: 10 }],
];

const earlyWhole: [string, Fault][] = [
  ...early,
  ['stops in the middle of its body', { kind: 'stall-after', afterEvents: 1 }],
  ['cuts its body', { kind: 'cut', afterEvents: 1, reset: false }],
  ['resets in the middle of its body', { kind: 'cut', afterEvents: 1, reset: true }],
  ['answers with garbage', { kind: 'garbage', afterEvents: 0 }],
  ['sends a body that is too large', { kind: 'huge-event', bytes: 40_000_000 }],
  ['sends its body byte by byte', { kind: 'slow-loris', part: 'body', everyMs: 5 }],
  ['gives an unknown finish reason', { kind: 'finish-abort', finishReason: 'abort' }],
  [
    'answers 500 with what looks like an answer',
    {
      kind: 'status',
      status: 500,
      body: { choices: [{ index: 0, message: { content: 'x' }, finish_reason: 'stop' }] },
    },
  ],
  ['answers with an error', { kind: 'error-frame-no-done', afterEvents: 0 }],
];

test.each(earlyStreamed)(
  'if a node %s before the first good event of a stream, the request is refused and no other node is tried',
  async (_name, fault) => {
    await expectRefusal(fault, streamed);
  },
);

test.each(earlyWhole)(
  'if a node %s, the whole answer is refused and no other node is tried',
  async (_name, fault) => {
    await expectRefusal(fault, chat);
  },
);

async function expectRefusal(fault: Fault, body: object): Promise<void> {
  const bad = await sim({}, fault);
  const other = await sim();
  const server = await gateway({
    candidates: [routeTo(bad.url, { node: 'bad' }), routeTo(other.url, { node: 'other' })],
    settings: impatient,
    random: () => 0,
  });
  const { status, text, clean } = await post(server.url + chatPath, body).answer;
  // A node answers with status 400 only if the request itself is at fault.
  const ofRequest = fault.kind === 'status' && fault.status === 400;
  const type = ofRequest ? 'UnsupportedShapeError' : 'InferenceUnavailableError';
  expect(status).toBe(ofRequest ? 400 : 503);
  expect(clean).toBe(true);
  expect(JSON.parse(text).error.type).toBe(type);
  expect(await server.next()).toMatchObject({ kind: 'refused', type });
  expect(bad.stats().requests).toBe(1);
  expect(other.stats().requests).toBe(0);
  expect(server.load.inFlightTotal()).toBe(0);
  expect(server.pools.answerBytes.usedBytes).toBe(0);
  await until(() => bad.stats().inFlight === 0 && server.pools.ticker.size === 0);
}

const late: [string, Fault, 'node' | 'deadline'][] = [
  ['sends an error frame, then [DONE]', { kind: 'error-frame-then-done', afterEvents: 3 }, 'node'],
  ['sends an error frame', { kind: 'error-frame-no-done', afterEvents: 3 }, 'node'],
  ['gives an unknown finish reason, then [DONE]', { kind: 'finish-abort', finishReason: 'abort' }, 'node'],
  ['closes the connection', { kind: 'cut', afterEvents: 3, reset: false }, 'node'],
  ['resets the connection', { kind: 'cut', afterEvents: 3, reset: true }, 'node'],
  ['ends the body cleanly without [DONE]', { kind: 'clean-end-without-done', afterEvents: 3 }, 'node'],
  ['ends with all finishes, but without [DONE]', { kind: 'clean-end-without-done' }, 'node'],
  ['ends with an empty chunk', { kind: 'empty-chunk-end', afterEvents: 3 }, 'node'],
  ['sends garbage', { kind: 'garbage', afterEvents: 3 }, 'node'],
  ['falls silent', { kind: 'stall-after', afterEvents: 3 }, 'deadline'],
  ['sends nothing but comments', { kind: 'stall-after', afterEvents: 3, commentEveryMs: 10 }, 'deadline'],
];

test.each(late)(
  'Events: if a node %s in mid-stream, the stream closes without a terminal frame',
  async (_name, fault, by) => {
    const bad = await sim({}, fault);
    const server = await gateway({ candidates: [routeTo(bad.url)], settings: impatient });
    const { status, text, clean } = await post(server.url + chatPath, {
      ...streamed,
      stream_options: { include_usage: true },
    }).answer;
    expect(status).toBe(200);
    expect(clean).toBe(false);
    expect(text).toContain('echo:');
    expect(text).not.toContain('[DONE]');
    expect(text).not.toContain('error');
    expect(text).not.toContain('"choices":[]');
    const ended = await server.next();
    expect(ended).toMatchObject({ kind: 'ended-early', by });
    expect(JSON.stringify(ended)).not.toContain('echo:');
    expect(server.load.inFlightTotal()).toBe(0);
    await until(() => bad.stats().inFlight === 0 && server.pools.ticker.size === 0);
  },
);

const harmless: [string, Fault][] = [
  ['sends more after [DONE]', { kind: 'extra-after-done' }],
  ['repeats a finish', { kind: 'duplicate-finish' }],
  ['is late', { kind: 'latency', firstTokenMs: 30, betweenTokensMs: 5 }],
  ['sends its body byte by byte, but in time', { kind: 'slow-loris', part: 'body', everyMs: 1 }],
];

test.each(harmless)('an answer from a node that %s still completes', async (_name, fault) => {
  const node = await sim({}, fault);
  const server = await gateway({ candidates: [routeTo(node.url)] });
  const { text, clean } = await post(server.url + chatPath, {
    ...streamed,
    messages: [{ role: 'user', content: 'say 2 words' }],
  }).answer;
  expect(clean).toBe(true);
  expect(text).toMatch(/\[DONE\]\n\n$/);
  expect(text).not.toContain('late');
  expect(await server.next()).toMatchObject({ kind: 'completed' });
});

test('a node that keeps sending after [DONE] is cut off, and its answer is complete', async () => {
  let wasCut = false;
  const node = await handMade((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const choice = { index: 0, delta: { content: 'x' }, finish_reason: 'stop' };
    response.write(`data: ${JSON.stringify({ choices: [choice] })}\n\ndata: [DONE]\n\n`);
    const more = setInterval(() => response.write('y'.repeat(10_000)), 1);
    response.on('close', () => {
      clearInterval(more);
      wasCut = true;
    });
  });
  const server = await gateway({ candidates: [routeTo(node.url)] });
  expect((await post(server.url + chatPath, streamed).answer).clean).toBe(true);
  expect(await server.next()).toMatchObject({ kind: 'completed', usage: { estimated: true } });
  await until(() => wasCut);
});

test('a node that goes silent after [DONE] without ending its body is disconnected', async () => {
  const node = await handMade((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const choice = { index: 0, delta: { content: 'x' }, finish_reason: 'stop' };
    response.write(`data: ${JSON.stringify({ choices: [choice] })}\n\ndata: [DONE]\n\n`);
  });
  const server = await gateway({ candidates: [routeTo(node.url)] });
  expect((await post(server.url + chatPath, streamed).answer).clean).toBe(true);
  expect(server.load.inFlightTotal()).toBe(0);
  await until(() => server.pools.ticker.size === 0);
});

test('a node that pauses within a whole answer is cut off at the limit between two pieces', async () => {
  const node = await sim({}, { kind: 'stall-after', afterEvents: 1 });
  const server = await gateway({
    candidates: [routeTo(node.url)],
    settings: { wholeAnswerMs: 60_000, betweenBytesMs: 100 },
  });
  expect((await post(server.url + chatPath, chat).answer).status).toBe(503);
  expect(await server.next()).toMatchObject({
    reason: 'the node did not send the rest of its answer in time',
  });
});

test('a stall of this gateway does not shorten the time for a whole answer', async () => {
  const ticks = async (count: number) => {
    let left = count;
    const waiting = { index: -1, tick: () => void left-- };
    server.pools.ticker.add(waiting);
    await until(() => left <= 0);
    server.pools.ticker.delete(waiting);
  };
  const message = { role: 'assistant', content: 'x' };
  const answer = JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }] });
  const node = await handMade(async (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write(answer.slice(0, 5));
    await ticks(5);
    stall(2500);
    response.write(answer.slice(5, 10));
    await ticks(5);
    response.end(answer.slice(10));
  });
  const settings = { wholeAnswerMs: 2000, betweenBytesMs: 60_000 };
  const server = await gateway({ candidates: [routeTo(node.url)], settings });
  expect((await post(server.url + chatPath, chat).answer).status).toBe(200);
});

test('a stall of this gateway does not shorten the time to search for a node', async () => {
  const node = await sim();
  let stalls = 0;
  const credential = () => {
    stalls += 1;
    stall(6500);
    return undefined;
  };
  const candidates = [
    routeTo('http://127.0.0.1:1', { credential: 'GPU' }),
    routeTo(node.url, { node: 'n2' }),
  ];
  const server = await gateway({ candidates, credential, random: () => 0 });
  expect((await post(server.url + chatPath, chat).answer).status).toBe(200);
  expect(stalls).toBe(1);
});

test.each([
  ['without an end', 70_000, 100],
  ['that stalls', 10, 2],
])('an error body %s is read only up to its bound', async (_name, pieceBytes, pieces) => {
  let isOpen = true;
  const node = await handMade(async (_request, response) => {
    response.on('error', () => undefined);
    const closed = once(response, 'close').then(() => {
      isOpen = false;
    });
    response.writeHead(500, { 'content-type': 'application/json' });
    for (let sent = 0; sent < pieces && isOpen; sent++) {
      response.write(' '.repeat(pieceBytes));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await closed;
  });
  // With many pieces, the size limit must end the answer long before this time-out does.
  const errorBodyMs = pieces > 10 ? 60_000 : 50;
  const server = await gateway({ candidates: [routeTo(node.url)], settings: { errorBodyMs } });
  expect((await post(server.url + chatPath, chat).answer).status).toBe(503);
  await until(() => !isOpen);
  expect(server.pools.answerBytes.usedBytes).toBe(0);
});

const paddedAnswer = (bytes: number): string =>
  JSON.stringify({
    choices: [{ index: 0, message: { content: 'x' }, finish_reason: 'stop' }],
  }).padEnd(bytes);

test.each([
  ['with a declared length', (text: string, response: ServerResponse) => response.end(text)],
  [
    'in chunks',
    (text: string, response: ServerResponse) => {
      for (const part of text.match(/.{1,100}/g) ?? []) response.write(part);
      response.end();
    },
  ],
])('a whole answer %s is read up to exactly its bound', async (_framing, send) => {
  let bytes = 2000;
  const node = await handMade((_request, response) => {
    response.setHeader('content-type', 'application/json');
    send(paddedAnswer(bytes), response);
  });
  const server = await gateway({ candidates: [routeTo(node.url)], settings: { answerBytesMax: 2000 } });
  expect((await post(server.url + chatPath, chat).answer).status).toBe(200);
  expect(await server.next()).toMatchObject({ kind: 'completed' });
  bytes = 2001;
  expect((await post(server.url + chatPath, chat).answer).status).toBe(503);
  expect(await server.next()).toMatchObject({ reason: 'the answer of the node is too large' });
  expect(server.pools.answerBytes.usedBytes).toBe(0);
});

test('a node whose whole answer never ends is cut off at the bound', async () => {
  let isOpen = true;
  const node = await handMade(async (_request, response) => {
    response.on('error', () => undefined);
    response.on('close', () => {
      isOpen = false;
    });
    response.writeHead(200, { 'content-type': 'application/json' });
    // Without a limit on answers, this answer would take all the memory that its owner may use.
    for (let sent = 0; sent < 100_000_000 && isOpen; sent += 65_536) {
      response.write(' '.repeat(65_536));
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
  const server = await gateway({ candidates: [routeTo(node.url)] });
  expect((await post(server.url + chatPath, chat).answer).status).toBe(503);
  expect(await server.next()).toMatchObject({ reason: 'the answer of the node is too large' });
  await until(() => !isOpen);
  expect(server.pools.answerBytes.usedBytes).toBe(0);
});

test('a node that sends endless early responses is cut off', async () => {
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined);
    const more = setInterval(() => socket.write('HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'), 1);
    socket.on('close', () => clearInterval(more));
  });
  const port = await listens(server);
  const forwarding = await gateway({ candidates: [routeTo(`http://127.0.0.1:${port}`)] });
  expect((await post(forwarding.url + chatPath, streamed).answer).status).toBe(503);
  expect(await forwarding.next()).toMatchObject({ reason: 'the node sent too many early answers' });
});

const eventOf = (fields: object): string => `data: ${JSON.stringify(fields)}\n\n`;
/** Events that an engine may send before its first good event. */
const preludes = {
  'the head alone': '',
  comments: ': waiting\n\n'.repeat(3),
  'events without a choice': eventOf({ choices: [] }).repeat(3),
  'usage alone': eventOf({ choices: [], usage: { prompt_tokens: 6, completion_tokens: 0 } }),
};
const surfaces = [
  [chatPath, streamed, '"delta":{"role":"assistant"'],
  ['/v1/messages', { ...streamed, max_tokens: 9 }, 'event: message_start'],
] as const;

/** Lets the node send these events one by one and then an error, and returns the client's answer. */
async function failingAfter(events: readonly string[], path: string, body: object) {
  const node = await handMade(async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    for (const event of events) await new Promise((resolve) => response.write(event, resolve));
    response.end(eventOf({ error: { message: 'failed' } }));
  });
  const server = await gateway({ candidates: [routeTo(node.url)] });
  const answer = await post(server.url + path, body).answer;
  return { ...answer, ended: await server.next() };
}

test.each(
  Object.entries(preludes).flatMap(([name, prelude]) =>
    surfaces.map(([path, body, opening]) => ({ name, prelude, path, body, opening })),
  ),
)('the status is held back until the first good event: $name on $path', async (given) => {
  const { prelude, path, body, opening } = given;
  const { status, clean, ended } = await failingAfter([prelude], path, body);
  expect({ status, clean, ended }).toMatchObject({ status: 503, clean: true, ended: { kind: 'refused' } });
  // A delta that contains only the role already counts as a good event.
  const role = eventOf({ choices: [{ index: 0, delta: { role: 'assistant' } }] });
  const begun = await failingAfter([prelude, role], path, body);
  expect(begun).toMatchObject({ status: 200, clean: false, ended: { kind: 'ended-early', by: 'node' } });
  expect(begun.text).toContain(opening);
});

test('a node that refuses the connection is passed over for another candidate, and set aside afterwards', async () => {
  const live = await sim();
  const candidates = [routeTo(await deadUrl(), { node: 'dead' }), routeTo(live.url, { node: 'live' })];
  const server = await gateway({ candidates, random: () => 0 });
  expect((await post(server.url + chatPath, streamed).answer).clean).toBe(true);
  expect(await server.next()).toMatchObject({ kind: 'completed', node: 'live' });
  expect(server.load.isEjected('dead')).toBe(true);
  expect(server.load.isEjected('live')).toBe(false);
});

test('a node that does not accept a connection in time is passed over for another candidate', async () => {
  // This node never completes the TLS handshake, so no byte of the request is sent.
  const silent = createTcpServer((socket) => socket.on('error', () => undefined));
  const live = await sim();
  const candidates = [
    routeTo(`https://127.0.0.1:${await listens(silent)}`, { node: 'silent' }),
    routeTo(live.url, { node: 'live' }),
  ];
  const server = await gateway({ candidates, connectMs: 1000, random: () => 0 });
  expect((await within(1800, post(server.url + chatPath, chat).answer)).status).toBe(200);
  expect(await server.next()).toMatchObject({ kind: 'completed', node: 'live' });
});

test('if no candidate accepts a connection, the request is refused', async () => {
  const candidates = [routeTo(await deadUrl(), { node: 'a' }), routeTo(await deadUrl(), { node: 'b' })];
  const server = await gateway({ candidates });
  expect((await post(server.url + chatPath, chat).answer).status).toBe(503);
  expect(await server.next()).toMatchObject({ reason: 'the connection to the node failed: ECONNREFUSED' });
});

test.each<[Dialect, object]>([
  ['vllm', chat],
  ['vllm', streamed],
  ['sglang', chat],
  ['sglang', streamed],
  ['llamacpp', chat],
  ['llamacpp', streamed],
])('Limits 3: a context error of %s becomes 413 and names the window (%j)', async (dialect, body) => {
  const node = await sim({ dialect, contextTokens: 64 });
  const server = await gateway({ candidates: [routeTo(node.url, { dialect })] });
  const long = { ...body, messages: [{ role: 'user', content: 'long '.repeat(200) }] };
  const { status, text } = await post(server.url + chatPath, long).answer;
  expect(status).toBe(413);
  expect(JSON.parse(text).error.type).toBe('ContextWindowExceededError');
  expect(JSON.parse(text).error.message).toContain('64 tokens');
  expect(server.load.isEjected('n1')).toBe(false);
});

test('Errors 2: a field that the dialect cannot carry is refused, and nothing is sent', async () => {
  const node = await sim({ dialect: 'ollama' });
  const server = await gateway({ candidates: [routeTo(node.url, { dialect: 'ollama' })] });
  const { status, text } = await post(server.url + chatPath, { ...chat, logit_bias: { 1: 5 } }).answer;
  expect(status).toBe(400);
  expect(JSON.parse(text).error).toMatchObject({ type: 'UnsupportedShapeError' });
  expect(JSON.parse(text).error.message).toMatch(/^logit_bias/);
  expect(node.stats().requests).toBe(0);
});

test('among several candidates, the one whose dialect carries the request is found', async () => {
  const ollama = await sim({ dialect: 'ollama' });
  const vllm = await sim();
  const server = await gateway({
    candidates: [routeTo(ollama.url, { node: 'o', dialect: 'ollama' }), routeTo(vllm.url, { node: 'v' })],
    random: () => 0,
  });
  expect((await post(server.url + chatPath, { ...chat, logit_bias: { 1: 5 } }).answer).status).toBe(200);
  expect(await server.next()).toMatchObject({ node: 'v' });
});

test('Events: a client that leaves in mid-stream ends the node’s request at once and is not held against the node', async () => {
  const node = await sim({ tokensPerSecond: 50 });
  const server = await gateway({
    candidates: [routeTo(node.url), routeTo(await deadUrl(), { node: 'n2' })],
    random: () => 0,
  });
  for (let i = 1; i <= 5; i += 1) {
    const asked = post(server.url + chatPath, {
      ...streamed,
      messages: [{ role: 'user', content: 'say 500 words' }],
    });
    await asked.until('echo:');
    asked.request.destroy();
    expect(await server.next()).toEqual({
      kind: 'ended-early',
      node: 'n1',
      by: 'client',
      reason: 'the client left',
      spent: { promptTokens: 4, completionTokens: expect.any(Number), estimated: true },
    });
    await until(() => node.stats().abortedByClient === i, 300);
  }
  expect(server.load.isEjected('n1')).toBe(false);
  expect(server.pools.ticker.size).toBe(0);
});

test.each([
  ['before the first event', streamed],
  ['before a whole answer', chat],
])('a client that leaves %s ends the node’s request at once', async (_name, body) => {
  const node = await sim({}, { kind: 'stall' });
  const server = await gateway({ candidates: [routeTo(node.url)] });
  const asked = post(server.url + chatPath, body);
  await until(() => node.stats().inFlight === 1);
  asked.request.destroy();
  expect(await server.next()).toMatchObject({ kind: 'ended-early', by: 'client' });
  await until(() => node.stats().inFlight === 0, 300);
});

test('if a client leaves while its node is being connected, the node is sent nothing', async () => {
  const silent = createTcpServer((socket) => socket.on('error', () => undefined));
  const live = await sim();
  const server = await gateway({
    candidates: [
      routeTo(`https://127.0.0.1:${await listens(silent)}`, { node: 'silent' }),
      routeTo(live.url),
    ],
    random: () => 0,
  });
  const asked = post(server.url + chatPath, chat);
  await until(() => server.load.inFlight('silent') === 1);
  asked.request.destroy();
  expect(await server.next()).toMatchObject({ kind: 'ended-early', node: 'silent', by: 'client' });
  expect(live.stats().requests).toBe(0);
});

test('a client that left before anything was sent costs no node a request', async () => {
  const node = await sim();
  const server = await gateway({
    candidates: [routeTo(node.url)],
    beforeForward: ({ gone }) => once(gone, 'abort'),
  });
  const asked = post(server.url + chatPath, chat);
  await until(() => server.sockets.size === 1);
  asked.request.destroy();
  expect(await server.next()).toMatchObject({ kind: 'ended-early', by: 'client' });
  expect(node.stats().requests).toBe(0);
});

test('Events: an answer that its client never received is not billed', async () => {
  const node = await handMade((_request, response) => {
    const message = { content: 'x'.repeat(25_000_000) };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }] }));
  });
  const server = await gateway({ candidates: [routeTo(node.url)] });
  const asked = post(server.url + chatPath, chat);
  const [response] = await once(asked.request, 'response');
  response.pause();
  expect(server.pools.answerBytes.usedBytes, 'held until the client has it').toBeGreaterThan(25_000_000);
  asked.request.destroy();
  expect(await server.next()).toMatchObject({ kind: 'ended-early', by: 'client' });
  expect(server.pools.answerBytes.usedBytes).toBe(0);
});

test.each([
  ['a whole answer', chat],
  ['a stream of which it sends only the head', streamed],
])(
  'a node that never answers is set aside once clients have given up after ten seconds: %s',
  async (_, body) => {
    const stuck = await handMade((req, res) => {
      if (req.headers.accept !== 'text/event-stream') return;
      res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    });
    const well = await sim();
    const candidates = [routeTo(stuck.url, { node: 'stuck' }), routeTo(well.url, { node: 'well' })];
    const clock = { ms: 0 };
    const server = await gateway({ candidates, now: () => clock.ms, random: () => 0 });
    const { load } = server;
    for (let request = 0; request < 3; request += 1) {
      const { answer, request: sent } = post(server.url + chatPath, body);
      await until(() => load.inFlight('stuck') === 1);
      clock.ms += 5000;
      sent.destroy();
      await answer.catch(() => undefined);
      expect(await server.next()).toMatchObject({ kind: 'ended-early', by: 'client', node: 'stuck' });
    }
    expect(load.hanging()).toEqual(['stuck']);
    expect((await post(server.url + chatPath, body).answer).status).toBe(200);
    expect(await server.next()).toMatchObject({ kind: 'completed', node: 'well' });
  },
);

test('error responses do not set a node aside, but broken answers do', async () => {
  const node = await sim({}, { kind: 'status', status: 500 });
  const server = await gateway({ candidates: [routeTo(node.url)] });
  for (let i = 0; i < 5; i += 1) await post(server.url + chatPath, chat).answer;
  expect(server.load.isEjected('n1')).toBe(false);
  node.setBehaviour({ rules: [{ match: {}, fault: { kind: 'cut', afterEvents: 0, reset: true } }] });
  for (let i = 0; i < 3; i += 1) await post(server.url + chatPath, streamed).answer;
  expect(server.load.isEjected('n1')).toBe(true);
});

const chunkOf = (choice: object): string => eventOf({ choices: [{ index: 0, ...choice }] });
const toolCall = { index: 0, id: 'a', function: { name: 'f', arguments: '[1]' } };
const tools = [{ name: 'f', input_schema: { type: 'object' } }];
/** Answers that fit only their requests, because the prompt determines what a model writes and how much. */
const askedFor: Record<string, { path: string; body: object; answer: string }> = {
  'a whole answer that is too large': { path: chatPath, body: chat, answer: paddedAnswer(2001) },
  'an event that is too large': {
    path: chatPath,
    body: streamed,
    answer: chunkOf({ delta: { content: 'x'.repeat(1_100_000) } }),
  },
  'an event with too many values': {
    path: chatPath,
    body: streamed,
    answer: chunkOf({ delta: {}, logprobs: { content: Array(60_000).fill(1) } }),
  },
  'too many tool calls': {
    path: chatPath,
    body: streamed,
    answer: chunkOf({
      delta: { tool_calls: Array.from({ length: 200 }, (_, index) => ({ ...toolCall, index })) },
    }),
  },
  'tool input that is not an object': {
    path: '/v1/messages',
    body: { ...streamed, max_tokens: 9, tools },
    answer: chunkOf({ delta: { tool_calls: [toolCall] } }),
  },
};

test.each(Object.entries(askedFor))(
  'one tenant cannot get a node ejected for others by the answers it provokes: %s',
  async (_name, { path, body, answer }) => {
    let accept: string | undefined;
    const node = await handMade((request, response) => {
      accept = request.headers.accept ?? '';
      response.writeHead(200, { 'content-type': accept }).end(answer);
    });
    const server = await gateway({ candidates: [routeTo(node.url)], settings: { answerBytesMax: 2000 } });
    const asTenant = async (tenant: string): Promise<boolean> => {
      await post(server.url + path, body, { headers: { 'x-tenant': tenant } }).answer;
      expect(await server.next()).not.toMatchObject({ kind: 'completed' });
      return server.load.isEjected('n1');
    };
    for (let i = 0; i < 5; i += 1) expect(await asTenant('greedy')).toBe(false);
    // The node is at fault if no tenant gets a usable answer.
    expect([await asTenant('other'), await asTenant('third')]).toEqual([false, true]);
    expect(server.pools.answerBytes.usedBytes).toBe(0);
  },
);

test('many slow streams do not hold up another request to the same node', async () => {
  const node = await sim({ tokensPerSecond: 20 });
  const server = await gateway({ candidates: [routeTo(node.url)] });
  const slow = Array.from({ length: 60 }, () =>
    post(server.url + chatPath, { ...streamed, messages: [{ role: 'user', content: 'say 2000 words' }] }),
  );
  await Promise.all(slow.map((one) => one.until('echo:')));
  const quick = await post(`${server.url}/v1/embeddings`, { model: 'm', input: 'a' }).answer;
  expect(quick.status).toBe(200);
  expect(server.load.inFlight('n1')).toBe(60);
  for (const { request } of slow) request.destroy();
  await until(() => server.load.inFlightTotal() === 0);
});

/** Starts a node that sends 50 MB in events of 16 KB, as fast as they are read. */
async function torrent(): Promise<{ url: string; taken: () => number; pieces: () => number }> {
  let taken = 0;
  const frame = (choice: object): string =>
    `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`;
  const piece = frame({ delta: { content: 'z'.repeat(16_000) } });
  const node = await handMade(async (_request, response) => {
    response.on('error', () => undefined);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const closed = once(response, 'close');
    while (taken < 50_000_000 && !response.destroyed) {
      taken += piece.length;
      if (!response.write(piece))
        await Promise.race([new Promise((resolve) => response.once('drain', resolve)), closed]);
    }
    response.end(`${frame({ delta: {}, finish_reason: 'stop' })}data: [DONE]\n\n`);
  });
  return { url: node.url, taken: () => taken, pieces: () => taken / piece.length };
}

test('a client that reads slowly slows its node down, and receives everything in the end', async () => {
  const node = await torrent();
  const server = await gateway({ candidates: [routeTo(node.url)], settings: { betweenEventsMs: 200 } });
  const asked = post(server.url + chatPath, streamed);
  const [response] = await once(asked.request, 'response');
  response.pause();
  let before = -1;
  await until(() => node.taken() > 0);
  // Wait longer than the limit on the time between events, which does not apply while the client is slow.
  for (let quiet = 0; quiet < 4; ) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    quiet = node.taken() === before ? quiet + 1 : 0;
    before = node.taken();
  }
  expect(node.taken()).toBeLessThan(25_000_000);
  for (const socket of server.sockets) expect(socket.writableLength).toBeLessThan(1_000_000);
  response.resume();
  const { clean, text } = await asked.answer;
  expect(clean).toBe(true);
  expect(text.match(/z{16000}/g)).toHaveLength(node.pieces());
  expect(await server.next()).toMatchObject({ kind: 'completed' });
}, 30_000);

test('a client that does not read at all is cut off, and its node’s request is ended', async () => {
  const node = await torrent();
  const server = await gateway({ candidates: [routeTo(node.url)], stallMs: 200 });
  const asked = post(server.url + chatPath, streamed);
  const [response] = await once(asked.request, 'response');
  response.pause();
  expect(await server.next()).toMatchObject({ kind: 'ended-early', by: 'client' });
  expect(node.taken()).toBeLessThan(25_000_000);
  response.destroy();
});
