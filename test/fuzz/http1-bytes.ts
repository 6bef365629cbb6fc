/** Generates the bytes of a connection from a small grammar of HTTP message framing. Each part is usual, odd or mutated. */
import type { Draw } from './draw.ts';
import { mutateBytes } from './mutate.ts';

const oddBytes = [
  '\0',
  '\t',
  '\n',
  '\r',
  ' ',
  '\x0b',
  '\x7f',
  '\x80',
  '\xff',
  ':',
  ';',
  ',',
  '"',
  '=',
  '\r\n',
  '\n\n',
];

/** Returns the text, occasionally with one odd byte in it. */
function spoilt(draw: Draw, text: string, probability = 0.01): string {
  if (!draw.chance(probability)) return text;
  const at = draw.below(text.length + 1);
  return text.slice(0, at) + draw.pick(oddBytes) + text.slice(at + draw.below(2));
}

function lengthValue(draw: Draw, length: number): string {
  return draw.weighted<() => string>([
    [30, () => String(length)],
    [1, () => `0${length}`],
    [1, () => `+${length}`],
    [1, () => `-${length}`],
    [1, () => `0x${length.toString(16)}`],
    [1, () => `${length}, ${length}`],
    [1, () => `${length} `],
    [1, () => `${length}.0`],
    [1, () => `${length}e0`],
    [1, () => ''],
    [1, () => String(length + draw.between(-2, 2))],
    [1, () => draw.pick(['18446744073709551616', '9007199254740993', '999999999999999'])],
  ])();
}

const codings = [
  ...['gzip', 'identity', 'chunked, chunked', 'gzip, chunked', 'chunked, gzip', 'xchunked', 'chunkedx', ''],
  ...['"chunked"', 'chunked;q=1', ',chunked', 'chunked,', 'chun ked', '\x0bchunked', 'cHuNkEd', 'chunked '],
];

function nameOf(draw: Draw, name: string): string {
  return draw.weighted([
    [10, name],
    [5, name.toLowerCase()],
    [1, name.toUpperCase()],
    [0.2, `${name} `],
    [0.2, ` ${name}`],
    [0.2, `${name}\t`],
    [0.2, `${name}\0`],
    [0.2, `x${name}`],
  ]);
}

const extensions = [
  ...[';a', ';a=b', ';a;b=c', ';', ';=', ';a=', ';a="b"', ';a="\r\n"', '; a', ' ;a', ' ', '\t', ';a=b=c'],
  ';a b',
];

function chunks(draw: Draw, body: Buffer): string {
  const pieces = body.length === 0 ? [] : draw.pieces(body, draw.between(1, 5));
  const lines = pieces.map((piece) => {
    const size = draw.weighted<string>([
      [30, piece.length.toString(16)],
      [2, piece.length.toString(16).toUpperCase()],
      [2, `00${piece.length.toString(16)}`],
      [0.5, `00000000000${piece.length.toString(16)}`],
      [0.5, (piece.length + draw.between(-1, 1)).toString(16)],
      [0.2, draw.pick(['', 'g', '0x1', '-1', '+1', '1 ', ' 1', 'ffffffff', 'fffffffffffffffff'])],
    ]);
    const extension = draw.chance(0.06) ? draw.pick(extensions) : '';
    const end = draw.weighted<string>([
      [60, '\r\n'],
      [0.5, '\n'],
      [0.5, '\r'],
      [0.5, ''],
      [0.5, '\r\r\n'],
    ]);
    return `${size}${extension}\r\n${piece.toString('latin1')}${end}`;
  });
  const last = draw.weighted<string>([
    [30, '0\r\n\r\n'],
    [2, '000\r\n\r\n'],
    [2, '0;a=b\r\n\r\n'],
    [3, '0\r\nA: b\r\nC: d\r\n\r\n'],
    [
      1,
      `0\r\n${draw.pick(['Content-Length: 5', 'Transfer-Encoding: chunked', 'Host: a', ' a', 'a', ': b'])}\r\n\r\n`,
    ],
    [0.5, '0\n\n'],
    [0.5, '0\r\n\n'],
    [0.5, '0\r\n'],
    [0.5, ''],
  ]);
  return spoilt(draw, lines.join('') + last);
}

const otherLines = [
  ...[
    'A: b',
    'A:',
    'A: \t b \t',
    'A:b',
    'Set-Cookie: a',
    'Cookie: a=b',
    'X-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
  ],
  ...['Content-Type: text/plain', 'Connection: keep-alive', 'Upgrade: websocket', 'Connection: upgrade'],
  ...['Keep-Alive: timeout=5', 'Trailer: A', 'TE: trailers', '__proto__: a', 'constructor: b', 'A: \xe4'],
];
const oddLines = [
  ...[
    'Expect: 100-continue',
    'Connection: close',
    'Connection: a, close',
    'Host: b',
    'A : b',
    ' folded',
    '\tfolded',
  ],
  ...['none', ': b', 'A\0: b', 'A: \0', 'A: b\rC: d', 'A: b\nC: d'],
];

interface MessageFraming {
  readonly lines: readonly string[];
  readonly body: string;
}

function framed(draw: Draw): MessageFraming {
  const body = draw.chance(0.2)
    ? Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    : draw.bytes(draw.skewed(60));
  const length = (): string => `${nameOf(draw, 'Content-Length')}: ${lengthValue(draw, body.length)}`;
  const coding = (): string =>
    `${nameOf(draw, 'Transfer-Encoding')}: ${draw.chance(0.06) ? draw.pick(codings) : 'chunked'}`;
  const plain = body.toString('latin1');
  return draw.weighted<() => MessageFraming>([
    [20, () => ({ lines: [], body: '' })],
    [20, () => ({ lines: [length()], body: plain })],
    [20, () => ({ lines: [coding()], body: chunks(draw, body) })],
    [1, () => ({ lines: [length(), length()], body: plain })],
    [1, () => ({ lines: [coding(), coding()], body: chunks(draw, body) })],
    [1, () => ({ lines: [length(), coding()], body: chunks(draw, body) })],
    [1, () => ({ lines: [coding(), length()], body: plain })],
    [1, () => ({ lines: [], body: plain })],
  ])();
}

function message(draw: Draw, first: string, usual: readonly string[]): string {
  const { lines, body } = framed(draw);
  const others = draw.list(draw.skewed(5), () => draw.pick(draw.chance(0.04) ? oddLines : otherLines));
  const many = draw.chance(0.01) ? draw.list(draw.below(5000), () => 'a:') : [];
  const head = [...usual, ...others, ...lines, ...many];
  if (draw.chance(0.2)) head.reverse();
  if (draw.chance(0.01)) head.push(`X: ${'y'.repeat(draw.between(15_000, 17_000))}`);
  const end = draw.weighted([
    [200, '\r\n'],
    [1, '\n'],
    [1, '\r'],
    [1, '\r\r\n'],
  ]);
  const text = [spoilt(draw, first), ...head.map((line) => spoilt(draw, line, 0.005))].join(end);
  return `${text}${end}${end}${body}`;
}

function request(draw: Draw): string {
  const method = draw.weighted<string>([
    [20, draw.pick(['GET', 'POST', 'HEAD', 'PUT', 'OPTIONS', 'DELETE', 'M-SEARCH', 'TRACE', 'QUERY'])],
    [1, draw.pick(['get', 'CONNECT', 'PRI', 'GE', 'GETT', '', 'HTTP/1.1', 'G(T'])],
  ]);
  const target = draw.weighted<string>([
    [20, draw.pick(['/', '/a?b=c', '/a#b', '/%00', '//', '/\\', '/a"b<>^`{|}'])],
    [1, draw.pick(['*', 'http://a/', 'a:80', '', '/ a', '/\xe4', '/\0', '?', '/\t'])],
  ]);
  const version = draw.weighted<string>([
    [30, 'HTTP/1.1'],
    [2, 'HTTP/1.0'],
    [
      1,
      draw.pick([
        ...['HTTP/0.9', 'HTTP/2.0', 'HTTP/1.2', 'http/1.1', 'HTTP/1.1 ', 'HTTP/11', 'ICE/1.0', 'RTSP/1.0'],
        '',
      ]),
    ],
  ]);
  const blank = draw.chance(0.03) ? draw.pick(['\r\n', '\n', '\r', '\r\n\r\n', ' ']) : '';
  return blank + message(draw, `${method} ${target} ${version}`, ['Host: a']);
}

/** Draws one to three pipelined requests. */
export function requestBytes(draw: Draw): Buffer {
  const text = draw
    .list(
      draw.weighted([
        [5, 1],
        [2, 2],
        [1, 3],
      ]),
      () => request(draw),
    )
    .join('');
  const bytes = Buffer.from(text, 'latin1');
  return draw.chance(0.1) ? mutateBytes(draw, bytes, 2) : bytes;
}

function answer(draw: Draw): string {
  const status = draw.weighted<string>([
    [20, '200 OK'],
    [5, draw.pick(['400 x', '404 ', '500 a b', '503 \xff', '299 x', '999 x', '600 x'])],
    [3, draw.pick(['204 x', '304 x', '205 x', '206 x'])],
    [
      1,
      draw.pick(['200', '20 x', '2000 x', '2x0 x', '099 x', '000 x', ' 200 x', '200  x', '101 x', '200 a\0']),
    ],
  ]);
  const version = draw.weighted<string>([
    [30, 'HTTP/1.1'],
    [2, 'HTTP/1.0'],
    [1, draw.pick(['HTTP/0.9', 'HTTP/2.0', 'HTTP/1.2', 'http/1.1', 'ICY', 'HTTP/1.1 ', ''])],
  ]);
  return message(draw, `${version} ${status}`, []);
}

/** Draws interim answers and a final answer, occasionally followed by further bytes. */
export function answerBytes(draw: Draw): Buffer {
  const early = draw.list(draw.chance(0.2) ? draw.below(4) : 0, () =>
    draw.pick([
      'HTTP/1.1 100 Continue\r\n\r\n',
      'HTTP/1.1 103 x\r\nA: b\r\n\r\n',
      'HTTP/1.1 102 x\r\nContent-Length: 3\r\n\r\n',
    ]),
  );
  const behind = draw.chance(0.1)
    ? draw.pick(['x', '\r\n', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'])
    : '';
  const bytes = Buffer.from(early.join('') + answer(draw) + behind, 'latin1');
  return draw.chance(0.1) ? mutateBytes(draw, bytes, 2) : bytes;
}

/** Splits the bytes as a peer might send them: all at once, in several pieces, or byte by byte. */
export function cut(draw: Draw, bytes: Buffer): readonly Buffer[] {
  if (bytes.length === 0) return [];
  const count = draw.weighted<() => number>([
    [4, () => 1],
    [4, () => draw.between(2, 6)],
    [1, () => Math.min(bytes.length, 400)],
  ])();
  return draw.pieces(bytes, count);
}
