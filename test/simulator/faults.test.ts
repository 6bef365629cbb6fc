/**
 * Tests that every fault does on the wire what its name says. Each test has one node, one rule and one request over a plain
 * socket. The client records all bytes and how the connection ended.
 */
import { connect, type Socket } from 'node:net';
import { afterEach, expect, test, vi } from 'vitest';
import { type Fault, parseBehaviour } from './behaviour.ts';
import { type FaultyNode, type FaultyNodeOptions, startFaultyNode } from './faulty-node.ts';

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const thing of open.splice(0).reverse()) await thing.close();
});

interface ReceivedAnswer {
  readonly socket: Socket;
  text: string;
  /** How the connection ended, or undefined while it is still open. */
  end: 'fin' | 'reset' | undefined;
}

async function spoilt(fault: unknown, options: Partial<FaultyNodeOptions> = {}): Promise<FaultyNode> {
  const behaviour = parseBehaviour({ rules: [{ fault }] });
  const node = await startFaultyNode({ models: ['m'], tokensPerSecond: 0, behaviour, ...options });
  open.push(node);
  return node;
}

function ask(node: FaultyNode, stream: boolean, more = {}): ReceivedAnswer {
  const body = JSON.stringify({
    model: 'm',
    stream,
    messages: [{ role: 'user', content: 'hello' }],
    ...more,
  });
  const socket = connect(node.port, '127.0.0.1');
  const seen: ReceivedAnswer = { socket, text: '', end: undefined };
  socket.setEncoding('latin1');
  socket.on('data', (text: string) => {
    seen.text += text;
  });
  socket.on('error', () => {
    seen.end = 'reset';
  });
  socket.on('end', () => {
    seen.end ??= 'fin';
  });
  socket.write(
    'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n' +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  open.push({ close: () => socket.destroy() });
  return seen;
}

async function ended(seen: ReceivedAnswer): Promise<ReceivedAnswer> {
  await vi.waitFor(() => expect(seen.end).toBeDefined(), { timeout: 5000, interval: 2 });
  return seen;
}

/** Waits for the text and then for one round trip, during which any further bytes would have arrived. */
async function held(node: FaultyNode, seen: ReceivedAnswer, text: string): Promise<void> {
  await vi.waitFor(() => expect(seen.text).toContain(text), { timeout: 5000, interval: 2 });
  await fetch(`${node.url}/sim/stats`);
  expect(seen.end).toBeUndefined();
  expect(node.stats().inFlight).toBe(1);
}

/** Returns the data frames of a raw answer, without chunk framing. */
function frames(seen: ReceivedAnswer): string[] {
  const body = seen.text.slice(seen.text.indexOf('\r\n\r\n') + 4).replaceAll(/(?:^|\r\n)[0-9a-f]+\r\n/g, '');
  return [...body.matchAll(/^data: (.*)$/gm)].map((match) => match[1] ?? '');
}

const chunkedEnd = '\r\n0\r\n\r\n';
const choicesOf = (frame: string) => JSON.parse(frame).choices;

test('a healthy stream ends with its terminator and a clean end', async () => {
  const node = await spoilt({ kind: 'latency', firstTokenMs: 1 });
  const seen = await ended(ask(node, true));
  expect(frames(seen).at(-1)).toBe('[DONE]');
  expect(seen.text.endsWith(chunkedEnd)).toBe(true);
  expect(node.stats()).toMatchObject({ terminated: 1, completed: 1, faults: 0, inFlight: 0 });
});

test.each([true, false])(
  'refuse: the connection is reset and nothing is answered (stream %s)',
  async (stream) => {
    const node = await spoilt({ kind: 'refuse' });
    expect(await ended(ask(node, stream))).toMatchObject({ text: '', end: 'reset' });
    await vi.waitFor(() =>
      expect(node.stats()).toMatchObject({ faults: 1, inFlight: 0, abortedByClient: 0 }),
    );
  },
);

test('stall: nothing is answered, the connection stays, and the client’s disconnection is counted', async () => {
  const node = await spoilt({ kind: 'stall' });
  const seen = ask(node, true);
  await vi.waitFor(() => expect(node.stats().inFlight).toBe(1));
  await held(node, seen, '');
  expect(seen.text).toBe('');
  seen.socket.destroy();
  await vi.waitFor(() => expect(node.stats()).toMatchObject({ inFlight: 0, abortedByClient: 1 }));
});

test('stall-after: a number of events, then silence with an open socket', async () => {
  const node = await spoilt({ kind: 'stall-after', afterEvents: 3 });
  const seen = ask(node, true);
  await held(node, seen, ' hello');
  expect(frames(seen)).toHaveLength(3);
});

test('stall-after 0: a status line but no events', async () => {
  const node = await spoilt({ kind: 'stall-after', afterEvents: 0 });
  const seen = ask(node, true);
  await held(node, seen, '200 OK');
  expect(frames(seen)).toHaveLength(0);
});

test('stall-after with comments: comments continue, events do not', async () => {
  const node = await spoilt({ kind: 'stall-after', afterEvents: 2, commentEveryMs: 5 });
  const seen = ask(node, true);
  await vi.waitFor(() => expect(seen.text.match(/^: /gm)?.length).toBeGreaterThan(2), 5000);
  expect(frames(seen)).toHaveLength(2);
});

test('stall-after on a whole body: half of it', async () => {
  const node = await spoilt({ kind: 'stall-after', afterEvents: 1 });
  const seen = ask(node, false);
  await held(node, seen, 'chat.completion');
  const [head = '', body = ''] = seen.text.split('\r\n\r\n');
  expect(body.length).toBe(Math.floor(Number(/content-length: (\d+)/.exec(head)?.[1]) / 2));
});

test.each([500, 503, 429, 400])('status %i: an error in the dialect’s form', async (status) => {
  const node = await spoilt(
    { kind: 'status', status, headers: { 'retry-after': '7' } },
    { dialect: 'sglang' },
  );
  const seen = await ended(ask(node, true));
  expect(seen.text).toMatch(
    new RegExp(`^HTTP/1.1 ${status} [\\s\\S]*retry-after: 7\r\n[\\s\\S]*{"object":"error","message"`),
  );
});

test('status with a body: exactly that body', async () => {
  const node = await spoilt({ kind: 'status', status: 401, body: { error: 'Unauthorized' } });
  expect((await ended(ask(node, true))).text).toMatch(/ 401 [\s\S]*\{"error":"Unauthorized"\}$/);
});

test.each([
  { kind: 'error-frame-then-done', done: true },
  { kind: 'error-frame-no-done', done: false },
] as const)('$kind: status 200, an error in mid-stream, a clean end', async ({ kind, done }) => {
  const node = await spoilt({ kind, afterEvents: 2 });
  const seen = await ended(ask(node, true));
  const tail = frames(seen).slice(2);
  expect(JSON.parse(tail[0] ?? '')).toMatchObject({ error: { code: 500 } });
  expect(tail.slice(1)).toEqual(done ? ['[DONE]'] : []);
  expect(seen.text.endsWith(chunkedEnd)).toBe(true);
  expect(node.stats()).toMatchObject({ terminated: 0, completed: 0, faults: 1 });
});

test('error-frame on a whole body: a 500', async () => {
  const node = await spoilt({ kind: 'error-frame-no-done' });
  expect((await ended(ask(node, false))).text).toMatch(/^HTTP\/1.1 500 /);
});

test('finish-abort: an unknown finish reason, then the terminator', async () => {
  const node = await spoilt({ kind: 'finish-abort' });
  const seen = frames(await ended(ask(node, true)));
  expect(choicesOf(seen.at(-2) ?? '')[0].finish_reason).toBe('abort');
  expect(seen.at(-1)).toBe('[DONE]');
});

test.each([
  { reset: false, end: 'fin' },
  { reset: true, end: 'reset' },
] as const)(
  'cut: the stream breaks off before the end of the body (reset: $reset)',
  async ({ reset, end }) => {
    const node = await spoilt({ kind: 'cut', afterEvents: 2, reset });
    const seen = await ended(ask(node, true));
    expect(seen.end).toBe(end);
    // A reset may overtake bytes that were sent before it.
    if (!reset) expect(frames(seen)).toHaveLength(2);
    expect(seen.text.endsWith(chunkedEnd)).toBe(false);
  },
);

test('cut on a whole body: fetch fails', async () => {
  const node = await spoilt({ kind: 'cut', afterEvents: 0 });
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }] });
  const init = { method: 'POST', body, headers: { 'content-type': 'application/json' } };
  const response = await fetch(`${node.url}/v1/chat/completions`, init);
  await expect(response.text()).rejects.toThrow();
});

test('clean-end-without-done: every event, no terminator, a clean end', async () => {
  const node = await spoilt({ kind: 'clean-end-without-done' });
  const seen = await ended(ask(node, true));
  expect(choicesOf(frames(seen).at(-1) ?? '')[0].finish_reason).toBe('stop');
  expect(seen.text.endsWith(chunkedEnd)).toBe(true);
});

test('empty-chunk-end: an empty chunk without a model, then a clean end', async () => {
  const node = await spoilt({ kind: 'empty-chunk-end' });
  const seen = await ended(ask(node, true));
  const last = JSON.parse(frames(seen).at(-1) ?? '');
  expect(last).toMatchObject({ model: '', choices: [{ delta: { content: '' }, finish_reason: null }] });
  expect(seen.text.endsWith(chunkedEnd)).toBe(true);
});

test.each([{ prompt_tokens: -1 }, 'many', null, { prompt_tokens: '5', completion_tokens: 1e99 }])(
  'wrong-usage: %j is reported unchanged',
  async (usage) => {
    const node = await spoilt({ kind: 'wrong-usage', usage });
    const seen = frames(await ended(ask(node, true, { stream_options: { include_usage: true } })));
    expect(JSON.parse(seen.at(-2) ?? '').usage).toEqual(usage);
    const body = (await ended(ask(node, false))).text.split('\r\n\r\n')[1] ?? '';
    expect(JSON.parse(body).usage).toEqual(usage);
  },
);

test('wrong-usage without a value: no usage', async () => {
  const node = await spoilt({ kind: 'wrong-usage' });
  const seen = await ended(ask(node, true, { stream_options: { include_usage: true } }));
  expect(seen.text).not.toContain('usage');
  expect((await ended(ask(node, false))).text).not.toContain('usage');
});

test('slow-loris head: the head arrives byte by byte', async () => {
  const node = await spoilt({ kind: 'slow-loris', part: 'head', everyMs: 50 });
  const seen = ask(node, true);
  await vi.waitFor(() => expect(seen.text).toBe('HTT'), { timeout: 5000, interval: 2 });
});

test('slow-loris body: the head at once, and the whole body byte by byte', async () => {
  const node = await spoilt({ kind: 'slow-loris', part: 'body', everyMs: 1 });
  const seen = ask(node, false, { max_tokens: 1 });
  await vi.waitFor(() => expect(seen.text).toContain('\r\n\r\n'), { timeout: 5000, interval: 2 });
  expect(seen.text).not.toContain('finish_reason');
  await ended(seen);
  expect(JSON.parse(seen.text.split('\r\n\r\n')[1] ?? '').choices[0].message.content).toBe('echo:');
});

test('garbage: something other than JSON', async () => {
  const node = await spoilt({ kind: 'garbage', afterEvents: 1 });
  const seen = frames(await ended(ask(node, true)));
  expect(() => JSON.parse(seen[1] ?? '')).toThrow(SyntaxError);
  const body = (await ended(ask(node, false))).text.split('\r\n\r\n')[1] ?? '';
  expect(() => JSON.parse(body)).toThrow(SyntaxError);
});

test('huge-event: one valid event of the given size, then the rest', async () => {
  const node = await spoilt({ kind: 'huge-event', bytes: 300_000 });
  const seen = await ended(ask(node, true));
  const body = seen.text.slice(seen.text.indexOf('\r\n\r\n') + 4).replaceAll(/(?:^|\r\n)[0-9a-f]+\r\n/g, '');
  const [first = ''] = body.split('\n\n');
  expect(JSON.parse(first.slice('data: '.length)).choices[0].delta.content).toHaveLength(300_000);
  expect(body).toContain('[DONE]');
  const whole = (await ended(ask(node, false))).text.split('\r\n\r\n')[1] ?? '';
  expect(whole.length).toBeGreaterThan(300_000);
  expect(JSON.parse(whole)).toHaveProperty('choices');
});

test('endless-headers: header lines until the client disconnects', async () => {
  const node = await spoilt({ kind: 'endless-headers', everyMs: 1 });
  const seen = ask(node, true);
  await vi.waitFor(() => expect(seen.text.length).toBeGreaterThan(20_000), { timeout: 5000, interval: 2 });
  expect(seen.text).not.toContain('\r\n\r\n');
  seen.socket.destroy();
  await vi.waitFor(() => expect(node.stats()).toMatchObject({ inFlight: 0, abortedByClient: 1 }));
});

test('redirect: another address', async () => {
  const node = await spoilt({ kind: 'redirect', location: 'http://192.0.2.1/' });
  expect((await ended(ask(node, true))).text).toMatch(
    /^HTTP\/1.1 302 [\s\S]*location: http:\/\/192.0.2.1\/\r\n/,
  );
});

test('extra-after-done: bytes after the terminator', async () => {
  const node = await spoilt({ kind: 'extra-after-done' });
  expect(frames(await ended(ask(node, true))).slice(-2)[0]).toBe('[DONE]');
});

test('duplicate-finish: every choice finishes twice', async () => {
  const node = await spoilt({ kind: 'duplicate-finish' });
  const seen = frames(await ended(ask(node, true, { n: 2 })));
  const finished = seen
    .slice(0, -1)
    .flatMap(choicesOf)
    .filter((choice) => choice.finish_reason === 'stop');
  expect(finished.map((choice) => choice.index)).toEqual([0, 0, 1, 1]);
});

test('content-type: the right body under a wrong type', async () => {
  const node = await spoilt({ kind: 'content-type', contentType: 'text/html' });
  const seen = await ended(ask(node, true));
  expect(seen.text).toContain('content-type: text/html\r\n');
  expect(frames(seen).at(-1)).toBe('[DONE]');
});

test('latency: a delay before the first event', async () => {
  const node = await spoilt({ kind: 'latency', firstTokenMs: 60 });
  const began = performance.now();
  const seen = ask(node, true);
  await vi.waitFor(() => expect(frames(seen).length).toBeGreaterThan(0), { timeout: 5000, interval: 1 });
  expect(performance.now() - began).toBeGreaterThanOrEqual(60);
});

test.each([
  { how: 'eof', end: 'fin' },
  { how: 'client timeout 40s', end: undefined },
])('replay: the recorded bytes, then the recorded end ($how)', async ({ how, end }) => {
  const answer = 'HTTP/1.1 299 Recorded\r\nx-odd:  two\r\n\r\ndata: {"t":"\u00e2\u0082\u00ac"}\n\n';
  const node = await spoilt({ kind: 'replay', text: `=== RESPONSE\n${answer}\n=== END ${how}; 1 bytes\n` });
  const seen = ask(node, true);
  if (end === undefined) await held(node, seen, 'data:');
  else await ended(seen);
  expect(seen).toMatchObject({ text: answer, end });
});

test('a fault on another path affects health but not completions', async () => {
  const rules = [{ match: { path: '/health' }, fault: { kind: 'status', status: 503 } satisfies Fault }];
  const node = await spoilt({ kind: 'stall' });
  node.setBehaviour(parseBehaviour({ rules }));
  expect((await fetch(`${node.url}/health`)).status).toBe(503);
  expect(frames(await ended(ask(node, true))).at(-1)).toBe('[DONE]');
});
