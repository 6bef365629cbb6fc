/**
 * Generates raw HTTP from a grammar of valid and invalid requests, then mutates it. Covers targets, methods, headers, framing
 * and pipelining.
 */
import { type Draw, edgeTexts } from './draw.ts';
import { canary, models, stackDomain, stacks } from './fleet.ts';
import { mutateBytes } from './mutate.ts';
import type { ListenerKind } from './raw-answers.ts';

export interface RequestSecrets {
  readonly key: string;
  readonly operator: string;
}

const methods = ['GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH', 'TRACE', 'QUERY'];
const oddMethods = [
  'CONNECT',
  'PRI',
  'get',
  'M-SEARCH',
  '',
  'G ET',
  'POST\0',
  'A'.repeat(300),
  'GETGET',
  '{}',
];

const paths: Readonly<Record<ListenerKind, readonly string[]>> = {
  gateway: [
    '/v1/chat/completions',
    '/v1/embeddings',
    '/v1/messages',
    '/v1/messages/count_tokens',
    '/v1/models',
    '/v1/models/echo-small',
    '/v1/models/%E2%82%AC',
  ],
  admin: [
    ...['/admin/v1/status', '/admin/v1/openapi.json', '/admin/v1/keys', '/admin/v1/keys/x/revoke'],
    ...['/admin/v1/nodes', '/admin/v1/fleet', '/admin/v1/fleet/apply', '/admin/v1/usage?organisation=acme'],
    ...['/admin/v1/events?after=0', '/admin/v1/log?after=0', '/admin/v1/confirmations/1?timeoutSeconds=1'],
    '/nodes/v1/connect',
  ],
  console: [
    ...['/', '/sign-in', '/keys/x', '/index.html', '/api/sign-in', '/api/session', '/api/oidc', '/api/me'],
    ...['/api/stream', '/api/addresses', '/api/keys', '/api/confirmations/1?timeoutSeconds=1'],
    ...['/api/explain', '/oidc/callback?state=x'],
  ],
  play: ['/', '/index.html', '/api/visitor', '/api/chat', '/api/key', `/api/stacks/${stacks.openai}/chat`],
  health: ['/livez', '/readyz', '/readyz?verbose', '/metrics'],
  engine: ['/health', '/v1/models', '/v1/chat/completions', '/tokenize', '/metrics', '/load'],
};

const oddTargets = [
  ...['/', '//', '///', '/\\', '\\', '*', '', '?', '/?', '/#', 'http://[::1', 'http://127.0.0.1/v1/models'],
  ...['http://', '//host/path', '/%', '/%zz', '/%00', '/v1/../v1/models', '/v1//models', '/v1/models/'],
  ...['/v1/models/%', '/v1/models/%ff', '/\xff\xfe', '/ä', ':80', 'a:b', '127.0.0.1:1', '[::1]:1', '/;x=1'],
  ...['/__proto__', '/constructor', '/v1/models?__proto__[x]=1', '/livez/../metrics'],
  ...['/readyz?verbose&verbose=1&%', '/admin/v1/keys/%2e%2e%2f', '/admin/v1/nodes/../../'],
  '/admin/v1/events?after=-1&limit=99999999999999999999',
];

function target(draw: Draw, kind: ListenerKind): string {
  return draw.weighted<() => string>([
    [6, () => draw.pick(paths[kind])],
    [3, () => draw.pick(oddTargets)],
    [1, () => draw.pick(paths[draw.pick(Object.keys(paths) as ListenerKind[])])],
    [
      1,
      () =>
        `${draw.pick(paths[kind])}${draw.pick(['?', '/', '%', '#', '?a=b&a=c', ';', '//'])}${draw.word()}`,
    ],
    [1, () => `/${draw.pick(edgeTexts).replaceAll(/[\s\ud800-\udfff]/g, '_')}`],
    [1, () => `/${'x'.repeat(draw.skewed(20_000))}`],
  ])();
}

type Header = readonly [name: string, value: string];

function hostHeaders(draw: Draw): Header[] {
  return draw.weighted<() => Header[]>([
    [8, () => [['Host', '127.0.0.1']]],
    [2, () => [['Host', `${draw.pick(Object.values(stacks))}.${stackDomain}`]]],
    [
      1,
      () => [
        [
          'Host',
          draw.pick(['', 'x', '[::1', '127.0.0.1:', 'a'.repeat(300), ':', 'a b', 'localhost.', '\xff']),
        ],
      ],
    ],
    [1, () => []],
    [1, () => draw.list(draw.between(2, 3), () => ['Host', draw.pick(['127.0.0.1', 'other'])] as const)],
  ])();
}

function keyHeaders(draw: Draw, kind: ListenerKind, { key, operator }: RequestSecrets): Header[] {
  const right = kind === 'admin' ? operator : key;
  return draw.weighted<() => Header[]>([
    [6, () => [['Authorization', `Bearer ${right}`]]],
    [2, () => [['x-api-key', key]]],
    [2, () => []],
    [
      1,
      () => [
        [
          'Authorization',
          draw.pick(['Bearer', 'Bearer ', 'Basic Og==', `bearer ${key}x`, `Bearer ${key} ${key}`, '\xff']),
        ],
      ],
    ],
    [
      1,
      () => [
        ['Authorization', `Bearer ${key}`],
        ['x-api-key', operator],
      ],
    ],
    [1, () => [['Authorization', `Bearer ${draw.pick(edgeTexts).replaceAll(/[\r\n\0]/g, '')}`]]],
  ])();
}

const rareHeaders: readonly Header[] = [
  ['Expect', '100-continue'],
  ['Expect', '200-ok'],
  ['Expect', ''],
  ['Upgrade', 'websocket'],
  ['Upgrade', 'h2c'],
  ['Upgrade', ''],
  ['Connection', 'Upgrade'],
  ['Connection', 'upgrade, keep-alive, close'],
  ['Connection', 'keep-alive'],
  ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
  ['Sec-WebSocket-Key', 'x'],
  ['Sec-WebSocket-Version', '13'],
  ['Sec-WebSocket-Version', '99'],
  ['Sec-WebSocket-Protocol', ', ,'],
  ['Sec-WebSocket-Extensions', 'permessage-deflate; client_max_window_bits=99'],
  ['HTTP2-Settings', 'AAMAAABkAARAAAAAAAIAAAAA'],
  ['Origin', 'http://evil.test'],
  ['Content-Encoding', 'gzip'],
  ['Content-Encoding', 'br, gzip'],
  ['Accept-Encoding', 'gzip;q=1.0, *;q=0'],
  ['Range', 'bytes=0-'],
  ['If-Match', '"99"'],
  ['If-None-Match', '*'],
  ['Idempotency-Key', 'x'],
  ['Idempotency-Key', 'x'.repeat(1000)],
  ['x-headgate-as', 'vic'],
  ['x-headgate-as', '__proto__'],
  ['anthropic-version', '2023-06-01'],
  ['anthropic-version', 'x, y'],
  ['anthropic-beta', 'a,b,,c'],
  ['Cookie', 'a=b; a=c; ='],
  ['X-Forwarded-For', '127.0.0.1'],
  ['Trailer', 'Host'],
  ['TE', 'trailers'],
  ['Max-Forwards', '0'],
  ['Via', '1.1 x'],
];

/** Draws header lines. An odd line may not even be a header. */
function headerLines(draw: Draw, kind: ListenerKind, secrets: RequestSecrets): string[] {
  const headers = [...hostHeaders(draw), ...keyHeaders(draw, kind, secrets)];
  if (draw.chance(0.7)) headers.push(['Connection', 'close']);
  headers.push(...draw.list(draw.chance(0.5) ? draw.below(5) : 0, () => draw.pick(rareHeaders)));
  const lines = headers.map(([name, value]) => `${name}: ${value}`);
  if (draw.chance(0.05)) lines.push(...draw.list(draw.skewed(3000), (index) => `x${index % 7}: ${index}`));
  if (draw.chance(0.03)) lines.push(...draw.list(draw.skewed(5000), () => 'a:'));
  if (draw.chance(0.05)) lines.push(`X-Large: ${'y'.repeat(draw.skewed(40_000))}`);
  if (draw.chance(0.05))
    lines.push(
      draw.pick([
        ...[' folded', ': no name', 'no colon', 'a b: c', 'x\0y: z', 'x: \0', 'x: a\rb', 'x: \x7f'],
        '\xff: x',
      ]),
    );
  return lines;
}

function bodyOf(draw: Draw): string {
  const chat = {
    model: draw.pick(models),
    messages: [{ role: 'user', content: `${canary} ${draw.text()}` }],
  };
  return draw.weighted<() => string>([
    [
      6,
      () =>
        JSON.stringify({
          ...chat,
          ...(draw.chance(0.4) && { stream: true }),
          max_tokens: draw.between(1, 20),
        }),
    ],
    [1, () => JSON.stringify({ model: 'echo-embed', input: canary })],
    [1, () => JSON.stringify({ organisation: 'acme', name: canary, expires: 'never' })],
    [1, () => draw.bytes(draw.skewed(2000)).toString('latin1')],
    [1, () => ''],
    [1, () => '{'.repeat(draw.skewed(5000))],
  ])();
}

function framed(draw: Draw, body: string): { readonly lines: readonly string[]; readonly body: string } {
  const bytes = Buffer.from(body, 'utf8');
  const wire = bytes.toString('latin1');
  const length = (value: string | number): string => `Content-Length: ${value}`;
  const type = `Content-Type: ${draw.weighted([
    [6, 'application/json'],
    [1, 'text/plain'],
    [1, 'application/json; charset=utf-16'],
    [1, ';'],
  ])}`;
  return draw.weighted<() => { lines: string[]; body: string }>([
    [6, () => ({ lines: [type, length(bytes.length)], body: wire })],
    [5, () => ({ lines: [type, 'Transfer-Encoding: chunked'], body: chunked(draw, bytes) })],
    [
      1,
      () => ({
        lines: [
          type,
          length(
            draw.pick([
              '-1',
              '+5',
              '5, 5',
              '0x10',
              '1e3',
              '',
              ' ',
              '99999999999999999999',
              bytes.length + 5,
              Math.max(0, bytes.length - 3),
            ]),
          ),
        ],
        body: wire,
      }),
    ],
    [1, () => ({ lines: [type, length(bytes.length), length(draw.below(50))], body: wire })],
    [
      1,
      () => ({
        lines: [type, length(bytes.length), 'Transfer-Encoding: chunked'],
        body: chunked(draw, bytes),
      }),
    ],
    [
      1,
      () => ({
        lines: [
          type,
          `Transfer-Encoding: ${draw.pick(['gzip, chunked', 'chunked, gzip', 'identity', 'xchunked', 'chunked, chunked', ' chunked ', '\x0bchunked', ''])}`,
        ],
        body: chunked(draw, bytes),
      }),
    ],
    [1, () => ({ lines: [type], body: wire })],
    [1, () => ({ lines: [type, length(40_000_000)], body: wire })],
  ])();
}

function chunked(draw: Draw, bytes: Buffer): string {
  const count = draw.chance(0.2) ? Math.min(bytes.length, 2000) : draw.between(1, 5);
  const pieces = bytes.length === 0 ? [] : draw.pieces(bytes, count);
  const extension = draw.chance(0.1)
    ? draw.pick([';x', ';x=y', ';x="\\"', `;${'z'.repeat(20_000)}`, ' ', ';\0'])
    : '';
  const body = pieces.map(
    (piece) => `${piece.length.toString(16)}${extension}\r\n${piece.toString('latin1')}\r\n`,
  );
  const end = draw.weighted([
    [8, '0\r\n\r\n'],
    [1, '0\r\nx: y\r\n\r\n'],
    [1, `0\r\n${'t: 1\r\n'.repeat(draw.skewed(3000))}\r\n`],
    [1, ''],
    [1, '0\r\n'],
    [1, '-1\r\n\r\n'],
    [1, 'fffffffffffffffff\r\n'],
    [1, '0\n\n'],
    [1, 'zz\r\n\r\n'],
  ]);
  return body.join('') + end;
}

function request(draw: Draw, kind: ListenerKind, secrets: RequestSecrets): Buffer {
  const method = draw.weighted<() => string>([
    [5, () => 'POST'],
    [3, () => 'GET'],
    [2, () => draw.pick(methods)],
    [1, () => draw.pick(oddMethods)],
  ])();
  const version = draw.weighted([
    [20, ' HTTP/1.1'],
    [2, ' HTTP/1.0'],
    [1, ' HTTP/2.0'],
    [1, ''],
    [1, ' HTTP/1.1 '],
    [1, ' http/1.1'],
    [1, ' HTTP/9999999999.1'],
  ]);
  const hasBody = method === 'POST' || draw.chance(0.1);
  const { lines, body } = hasBody ? framed(draw, bodyOf(draw)) : { lines: [], body: '' };
  const end = draw.chance(0.02) ? '\n' : '\r\n';
  const head = [`${method} ${target(draw, kind)}${version}`, ...headerLines(draw, kind, secrets), ...lines];
  return Buffer.from(`${head.join(end)}${end}${end}${body}`, 'latin1');
}

/** Draws the bytes of one connection: one or several pipelined requests, mutated in 30 % of the cases. */
export function connectionBytes(draw: Draw, kind: ListenerKind, secrets: RequestSecrets): Buffer {
  if (draw.chance(0.02)) return draw.bytes(draw.skewed(4000));
  const count = draw.chance(0.15) ? draw.between(2, 6) : 1;
  const bytes = Buffer.concat(draw.list(count, () => request(draw, kind, secrets)));
  return draw.chance(0.3) ? mutateBytes(draw, bytes) : bytes;
}
