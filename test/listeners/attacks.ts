/**
 * Attacks that are tried on every listener: targets that no URL parser accepts, and connections reset at each stage of an
 * exchange.
 */
import type { RawPeer } from '../support/raw-peer.ts';

/** Request targets, each exactly as it appears in the request line. */
export const targets: readonly (readonly [name: string, target: string])[] = [
  ['two slashes', '//'],
  ['three slashes', '///'],
  ['two slashes and a path', '//livez'],
  ['two slashes and a port', '//:99999'],
  ['a slash and a backslash', '/\\'],
  ['backslashes', '\\\\'],
  ['an IPv6 host that never ends', 'http://[::1'],
  ['the same behind slashes', '//[::1'],
  ['a host with a port of letters', 'http://a:b/'],
  ['the absolute form', 'http://127.0.0.1/livez'],
  ['the absolute form of another scheme', 'file:///etc/passwd'],
  ['a scheme alone', 'http:'],
  ['an authority', '127.0.0.1:22'],
  ['an asterisk', '*'],
  ['nothing', ''],
  ['a question mark', '?'],
  ['a path that begins with a question mark', '/?'],
  ['questions upon questions', `/${'?'.repeat(500)}`],
  ['a fragment', '/#'],
  ['15 KB', `/${'a'.repeat(15 * 1024)}`],
  ['15 KB of slashes', '/'.repeat(15 * 1024)],
  ['15 KB of dots', '/..'.repeat(5 * 1024)],
  ['a query of 15 KB', `/livez?${'a=&'.repeat(5 * 1024)}`],
  ['a zero byte', '/\0'],
  ['a zero byte, escaped', '/%00'],
  ['a percent sign alone', '/%'],
  ['a percent sign and letters', '/%zz'],
  ['half of a character, escaped', '/%e4%bd'],
  ['a surrogate, escaped', '/%ed%a0%80'],
  ['bytes that are no ASCII', '/\xff\xfe'],
  ['a line end, escaped', '/%0d%0aX:y'],
  ['a tab', '/\t'],
  ['a delete', '/\x7f'],
  ['dots upwards', '/../../etc/passwd'],
  ['the path of health with a slash', '/livez/'],
  ['the query of readiness, broken', '/readyz?verbose=%'],
  ['__proto__', '/__proto__'],
  ['a path of an API', '/admin/v1/%2e%2e/keys'],
  ['an id that never decodes', '/v1/models/%'],
];

const ownHost = 'Host: 127.0.0.1';
const chunks = 'Transfer-Encoding:';

/** Request heads without the final blank line. Either two parsers may read them differently, or they name two hosts. */
export const badHeads: readonly (readonly [name: string, head: string])[] = [
  ['two hosts', `GET / HTTP/1.1\r\n${ownHost}\r\nHost: evil`],
  ['the same host twice', `GET / HTTP/1.1\r\n${ownHost}\r\n${ownHost}`],
  ['two hosts, spelt differently', `GET / HTTP/1.1\r\n${ownHost}\r\nhOST: evil`],
  ['no host', 'GET / HTTP/1.1\r\nA: b'],
  ['the absolute form', `GET http://evil/ HTTP/1.1\r\n${ownHost}`],
  ['the absolute form of the own host', `GET http://127.0.0.1/livez HTTP/1.1\r\n${ownHost}`],
  ['the absolute form with a user', `GET http://127.0.0.1@evil/ HTTP/1.1\r\n${ownHost}`],
  ['a host that never ends', `GET http://[::1 HTTP/1.1\r\n${ownHost}`],
  ['an asterisk', `OPTIONS * HTTP/1.1\r\n${ownHost}`],
  ['a coding that nobody knows', `POST / HTTP/1.1\r\n${ownHost}\r\n${chunks} xchunked`],
  ['a coding twice', `POST / HTTP/1.1\r\n${ownHost}\r\n${chunks} chunked, chunked`],
  ['a coding before the last', `POST / HTTP/1.1\r\n${ownHost}\r\n${chunks} gzip, chunked`],
  ['chunks of an old version', `POST / HTTP/1.0\r\n${ownHost}\r\n${chunks} chunked`],
  ['a length and chunks', `POST / HTTP/1.1\r\n${ownHost}\r\nContent-Length: 5\r\n${chunks} chunked`],
  ['two lengths', `POST / HTTP/1.1\r\n${ownHost}\r\nContent-Length: 5\r\nContent-Length: 6`],
  [
    'an expectation that nobody knows',
    `POST / HTTP/1.1\r\n${ownHost}\r\nExpect: 200-ok\r\nContent-Length: 0`,
  ],
  ['a version of its own', `GET / HTTP/1.2\r\n${ownHost}`],
];

export interface Stage {
  readonly name: string;
  /** True if the stage sends its bytes before any TLS handshake. */
  readonly bare?: true;
  /** True if an answer must have begun before the connection is reset. */
  readonly answered?: true;
  /** Brings the exchange to this stage. `request` builds a request head with the listener's credential. */
  run(peer: RawPeer, request: (line: string, ...lines: string[]) => string): Promise<unknown>;
}

const upgrade = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
];
const posted = 'POST /v1/chat/completions HTTP/1.1';
const json = 'Content-Type: application/json';
const streamed = JSON.stringify({
  ...{ model: 'm', stream: true },
  messages: [{ role: 'user', content: 'say 200 words' }],
});
const clientHello = Buffer.from('160301020001fc0303', 'hex');

type Run = Stage['run'];
const sends =
  (make: (request: Parameters<Run>[1]) => string | Buffer): Run =>
  (peer, request) =>
    peer.send(make(request));
const answered = true as const;

export const stages: readonly Stage[] = [
  { name: 'before the first byte', run: async () => undefined },
  { name: 'before a TLS handshake', bare: true, run: async () => undefined },
  { name: 'within a TLS hello', bare: true, run: sends(() => clientHello) },
  { name: 'after HTTP where TLS may be spoken', bare: true, run: sends((head) => head('GET / HTTP/1.1')) },
  { name: 'within the request line', run: sends(() => 'GET /v1/mod') },
  { name: 'within the headers', run: sends((head) => head('GET / HTTP/1.1').slice(0, -9)) },
  { name: 'after the headers', answered, run: sends((head) => head('GET / HTTP/1.1')) },
  { name: 'before the body', run: sends((head) => head(posted, json, 'Content-Length: 50')) },
  { name: 'within the body', run: sends((head) => `${head(posted, json, 'Content-Length: 50')}{"mod`) },
  {
    name: 'within the body of another method',
    run: sends((head) => `${head('GET /metrics HTTP/1.1', 'Content-Length: 9')}abc`),
  },
  {
    name: 'within a chunk',
    run: sends((head) => `${head(posted, json, 'Transfer-Encoding: chunked')}ff\r\n{"mod`),
  },
  {
    name: 'after a broken chunk',
    run: sends((head) => `${head(posted, json, 'Transfer-Encoding: chunked')}zz\r\n`),
  },
  {
    name: 'after Expect',
    answered,
    run: sends((head) => head(posted, json, 'Expect: 100-continue', 'Content-Length: 50')),
  },
  {
    name: 'after an Expect that nobody knows',
    answered,
    run: sends((head) => head(posted, json, 'Expect: 200-ok', 'Content-Length: 5')),
  },
  { name: 'after CONNECT', run: sends(() => 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n') },
  { name: 'after CONNECT to a path', run: sends((head) => head('CONNECT / HTTP/1.1')) },
  {
    name: 'after CONNECT and bytes for the tunnel',
    run: sends(() => `CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n${'x'.repeat(5000)}`),
  },
  {
    name: 'after CONNECT behind a request',
    run: sends((head) => `${head('GET /v1/models HTTP/1.1')}${head('CONNECT a:1 HTTP/1.1')}`),
  },
  {
    name: 'after CONNECT within a stream',
    async run(peer, head) {
      await peer.send(head(posted, json, `Content-Length: ${streamed.length}`) + streamed);
      await peer.received(/HTTP\/1\.1/);
      await peer.send(head('CONNECT a:1 HTTP/1.1'));
    },
  },
  { name: 'after an upgrade', run: sends((head) => head('GET / HTTP/1.1', ...upgrade)) },
  {
    name: 'after an upgrade to h2c',
    run: sends((head) =>
      head(
        'GET /v1/models HTTP/1.1',
        'Connection: Upgrade, HTTP2-Settings',
        'Upgrade: h2c',
        'HTTP2-Settings: AA',
      ),
    ),
  },
  {
    name: 'after an upgrade for events',
    run: sends((head) => head('GET /admin/v1/events/stream HTTP/1.1', ...upgrade)),
  },
  {
    name: 'after an upgrade for events with a broken query',
    run: sends((head) => head('GET /admin/v1/events/stream?from=x HTTP/1.1', ...upgrade)),
  },
  {
    name: 'after an upgrade for events of another version',
    run: sends((head) =>
      head('GET /admin/v1/events/stream HTTP/1.1', ...upgrade.slice(0, 2), 'Sec-WebSocket-Version: 99'),
    ),
  },
  {
    name: 'within a frame of an upgraded connection',
    async run(peer, head) {
      await peer.send(head('GET /admin/v1/events/stream HTTP/1.1', ...upgrade));
      await peer.send(Buffer.from([0x81, 0xfe, 0x10]));
    },
  },
  {
    name: 'after an upgrade for agents',
    run: sends((head) => head('GET /nodes/v1/connect HTTP/1.1', ...upgrade)),
  },
  {
    name: 'after an upgrade for agents with a token of nobody',
    run: sends(() =>
      ['GET /nodes/v1/connect HTTP/1.1', 'Host: a', 'Authorization: Bearer ngt_x', ...upgrade, '', ''].join(
        '\r\n',
      ),
    ),
  },
  {
    name: 'after an upgrade of a route that has none',
    run: sends((head) => head('GET /admin/v1/keys HTTP/1.1', ...upgrade)),
  },
  {
    name: 'after an upgrade with a body',
    run: sends((head) => `${head(posted, json, 'Content-Length: 5', ...upgrade)}{}`),
  },
  {
    name: 'after an upgrade behind a request',
    run: sends(
      (head) => `${head('GET /livez HTTP/1.1')}${head('GET /admin/v1/events/stream HTTP/1.1', ...upgrade)}`,
    ),
  },
  { name: 'after bytes that are no HTTP', run: sends(() => '\0\x01\x02\r\n\r\n') },
  { name: 'after a method of its own', run: sends((head) => head('FOO / HTTP/1.1')) },
  {
    name: 'after a header of 20 KB',
    run: sends((head) => head('GET / HTTP/1.1', `A: ${'a'.repeat(20_000)}`)),
  },
  {
    name: 'after both lengths',
    run: sends((head) => head(posted, 'Content-Length: 5', 'Transfer-Encoding: chunked')),
  },
  { name: 'after TRACE', answered, run: sends((head) => head('TRACE / HTTP/1.1')) },
  { name: 'within a large answer', answered, run: sends((head) => head('GET /metrics HTTP/1.1')) },
  {
    name: 'within a stream',
    answered,
    run: sends((head) => head(posted, json, `Content-Length: ${streamed.length}`) + streamed),
  },
  {
    name: 'after pipelined requests',
    answered,
    run: sends((head) => head('GET /v1/models HTTP/1.1').repeat(20)),
  },
  {
    name: 'after pipelined requests and garbage',
    run: sends((head) => `${head('GET /v1/models HTTP/1.1').repeat(3)}BAD\r\n\r\n`),
  },
];
