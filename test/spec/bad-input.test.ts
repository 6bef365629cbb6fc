/**
 * Sends malformed input over raw sockets. Each request must get the standard error envelope, with three exceptions: a flood
 * of headers may be cut off, and blank lines or a request whose client leaves may get no answer. The gateway must keep
 * serving after each. Neither answers nor logs may repeat a key, a prompt or a header's value.
 */

import { connect } from 'node:net';
import { Writable } from 'node:stream';
import fc from 'fast-check';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { refusalKinds } from '../../schemas/api/refusals.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { type Answer, answerOf, call, chat, chatBody } from '../support/api.ts';
import { runs } from '../support/budget.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { rawRequest } from '../support/raw-http.ts';
import { RawPeer, statusesIn } from '../support/raw-peer.ts';
import { specFleet, stackHost } from '../support/spec-fleet.ts';
import { inferences } from '../support/witness.ts';

/** Secret text in every prompt, header and field that this file sends. No answer or log line may contain it. */
const secret = 'hush-hush-7f3a';
const chatPath = '/v1/chat/completions';
let logged = '';
let fleet: TestFleet;
let port: number;
let acme: string;
beforeAll(async () => {
  const sink = new Writable({
    write: (chunk, _encoding, done) => {
      logged += String(chunk);
      done();
    },
  });
  fleet = await startFleet({ fleet: specFleet, gateway: { logger: pino({ level: 'trace' }, sink) } });
  port = fleet.port();
  acme = (await fleet.key('acme')).value;
  await fleet.settle();
});
afterAll(() => fleet.close());

afterEach(async () => {
  const answer = await chat({ port, key: acme, model: 'echo-small' });
  expect(answer.status, 'the gateway still serves').toBe(200);
  for (const line of logged.split('\n')) {
    const leaked = [secret, acme, 'request failed'].filter((text) => line.includes(text));
    if (leaked.length > 0) expect.fail(`the log contains: ${line.slice(0, 600)}`);
  }
  logged = '';
});

/** Returns the statuses of all answers on the connection. Checks that refusals are standard envelopes and repeat no input. */
function refusalsIn(text: string): number[] {
  expect(text.includes(secret) || text.includes(acme), 'contains what was sent').toBe(false);
  const statuses: number[] = [];
  for (let rest = text; rest !== ''; ) {
    const head = rest.slice(0, rest.indexOf('\r\n\r\n') + 4);
    expect(head, 'a whole head').toMatch(/^HTTP\/1\.1 \d{3} [^\r\n]+\r\n/);
    const length = Number(/^content-length: (\d+)\r$/im.exec(head)?.[1]);
    const body = rest.slice(head.length, head.length + length);
    rest = rest.slice(head.length + length);
    const status = Number(head.slice(9, 12));
    statuses.push(status);
    if (status < 400) continue;
    const { error } = JSON.parse(body);
    expect(Object.keys(error)).toEqual(['code', 'type', 'message', 'status', 'path']);
    expect(error.status).toBe(status);
    expect(refusalKinds).toHaveProperty(error.type);
    expect(head).toMatch(/^content-type: application\/json\r$/im);
    expect(head).toMatch(/^x-request-id: req_[0-9a-f]{32}\r$/im);
  }
  return statuses;
}

const sent = async (bytes: string | Buffer): Promise<number[]> =>
  refusalsIn((await rawRequest(port, bytes)).text);

const head = (line: string, ...lines: string[]): string =>
  [line, 'Host: 127.0.0.1', 'Connection: close', ...lines, '', ''].join('\r\n');
const withKey = (line: string, ...lines: string[]): string =>
  head(line, `Authorization: Bearer ${acme}`, ...lines);
const posted = (body: string | Buffer, ...lines: string[]): Buffer =>
  Buffer.concat([
    Buffer.from(
      withKey(
        `POST ${chatPath} HTTP/1.1`,
        'Content-Type: application/json',
        `Content-Length: ${Buffer.byteLength(body)}`,
        ...lines,
      ),
    ),
    Buffer.from(body),
  ]);

test.each([
  ['a percent sign that escapes nothing', '/v1/%zz', 404],
  ['an escaped zero byte', '/v1/models/%00', 404],
  ['half a UTF-8 character', '/v1/models/%e4%bd', 404],
  ['the absolute form', `http://127.0.0.1${chatPath}`, 400],
  ['a stack’s absolute form', `http://${stackHost('otter')}/v1/models`, 400],
  ['no leading slash', 'v1/models', 400],
  ['an asterisk', '*', 400],
  ['dots that lead upwards', '/v1/../../etc/passwd', 404],
  ['a path of 8 KB', `/v1/models/${'a'.repeat(8192)}`, 404],
  ['a query of 8 KB', `/v1/models?${secret}${'a'.repeat(8192)}`, 200],
  ['a fragment', '/v1/models#x', 404],
  ['a backslash', '/v1\\models', 404],
  ['a semicolon', '/v1/models;x=1', 404],
])('URLs: %s', async (_what, url, status) => {
  expect(await sent(withKey(`GET ${url} HTTP/1.1`))).toEqual([status]);
});

test('Error envelope: the path is the one that was requested, in any script', async () => {
  for (const path of ['/v1/models/é', '/v1/日本']) {
    const { body } = await rawRequest(port, withKey(`GET ${path}?ü HTTP/1.1`));
    expect(JSON.parse(Buffer.from(body, 'latin1').toString('utf8'))).toMatchObject({ error: { path } });
  }
});

test.each([
  ['a space inside', 'GET /v1/ models HTTP/1.1'],
  ['a tab inside', 'GET /v1/\tmodels HTTP/1.1'],
  ['a zero byte', 'GET /v1/\0models HTTP/1.1'],
  ['no version', 'GET /v1/models'],
  ['HTTP/0.9', 'GET /v1/models HTTP/0.9'],
  ['HTTP/2.0', 'GET /v1/models HTTP/2.0'],
  ['HTTP/9.9', 'GET /v1/models HTTP/9.9'],
  ['an unknown method', 'HUSH /v1/models HTTP/1.1'],
  ['a lower-case method', 'get /v1/models HTTP/1.1'],
  ['nothing at all', ''],
  ['the HTTP/2 preface', 'PRI * HTTP/2.0'],
])('Request lines: %s', async (_what, line) => {
  expect(await sent(withKey(line, `X-Secret: ${secret}`))).toEqual([400]);
});

test.each([
  ['a name with a space', `X Secret: ${secret}`],
  ['a space before the colon', `X-Secret : ${secret}`],
  ['no colon', secret],
  ['no name', `: ${secret}`],
  ['a zero byte in a value', `X-Secret: ${secret}\0`],
  ['a bare carriage return', `X-Secret: a\rb${secret}`],
  ['two lengths', 'Content-Length: 1\r\nContent-Length: 2'],
  ['a negative length', 'Content-Length: -1'],
  ['a length in letters', `Content-Length: ${secret}`],
  ['length and chunks', 'Content-Length: 4\r\nTransfer-Encoding: chunked'],
  ['an unknown encoding', 'Transfer-Encoding: gzip'],
  ['chunks declared twice', 'Transfer-Encoding: chunked, chunked'],
  ['chunks of an unknown encoding', 'Transfer-Encoding: gzip, chunked'],
  ['a second host after two thousand headers', `${'a:\r\n'.repeat(2100)}Host: localhost`],
  ['a second host', 'Host: localhost'],
  ['a second host, of a stack', `Host: ${stackHost('otter')}`],
])('Headers: %s', async (_what, line) => {
  const statuses = await sent(withKey('GET /v1/models HTTP/1.1', line, `X-Other: ${secret}`));
  expect(statuses, 'not 200, as without it').toEqual([400]);
});

test('Headers: no host', async () => {
  expect(await sent(`GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n`)).toEqual([400]);
  expect(await sent(`GET /v1/models HTTP/1.0\r\n\r\n`)).toEqual([404]);
});

test.each([
  ['one of 20 KB', `X-Secret: ${secret.repeat(1500)}`],
  ['thousands', Array.from({ length: 3000 }, (_, i) => `X-${i}: ${secret}`).join('\r\n')],
  ['a key of 20 KB', `Authorization: Bearer ${secret.repeat(1500)}`],
  ['1 MB', `X-Secret: ${secret.repeat(80_000)}`],
])('Headers: floods are refused or cut off (%s)', async (_what, lines) => {
  const answer = await rawRequest(port, withKey('GET /v1/models HTTP/1.1', lines)).catch(resetOf);
  if (answer === undefined) return;
  expect(refusalsIn(answer.text)).toEqual([413]);
});

/** Accepts a reset, which is also a valid outcome if the server closes before everything was sent. */
function resetOf(error: NodeJS.ErrnoException): undefined {
  expect(error.code).toMatch(/ECONNRESET|EPIPE/);
  return undefined;
}

test('Headers: many small ones within the bound are accepted', async () => {
  const lines = Array.from({ length: 100 }, (_, i) => `X-${i}: ${i}`);
  expect((await rawRequest(port, withKey('GET /v1/models HTTP/1.1', ...lines))).status).toBe(200);
});

test.each(['200-maybe', '100-continue, more', ''])('Expect: "%s" is refused', async (value) => {
  const text = withKey(`POST ${chatPath} HTTP/1.1`, `Expect: ${value}`, 'Content-Length: 2');
  const statuses = await sent(`${text}{}`);
  expect(statuses).toEqual([400]);
});

test('Expect: 100-continue is answered before the body is sent, and only for an accepted key', async () => {
  const body = JSON.stringify(chatBody('echo-small'));
  const lines = ['Content-Type: application/json', `Content-Length: ${body.length}`, 'Expect: 100-continue'];
  const accepted = await dialogue(withKey(`POST ${chatPath} HTTP/1.1`, ...lines), '100 Continue', body);
  expect(accepted).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
  const refused = await dialogue(head(`POST ${chatPath} HTTP/1.1`, ...lines), '100 Continue', body);
  expect(refused).toMatch(/^HTTP\/1\.1 401 /);
});

/** Sends the first part, then the second part once the answer contains `awaited`. Returns everything received. */
function dialogue(first: string, awaited: string, second: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    let answered = false;
    const socket = connect(port, '127.0.0.1', () => socket.write(first));
    socket.setTimeout(10_000, () => socket.destroy(new Error('no answer in time')));
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      if (!answered && text.includes(awaited)) {
        answered = true;
        socket.write(second);
      }
      if (text.startsWith('HTTP/1.1 4')) socket.end();
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(text));
  });
}

test.each([
  ['a TLS hello', Buffer.from('16030100c8010000c40303', 'hex')],
  ['zeros', Buffer.alloc(1000)],
  ['random letters', Buffer.from(`${secret}\r\n\r\n`)],
  ['an SSH banner', Buffer.from('SSH-2.0-OpenSSH_9.6\r\n')],
  ['the HTTP/2 preface', Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
  ['a proxy header', Buffer.from('PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n')],
])('Garbage: %s instead of HTTP', async (_what, bytes) => {
  expect(await sent(bytes)).toEqual([400]);
});

test('Garbage: any bytes get a response, except blank lines and an abandoned request', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.uint8Array({ minLength: 1, maxLength: 400 }).map((bytes) => Buffer.from(bytes)),
        fc.string({ unit: 'binary', minLength: 1, maxLength: 200 }).map((text) => Buffer.from(`GET ${text}`)),
        fc
          .tuple(fc.nat({ max: 300 }), fc.integer({ min: 0, max: 255 }))
          .map(([at, byte]) => spoiledAt(posted(JSON.stringify(chatBody('echo-small'))), at, byte)),
      ),
      async (bytes) => {
        const text = await halfClosed(Buffer.concat([bytes, Buffer.from('\r\n\r\n')]));
        const statuses = refusalsIn(text.replaceAll(/"path":"(?:[^"\\]|\\.)*"/g, '"path":""'));
        for (const status of statuses) expect(status).not.toBe(500);
        if (statuses.length === 0) expect(isBlank(bytes) || (await isAnsweredToAStayer(bytes))).toBe(true);
      },
    ),
    { numRuns: runs({ fast: 50, full: 150 }) },
  );
});

test('Garbage: a complete request before it is answered, and then the connection ends', async () => {
  const whole = posted(JSON.stringify(chatBody('echo-small')))
    .toString()
    .replace('Connection: close\r\n', '');
  const peer = await RawPeer.open({ host: '127.0.0.1', port, tls: false });
  await peer.send(`${whole}${'garbage\r\n\r\n'.repeat(20)}`);
  await peer.closed;
  expect(statusesIn(peer.text)).toEqual([200]);
});

/** Blank lines alone are not a request yet. */
const isBlank = (bytes: Buffer): boolean => /^[\r\n]*$/.test(bytes.toString('latin1'));

/** Whether the bytes get an answer if the client keeps its side open. A client that closes its side may get none. */
async function isAnsweredToAStayer(bytes: Buffer): Promise<boolean> {
  const peer = await RawPeer.open({ host: '127.0.0.1', port, tls: false });
  await peer.send(Buffer.concat([bytes, Buffer.from('\r\n\r\n')]));
  const answered = await peer.received(/^HTTP\/1\.1 \d{3} /);
  peer.close();
  return answered;
}

function spoiledAt(bytes: Buffer, at: number, byte: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at % copy.length] = byte;
  return copy;
}

/** Sends the bytes, ends its own side, and reads until the server ends. */
function halfClosed(bytes: Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }, () => socket.end(bytes));
    socket.setTimeout(10_000, () => socket.destroy(new Error('no answer in time')));
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'ECONNRESET' || error.code === 'EPIPE' ? undefined : reject(error),
    );
    socket.on('close', () => resolve(Buffer.concat(chunks).toString('latin1')));
  });
}

test.each([
  ['nothing', ''],
  ['half an object', `{"model":"${secret}`],
  ['a number', '7'],
  ['null', 'null'],
  ['an array', `["${secret}"]`],
  ['a string', `"${secret}"`],
  ['two objects', `{"model":"a"}{"model":"${secret}"}`],
  ['a trailing comma', `{"model":"${secret}",}`],
  ['single quotes', `{'model':'${secret}'}`],
  ['NaN', '{"model":NaN}'],
  ['a comment', `{"model":"a"/* ${secret} */}`],
  ['a repeated name', `{"model":"a","model":"${secret}","messages":[]}`],
  ['a repeated name, once escaped', `{"model":"a","\\u006dodel":"${secret}"}`],
  ['the name __proto__', `{"__proto__":{"model":"${secret}"},"model":"echo-small"}`],
  ['the name constructor', `{"constructor":{"prototype":{"x":"${secret}"}},"model":"echo-small"}`],
  ['the name toString', `{"toString":"${secret}","model":"echo-small","messages":[]}`],
  ['deep nesting', `${'['.repeat(100_000)}${']'.repeat(100_000)}`],
  ['deep objects', `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`],
  ['half a surrogate pair', '{"model":"\\ud800"}'],
  ['a byte order mark', '\ufeff{"model":"echo-small"}'],
  ['a wrong type', `{"model":{"a":"${secret}"},"messages":"${secret}"}`],
  ['an unknown role', `{"model":"m","messages":[{"role":"${secret}","content":"a"}]}`],
  ['a huge number', `{"model":"m","max_tokens":1e400,"messages":[{"role":"user","content":"${secret}"}]}`],
  ['a fraction', `{"model":"m","max_tokens":1.5,"messages":[{"role":"user","content":"${secret}"}]}`],
  ['a long model', JSON.stringify(chatBody(secret.repeat(1000)))],
])('Bodies: %s', async (_what, body) => {
  expect(await sent(posted(body))).toEqual([400]);
});

test('Bodies: bytes that are not UTF-8', async () => {
  const body = Buffer.concat([Buffer.from('{"model":"'), Buffer.from([0xff, 0xfe, 0xc0]), Buffer.from('"}')]);
  expect(await sent(posted(body))).toEqual([400]);
});

test('Bodies: a key or prompt sent as the model is refused without repeating it, and is not logged', async () => {
  for (const model of [acme, secret]) {
    const statuses = await sent(posted(JSON.stringify(chatBody(model))));
    expect(statuses).toEqual([404]);
  }
});

test('Bodies: any JSON is an answer or a refusal, never a fault', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.json(),
        fc
          .record(
            { model: fc.constant('echo-small'), messages: fc.jsonValue(), tools: fc.jsonValue() },
            { requiredKeys: ['model'] },
          )
          .map((body) => JSON.stringify(body)),
        fc
          .record(
            {
              model: fc.oneof(fc.constant('echo-small'), fc.jsonValue()),
              messages: fc.constant([{ role: 'user', content: 'a' }]),
              temperature: fc.jsonValue(),
              stop: fc.jsonValue(),
              response_format: fc.jsonValue(),
              stream_options: fc.jsonValue(),
              n: fc.jsonValue(),
            },
            { requiredKeys: ['model', 'messages'] },
          )
          .map((body) => JSON.stringify(body)),
      ),
      async (body) => {
        const { status } = await rawRequest(port, posted(body));
        expect([200, 400, 404]).toContain(status);
      },
    ),
    { numRuns: runs({ fast: 50, full: 150 }) },
  );
});

test.each([
  ['declared', 33],
  ['declared', 100],
] as const)('Bodies: one of %s %i MiB is refused without reading it all', async (_how, mebibytes) => {
  const lines = ['Content-Type: application/json', `Content-Length: ${mebibytes * 1024 * 1024}`];
  const answer = await flood(withKey(`POST ${chatPath} HTTP/1.1`, ...lines), mebibytes, false);
  expect(refusalsIn(answer)).toEqual([413]);
});

test.each([33, 100])('Bodies: one of %i MiB in chunks is refused without keeping it', async (mebibytes) => {
  const lines = ['Content-Type: application/json', 'Transfer-Encoding: chunked'];
  const answer = await flood(withKey(`POST ${chatPath} HTTP/1.1`, ...lines), mebibytes, true);
  // The gateway drains only a limited amount of data before it closes the connection, so the refusal may be lost.
  if (mebibytes < 64 || answer !== '') expect(refusalsIn(answer)).toEqual([413]);
});

/** Sends as much of a body as the peer accepts and returns the peer's answer. */
function flood(start: string, mebibytes: number, chunked: boolean): Promise<string> {
  return new Promise((resolve, reject) => {
    const mebibyte = Buffer.alloc(1024 * 1024, 0x61);
    const chunk = chunked
      ? Buffer.concat([Buffer.from('100000\r\n'), mebibyte, Buffer.from('\r\n')])
      : mebibyte;
    let text = '';
    let left = mebibytes;
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    const push = (): void => {
      while (left > 0) {
        left--;
        if (!socket.write(chunk)) return;
      }
      if (left-- === 0) socket.end(chunked ? '0\r\n\r\n' : '');
    };
    socket.setTimeout(20_000, () => socket.destroy(new Error('no answer in time')));
    socket.on('connect', () => {
      socket.write(start);
      push();
    });
    socket.on('drain', push);
    socket.on('data', (data) => {
      text += data.toString('latin1');
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (!/ECONNRESET|EPIPE/.test(error.code ?? '')) reject(error);
    });
    socket.on('close', () => resolve(text));
  });
}

test('Bodies: one of just under 32 MiB is accepted', async () => {
  const body = JSON.stringify({ ...chatBody('echo-small'), nonsense: 'x'.repeat(32 * 1024 * 1024 - 200) });
  expect(await sent(posted(body))).toEqual([400]);
});

test.each([
  ['of a declared length', `Content-Length: 1000`, `{"model":"${secret}"`],
  ['in chunks', 'Transfer-Encoding: chunked', `5\r\n{"mod`],
])('Bodies: a truncated one reaches no node (%s)', async (_how, line, part) => {
  const before = inferences(fleet.nodes['acme-1']);
  const lines = ['Content-Type: application/json', line];
  const text = await halfClosed(Buffer.from(withKey(`POST ${chatPath} HTTP/1.1`, ...lines) + part));
  expect(refusalsIn(text)).toEqual([400]);
  await vi.waitUntil(() => logged.includes('"outcome":"aborted"'), { interval: 2, timeout: 5000 });
  expect(inferences(fleet.nodes['acme-1'])).toBe(before);
});

test.each([
  ['a size in letters', 'zz\r\n{}\r\n0\r\n\r\n'],
  ['a size too small', '1\r\n{}\r\n0\r\n\r\n'],
  ['a negative size', '-2\r\n{}\r\n0\r\n\r\n'],
  ['a huge size', 'ffffffffffffffffff\r\n{}\r\n'],
  ['an endless extension', `2;${'a'.repeat(40_000)}\r\n{}\r\n0\r\n\r\n`],
  ['bare line feeds', '2\n{}\n0\n\n'],
])('Chunks: %s', async (_what, chunks) => {
  const lines = ['Content-Type: application/json', 'Transfer-Encoding: chunked'];
  const text = withKey(`POST ${chatPath} HTTP/1.1`, ...lines) + chunks;
  const statuses = refusalsIn(await halfClosed(Buffer.from(text)));
  expect(statuses).toHaveLength(1);
  expect([400, 413]).toContain(statuses[0]);
});

test('Chunks: valid ones are read, even one byte at a time', async () => {
  const body = JSON.stringify(chatBody('echo-small'));
  const chunks = [...body].map((character) => `1\r\n${character}\r\n`).join('');
  const lines = ['Content-Type: application/json', 'Transfer-Encoding: chunked'];
  const text = `${withKey(`POST ${chatPath} HTTP/1.1`, ...lines)}${chunks}0\r\n\r\n`;
  expect((await rawRequest(port, text)).status).toBe(200);
});

test('Connections: pipelined requests are answered in order', async () => {
  const listing = `GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;
  const unknown = `GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${acme}\r\n\r\n`;
  const body = JSON.stringify(chatBody('echo-small'));
  const asked = `POST ${chatPath} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${acme}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const { text } = await rawRequest(
    port,
    asked + unknown + listing + asked + withKey('GET /v1/models HTTP/1.1'),
  );
  expect(refusalsIn(text)).toEqual([200, 404, 200, 200, 200]);
});

test.each([
  ['garbage', '\0\0\r\n\r\n'],
  ['a CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n'],
])('Connections: %s after a request is never answered in its place', async (_what, garbage) => {
  const node = fleet.nodes['acme-1'];
  const late = { kind: 'latency', firstTokenMs: 60, betweenTokensMs: 5 };
  node.setBehaviour(parseBehaviour({ rules: [{ fault: late }] }));
  for (const stream of [false, true]) {
    const body = JSON.stringify(chatBody('echo-small', { stream }));
    const lines = ['Content-Type: application/json', `Content-Length: ${body.length}`];
    const bearer = `Authorization: Bearer ${acme}`;
    const asked = [`POST ${chatPath} HTTP/1.1`, 'Host: 127.0.0.1', bearer, ...lines, '', body].join('\r\n');
    // Sends garbage bytes together with the complete request, or once the first bytes of the response have arrived.
    for (const awaited of [undefined, 'HTTP/1.1 200']) {
      const text =
        awaited === undefined
          ? (await rawRequest(port, asked + garbage)).text
          : await dialogue(asked, awaited, garbage);
      expect(text.startsWith('HTTP/1.1 4'), text.slice(0, 200)).toBe(false);
      const second = text.indexOf('HTTP/1.1', 1);
      const first = second === -1 ? '' : text.slice(0, second);
      expect(first, 'whole before another begins').toMatch(stream ? /^(.*\r\n0\r\n\r\n)?$/s : /^(.*\})?$/s);
    }
  }
  node.setBehaviour(parseBehaviour({}));
});

test('Connections: a body refused unread is not mistaken for the next request', async () => {
  const smuggled = `GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;
  const first = `POST ${chatPath} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}`;
  const { text } = await rawRequest(port, first + head('GET /nothing HTTP/1.1'));
  expect(refusalsIn(text)).toEqual([401, 401]);
});

test.each(['CONNECT example.org:443 HTTP/1.1', 'CONNECT 127.0.0.1:22 HTTP/1.1'])(
  'Connections: %s opens no tunnel',
  async (line) => {
    expect(await sent(withKey(line, `X-Secret: ${secret}`))).toEqual([400]);
  },
);

test.each([
  ['h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__'],
  ['websocket', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='],
])('Connections: Upgrade to %s is ignored', async (protocol, line) => {
  const upgrade = ['Connection: Upgrade, HTTP2-Settings, close', `Upgrade: ${protocol}`, line];
  const text = ['GET /v1/models HTTP/1.1', 'Host: 127.0.0.1', ...upgrade, '', ''].join('\r\n');
  expect((await rawRequest(port, text)).status).toBe(200);
});

test('Connections: HTTP/1.0 is answered and closed', async () => {
  const answer = await rawRequest(port, 'GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n');
  expect(answer.status).toBe(200);
  expect(JSON.parse(answerOf(answer).content).object).toBe('list');
});

test('Connections: a stream over HTTP/1.0 is complete', async () => {
  const body = JSON.stringify(chatBody('echo-small', { stream: true }));
  const text = `POST ${chatPath} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${acme}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const answer = await rawRequest(port, text);
  expect(answer.status).toBe(200);
  expect(answer.body.trimEnd().endsWith('data: [DONE]')).toBe(true);
});

test('Connections: hundreds that are opened and abandoned have no effect', async () => {
  const before = logged.length;
  await Promise.all(
    Array.from({ length: 200 }, (_, i) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.write(posted(JSON.stringify(chatBody('echo-small'))).subarray(0, i * 2));
        socket.destroy();
      });
      socket.on('error', () => undefined);
      return new Promise((resolve) => socket.on('close', resolve));
    }),
  );
  // Waits until the gateway has logged the requests that it had begun before their clients left.
  await vi.waitUntil(() => logged.includes('"msg":"request"', before), { interval: 5, timeout: 5000 });
  await vi.waitUntil(() => fleet.nodes['acme-1'].stats().inFlight === 0, { interval: 5, timeout: 5000 });
});

test('Logs: an answered request leaves one line without its key, prompt and answer', async () => {
  const before = logged.length;
  const messages = [{ role: 'user', content: `${secret} prompt` }];
  const headers = { 'X-Secret': secret, Cookie: secret, 'User-Agent': secret, Referer: secret };
  const path = `${chatPath}?${secret}=${secret}`;
  for (const stream of [false, true]) {
    const body = { model: 'echo-small', messages, stream, user: secret };
    const answer: Answer = await call({ port, key: acme, method: 'POST', path, headers, body });
    expect(answer.content).toContain(secret);
  }
  const lines = logged
    .slice(before)
    .trim()
    .split('\n')
    .filter((line) => line.includes('"msg":"request"'));
  expect(lines).toHaveLength(2);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ org_id: 'acme', model: 'echo-small', status: 200 });
});
