/** Tests every rule of RFC 9112 and RFC 9110 about where a message ends, with the bytes split at every position. */
import { expect, test } from 'vitest';
import { type FaultName, faults } from './faults.ts';
import { AnswerHeadReader, RequestHeadReader } from './head-readers.ts';
import type { ParsedAnswer, ParsedRequest } from './message-head.ts';
import { MessageReader } from './message-reader.ts';
import { type ReaderEvent, type ReaderState, readerTransitions } from './message-states.ts';

const headBytesMax = 256;

interface Read {
  readonly messages: string[];
  fault: FaultName | undefined;
}

type Kind = 'request' | 'answer';

class Peer {
  readonly read: Read = { messages: [], fault: undefined };
  readonly #reader: { read(bytes: Buffer): number; close(): void };
  #current = '';

  constructor(kind: Kind) {
    const sink = {
      onHead: (head: ParsedRequest | ParsedAnswer) => {
        const line = 'status' in head ? `${head.status}` : `${head.method} ${head.url}`;
        this.#current = `${line} ${head.httpVersion}${head.isLast ? ' last' : ''} ${head.rawHeaders.join('|')} `;
      },
      onPiece: (piece: Buffer) => {
        this.#current += piece.toString('latin1');
      },
      onEnd: () => this.read.messages.push(this.#current),
      onFault: (fault: FaultName) => {
        this.read.fault = fault;
      },
    };
    this.#reader =
      kind === 'request'
        ? new MessageReader(new RequestHeadReader(headBytesMax), sink, headBytesMax)
        : new MessageReader(new AnswerHeadReader(headBytesMax), sink, headBytesMax);
  }

  send(text: string): void {
    const bytes = Buffer.from(text, 'latin1');
    for (let at = 0; at < bytes.length && this.read.fault === undefined; )
      at += this.#reader.read(bytes.subarray(at));
  }

  close(): void {
    this.#reader.close();
  }
}

function readPieces(kind: Kind, pieces: readonly string[]): Read {
  const peer = new Peer(kind);
  for (const piece of pieces) peer.send(piece);
  peer.close();
  return peer.read;
}

/** Reads the text in one piece, split at each position, and byte by byte. All results must be equal. */
function readEachWay(kind: Kind, text: string): Read {
  const whole = readPieces(kind, [text]);
  const expected = JSON.stringify(whole);
  const isAlike = (...pieces: string[]): boolean => JSON.stringify(readPieces(kind, pieces)) === expected;
  const places = Array.from({ length: text.length }, (_, at) => at);
  expect(places.filter((at) => !isAlike(text.slice(0, at), text.slice(at)))).toEqual([]);
  expect(isAlike(...text)).toBe(true);
  return whole;
}

type Row = readonly [rule: string, text: string, expected: FaultName | readonly string[]];

function request(lines: readonly string[], body = ''): string {
  return `${['POST / HTTP/1.1', 'Host: a', ...lines].join('\r\n')}\r\n\r\n${body}`;
}
const chunkedLine = 'Transfer-Encoding: chunked';
const inChunks = (body: string): string => request([chunkedLine], body);
const counted = (length: string, body = ''): string => request([`Content-Length: ${length}`], body);
const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const gotten = 'GET / 1.1 Host|a ';
const chunkedHead = 'POST / 1.1 Host|a|Transfer-Encoding|chunked ';

const requests: readonly Row[] = [
  ['9112 3: a request line and fields', get, [gotten]],
  ['9112 2.2: empty lines before a request', `\r\n\r\n\r\n${get}`, [gotten]],
  ['9112 2.2: a bare line feed before a request', `\n${get}`, 'bare line feed'],
  ['9112 2.2: a bare carriage return before a request', `\r${get}`, 'bare carriage return'],
  ['9112 2.2: white space before a request', ` ${get}`, 'method'],
  [
    '9112 2.2: a request line that ends with a bare line feed',
    'GET / HTTP/1.1\nHost: a\r\n\r\n',
    'bare line feed',
  ],
  ['9112 3: a method alone', 'GET\r\n\r\n', 'method'],
  ['9112 3: a method alone, and a bare line feed', 'GET\n\n', 'bare line feed'],
  ['9112 3.1: methods in lower case', 'get / HTTP/1.1\r\nHost: a\r\n\r\n', 'method'],
  ['9112 3.1: an unknown method', 'HUSH / HTTP/1.1\r\nHost: a\r\n\r\n', 'method'],
  ['9112 3.1: a method with a byte that no token has', 'G(T / HTTP/1.1\r\nHost: a\r\n\r\n', 'method'],
  ['9112 3.1: a method known by its beginning', 'GETT / HTTP/1.1\r\nHost: a\r\n\r\n', 'method'],
  ['9110 9.3.6: a tunnel', 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n', 'method'],
  ['9113 3.4: the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'method'],
  ['9112 3: a tab for a space', 'GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n', 'method'],
  ['9112 3: two spaces before the target', 'GET  / HTTP/1.1\r\nHost: a\r\n\r\n', 'target'],
  ['9112 3: two spaces before the version', 'GET /  HTTP/1.1\r\nHost: a\r\n\r\n', 'version'],
  ['9112 3: a space within the target', 'GET /a b HTTP/1.1\r\nHost: a\r\n\r\n', 'version'],
  ['9112 3: a space behind the version', 'GET / HTTP/1.1 \r\nHost: a\r\n\r\n', 'version'],
  ['9112 3.2: no target', 'GET HTTP/1.1\r\nHost: a\r\n\r\n', 'target'],
  ['9112 3.2: a zero byte in the target', 'GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n', 'target'],
  ['9112 3.2: a tab in the target', 'GET /\t HTTP/1.1\r\nHost: a\r\n\r\n', 'target'],
  ['9112 3.2: a byte in the target that is no ASCII', 'GET /\xe4 HTTP/1.1\r\nHost: a\r\n\r\n', 'target'],
  ['9112 3.2: a carriage return in the target', 'GET /\rHost: a HTTP/1.1\r\n\r\n', 'target'],
  ['9112 3.2.1: a path and a query', 'GET /a?b=c HTTP/1.1\r\nHost: a\r\n\r\n', ['GET /a?b=c 1.1 Host|a ']],
  ['9112 3.2.2: the absolute form', 'GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n', 'no path'],
  ['9112 3.2.3: the authority form', 'GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n', 'no path'],
  ['9112 3.2.4: the asterisk form', 'OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n', 'no path'],
  ['9112 2.3: HTTP/1.0 ends its connection', 'GET / HTTP/1.0\r\n\r\n', ['GET / 1.0 last  ']],
  ['9112 2.3: HTTP/0.9 without a version', 'GET /\r\n', 'target'],
  ['9112 2.3: HTTP/0.9', 'GET / HTTP/0.9\r\nHost: a\r\n\r\n', 'version'],
  ['9112 2.3: HTTP/1.2', 'GET / HTTP/1.2\r\nHost: a\r\n\r\n', 'version'],
  ['9112 2.3: HTTP/2.0', 'GET / HTTP/2.0\r\nHost: a\r\n\r\n', 'version'],
  ['9112 2.3: the protocol in lower case', 'GET / http/1.1\r\nHost: a\r\n\r\n', 'version'],
  ['9112 2.3: another protocol', 'GET / ICE/1.0\r\nHost: a\r\n\r\n', 'version'],
  ['9112 2.3: a version of more digits', 'GET / HTTP/1.10\r\nHost: a\r\n\r\n', 'version'],
  ['9112 2.3: a version without a second digit', 'GET / HTTP/1.\r\nHost: a\r\n\r\n', 'version'],
  ['9112 5: white space around a value', request(['A: \t b c \t']), ['POST / 1.1 Host|a|A|b c ']],
  ['9112 5: no space before a value', request(['A:b']), ['POST / 1.1 Host|a|A|b ']],
  ['9110 5.5: an empty value', request(['A:', 'B: ']), ['POST / 1.1 Host|a|A||B| ']],
  ['9110 5.5: bytes that are no ASCII', request(['A: \xe4\xff']), ['POST / 1.1 Host|a|A|\xe4\xff ']],
  ['9110 5.5: a zero byte in a value', request(['A: \0']), 'control byte'],
  ['9110 5.5: a delete in a value', request(['A: \x7f']), 'control byte'],
  ['9110 5.5: a vertical tab before a value', request(['Transfer-Encoding: \x0bchunked']), 'control byte'],
  ['9112 2.2: a bare line feed within a value', request(['A: b\nC: d']), 'bare line feed'],
  ['9112 2.2: a bare carriage return within a value', request(['A: b\rC: d']), 'bare carriage return'],
  ['9112 2.2: a carriage return before a line end', request(['A: b\r']), 'bare carriage return'],
  ['9112 2.2: an empty line that is a bare line feed', 'GET / HTTP/1.1\r\nHost: a\r\n\n', 'bare line feed'],
  ['9112 2.2: line feeds alone', 'GET / HTTP/1.1\nHost: a\n\n', 'bare line feed'],
  ['9112 5.1: a space before a colon', request(['Content-Length : 0']), 'space before a colon'],
  ['9112 5.1: a tab before a colon', request(['Content-Length\t: 0']), 'space before a colon'],
  ['9112 5.1: a line without a colon', request(['none']), 'field name'],
  ['9112 5.1: a line without a name', request([': b']), 'field name'],
  ['9112 5.1: a name with a space', request(['A B: c']), 'space before a colon'],
  ['9112 5.1: a name with a byte that is no ASCII', request(['\xe4: b']), 'field name'],
  ['9112 5.1: a name with a zero byte', request(['A\0: b']), 'field name'],
  ['9112 5.1: a name in quotes', request(['"A": b']), 'field name'],
  ['9112 5.2: a folded line', request(['A: b', ' c']), 'folded line'],
  ['9112 5.2: a folded line that begins with a tab', request(['A: b', '\tc']), 'folded line'],
  ['9112 5.2: a folded line of white space', request(['A: b', ' ']), 'folded line'],
  ['9112 2.2: white space before the first field', 'GET / HTTP/1.1\r\n Host: a\r\n\r\n', 'folded line'],
  [
    '9110 5.4: a head of the most bytes',
    headOf(headBytesMax),
    [`GET / 1.1 Host|a|A|${'a'.repeat(headBytesMax - 32)} `],
  ],
  ['9110 5.4: a head of one more', headOf(headBytesMax + 1), 'large head'],
  ['9110 5.4: a name without end', `GET / HTTP/1.1\r\n${'a'.repeat(headBytesMax)}`, 'large head'],
  ['9110 5.4: a target without end', `GET /${'a'.repeat(headBytesMax)}`, 'large head'],
  ['9110 5.4: empty lines without end', '\r\n'.repeat(headBytesMax), 'large head'],
  ['9112 3.2: no host', 'GET / HTTP/1.1\r\nA: b\r\n\r\n', 'host'],
  ['9112 3.2: no fields', 'GET / HTTP/1.1\r\n\r\n', 'host'],
  ['9112 3.2: two hosts', request(['hOST: b']), 'host'],
  ['9112 3.2: the same host twice', request(['Host: a']), 'host'],
  ['9112 3.2: two hosts in HTTP/1.0', 'GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n', 'host'],
  ['9112 6.3: a counted body', counted('5', 'hello'), ['POST / 1.1 Host|a|Content-Length|5 hello']],
  ['9112 6.3: an empty body', counted('0'), ['POST / 1.1 Host|a|Content-Length|0 ']],
  [
    '9112 6.3: what follows a body is a request',
    counted('3', `abc${get}`),
    ['POST / 1.1 Host|a|Content-Length|3 abc', gotten],
  ],
  ['9112 6.3: no length is no body', `${request([])}${get}`, ['POST / 1.1 Host|a ', gotten]],
  [
    '9112 6.3: a body of another method',
    `GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx${get}`,
    ['GET / 1.1 Host|a|Content-Length|1 x', gotten],
  ],
  [
    '9112 6.3: a body that is a request',
    counted(`${get.length}`, get),
    [`POST / 1.1 Host|a|Content-Length|${get.length} ${get}`],
  ],
  [
    '9112 6.3: the name in other letters',
    request(['cONTENT-lENGTH: 1'], 'x'),
    ['POST / 1.1 Host|a|cONTENT-lENGTH|1 x'],
  ],
  ['9112 6.3: the same length twice', request(['Content-Length: 5', 'Content-Length: 5'], 'hello'), 'length'],
  ['9112 6.3: two lengths', request(['Content-Length: 5', 'content-length: 6'], 'hello'), 'length'],
  ['9110 8.6: a list of lengths', counted('5, 5', 'hello'), 'length'],
  ['9110 8.6: no length', counted(''), 'length'],
  ['9110 8.6: a negative length', counted('-1'), 'length'],
  ['9110 8.6: a length with a sign', counted('+5', 'hello'), 'length'],
  ['9110 8.6: a hexadecimal length', counted('0x5', 'hello'), 'length'],
  ['9110 8.6: a length with an exponent', counted('5e0', 'hello'), 'length'],
  ['9110 8.6: a length with a point', counted('5.0', 'hello'), 'length'],
  ['9110 8.6: a length with a zero before it', counted('05', 'hello'), 'length'],
  [
    '9110 8.6: a length with spaces around it',
    counted('  5  ', 'hello'),
    ['POST / 1.1 Host|a|Content-Length|5 hello'],
  ],
  ['9110 8.6: a length with a tab behind it', counted('5\t', 'hello'), 'length'],
  ['9110 8.6: a length with a tab before it', counted('\t5', 'hello'), 'length'],
  ['9110 8.6: a length with a space within', counted('1 1', 'hello'), 'length'],
  ['9110 8.6: a length beyond all numbers', counted('9'.repeat(30)), 'length'],
  ['9110 8.6: a length of 2^64 + 5', counted('18446744073709551621', 'hello'), 'length'],
  ['9112 8: a body that is cut short', counted('5', 'hell'), 'cut short'],
  ['9112 8: a head that is cut short', 'GET / HTTP/1.1\r\nHost: a\r\n', 'cut short'],
  ['9112 7.1: chunks', inChunks('5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n'), [`${chunkedHead}hello!`]],
  ['9112 7.1: no chunk but the last', inChunks('0\r\n\r\n'), [chunkedHead]],
  [
    '9112 7.1: what follows the chunks is a request',
    inChunks(`1\r\na\r\n0\r\n\r\n${get}`),
    [`${chunkedHead}a`, gotten],
  ],
  [
    '9112 7.1: sizes in either case, with zeros',
    inChunks('0A\r\n0123456789\r\n00b\r\n0123456789a\r\n00\r\n\r\n'),
    [`${chunkedHead}01234567890123456789a`],
  ],
  [
    '9112 7.1: a chunk that ends like the last one',
    inChunks('5\r\n0\r\n\r\n\r\n0\r\n\r\n'),
    [`${chunkedHead}0\r\n\r\n`],
  ],
  [
    '9112 7: the coding in other letters',
    request(['transfer-ENCODING: CHUNKED'], '0\r\n\r\n'),
    ['POST / 1.1 Host|a|transfer-ENCODING|CHUNKED '],
  ],
  [
    '9112 6.1: a length and chunks',
    request(['Content-Length: 5', chunkedLine], '0\r\n\r\n'),
    'length and chunks',
  ],
  [
    '9112 6.1: chunks and a length',
    request([chunkedLine, 'Content-Length: 5'], '0\r\n\r\n'),
    'length and chunks',
  ],
  [
    '9112 6.1: an empty coding and a length',
    request(['Transfer-Encoding:', 'Content-Length: 5'], 'hello'),
    'length and chunks',
  ],
  ['9112 6.1: a coding with a tab behind it', request(['Transfer-Encoding: chunked\t']), 'coding'],
  ['9112 6.1: a coding with a tab before it', request(['Transfer-Encoding: \tchunked']), 'coding'],
  ['9112 6.1: an empty coding', request(['Transfer-Encoding:']), 'coding'],
  ['9112 6.1: an unknown coding', request(['Transfer-Encoding: gzip']), 'coding'],
  ['9112 6.1: a coding that is named like it', request(['Transfer-Encoding: xchunked']), 'coding'],
  ['9112 6.1: a coding before it', request(['Transfer-Encoding: gzip, chunked']), 'coding'],
  ['9112 6.1: a coding behind it', request(['Transfer-Encoding: chunked, identity']), 'coding'],
  ['9112 6.1: a coding with a parameter', request(['Transfer-Encoding: chunked;a=b']), 'coding'],
  ['9112 6.1: a coding in quotes', request(['Transfer-Encoding: "chunked"']), 'coding'],
  ['9112 6.1: chunks twice', request(['Transfer-Encoding: chunked, chunked']), 'coding'],
  ['9112 6.1: chunks in two fields', request([chunkedLine, chunkedLine]), 'coding'],
  [
    '9112 6.1: chunks in two fields, one of another coding',
    request([chunkedLine, 'Transfer-Encoding: identity']),
    'coding',
  ],
  ['9112 6.1: chunks in HTTP/1.0', `POST / HTTP/1.0\r\n${chunkedLine}\r\n\r\n0\r\n\r\n`, 'coding'],
  ['9112 7.1: a size of no digit', inChunks('\r\n\r\n'), 'chunk size'],
  ['9112 7.1: a size of other letters', inChunks('g\r\n'), 'chunk size'],
  ['9112 7.1: a negative size', inChunks('-1\r\n'), 'chunk size'],
  ['9112 7.1: a size with a prefix', inChunks('0x5\r\nhello\r\n0\r\n\r\n'), 'chunk size'],
  ['9112 7.1: white space before a size', inChunks(' 5\r\nhello\r\n0\r\n\r\n'), 'chunk size'],
  ['9112 7.1: white space behind a size', inChunks('5 \r\nhello\r\n0\r\n\r\n'), 'chunk size'],
  ['9112 7.1: a size of eight digits', inChunks('00000005\r\nhello\r\n0\r\n\r\n'), [`${chunkedHead}hello`]],
  ['9112 7.1: a size of nine digits', inChunks('000000005\r\nhello\r\n0\r\n\r\n'), 'chunk size'],
  ['9112 7.1: a size of 2^64', inChunks('10000000000000000\r\n'), 'chunk size'],
  ['9112 7.1: a size that ends with a bare line feed', inChunks('5\nhello\r\n0\r\n\r\n'), 'bare line feed'],
  [
    '9112 7.1: a size that ends with a bare carriage return',
    inChunks('5\rhello\r\n0\r\n\r\n'),
    'bare carriage return',
  ],
  ['9112 7.1: a chunk of more bytes', inChunks('4\r\nhello\r\n0\r\n\r\n'), 'chunk end'],
  ['9112 7.1: a chunk of fewer bytes', inChunks('7\r\nhello\r\n0\r\n\r\n'), 'chunk end'],
  ['9112 7.1: a chunk that ends with a bare line feed', inChunks('5\r\nhello\n0\r\n\r\n'), 'bare line feed'],
  [
    '9112 7.1: a chunk that ends with a bare carriage return',
    inChunks('5\r\nhello\r0\r\n\r\n'),
    'bare carriage return',
  ],
  ['9112 7.1: a last chunk that ends with a bare line feed', inChunks('0\n\n'), 'bare line feed'],
  ['9112 7.1: an end that is a bare line feed', inChunks('0\r\n\n'), 'bare line feed'],
  ['9112 8: chunks without the last one', inChunks('5\r\nhello\r\n'), 'cut short'],
  ['9112 8: a last chunk without its end', inChunks('0\r\n'), 'cut short'],
  [
    '9112 7.1.1: extensions are passed over',
    inChunks('1;a\r\nx\r\n1;a=b;c=d\r\ny\r\n0;e\r\n\r\n'),
    [`${chunkedHead}xy`],
  ],
  ['9112 7.1.1: an extension without a name', inChunks('1;\r\nx\r\n0\r\n\r\n'), 'chunk extension'],
  ['9112 7.1.1: an extension without a value', inChunks('1;a=\r\nx\r\n0\r\n\r\n'), 'chunk extension'],
  ['9112 7.1.1: an extension of two values', inChunks('1;a=b=c\r\nx\r\n0\r\n\r\n'), 'chunk extension'],
  ['9112 7.1.1: white space in an extension', inChunks('1; a\r\nx\r\n0\r\n\r\n'), 'chunk extension'],
  ['9112 7.1.1: a value in quotes', inChunks('1;a="b"\r\nx\r\n0\r\n\r\n'), 'chunk extension'],
  ['9112 7.1.1: a bare line feed in an extension', inChunks('1;a\nx\r\n0\r\n\r\n'), 'chunk extension'],
  [
    '9112 7.1.1: a bare carriage return in an extension',
    inChunks('1;a\rb\r\nx\r\n0\r\n\r\n'),
    'bare carriage return',
  ],
  ['9112 7.1.1: a zero byte in an extension', inChunks('1;a\0\r\nx\r\n0\r\n\r\n'), 'chunk extension'],
  ['9112 7.1.2: trailers are dropped', inChunks('1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\n'), [`${chunkedHead}x`]],
  [
    '9112 7.1.2: what follows trailers is a request',
    inChunks(`0\r\nA: b\r\n\r\n${get}`),
    [chunkedHead, gotten],
  ],
  ['9112 7.1.2: a folded line in trailers', inChunks('0\r\nA: b\r\n c\r\n\r\n'), 'folded line'],
  ['9112 7.1.2: a line without a colon in trailers', inChunks('0\r\nA\r\n\r\n'), 'field name'],
  ['9110 6.5.1: a length in trailers', inChunks('0\r\nContent-Length: 5\r\n\r\n'), 'trailer'],
  ['9110 6.5.1: a coding in trailers', inChunks('0\r\ntransfer-encoding: chunked\r\n\r\n'), 'trailer'],
  ['9110 6.5.1: a host in trailers', inChunks('0\r\nHost: b\r\n\r\n'), 'trailer'],
  [
    '9110 5.4: trailers without end',
    inChunks(`0\r\n${'A: b\r\n'.repeat(headBytesMax / 6 + 1)}`),
    'large head',
  ],
  [
    '9112 9.6: a connection that ends',
    request(['Connection: close']),
    ['POST / 1.1 last Host|a|Connection|close '],
  ],
  [
    '9112 9.6: the end among others',
    request(['connection: a, Close ,b']),
    ['POST / 1.1 last Host|a|connection|a, Close ,b '],
  ],
  [
    '9112 9.6: the end in a second field',
    request(['Connection: a', 'Connection: close']),
    ['POST / 1.1 last Host|a|Connection|a|Connection|close '],
  ],
  [
    '9112 9.6: a name that begins alike',
    request(['Connection: closed']),
    ['POST / 1.1 Host|a|Connection|closed '],
  ],
  ['9112 9.3.2: requests behind one another', get.repeat(3), [gotten, gotten, gotten]],
  ['9112 9.3.2: no request behind another', `${get}garbage\r\n\r\n`, 'method'],
  [
    '9110 10.1.1: an expectation',
    request(['Expect: 100-Continue']),
    ['POST / 1.1 Host|a|Expect|100-Continue '],
  ],
  ['9110 10.1.1: another expectation', request(['Expect: 200-ok']), 'expectation'],
  ['9110 10.1.1: no expectation', request(['Expect:']), 'expectation'],
  [
    '9110 10.1.1: an expectation twice',
    request(['Expect: 100-continue', 'Expect: 100-continue']),
    'expectation',
  ],
  [
    '9110 7.8: an upgrade is passed over',
    request(['Connection: upgrade', 'Upgrade: h2c']),
    ['POST / 1.1 Host|a|Connection|upgrade|Upgrade|h2c '],
  ],
  ['9112 11.2: a TLS hello', '\x16\x03\x01\x02\0', 'method'],
  ['nothing at all', '', []],
];

function headOf(bytes: number): string {
  const empty = 'GET / HTTP/1.1\r\nHost: a\r\nA: \r\n\r\n';
  return empty.replace('A: ', `A: ${'a'.repeat(bytes - empty.length)}`);
}

const answer = (lines: readonly string[], body = '', status = '200 OK'): string =>
  `${[`HTTP/1.1 ${status}`, ...lines].join('\r\n')}\r\n\r\n${body}`;

const answers: readonly Row[] = [
  ['9112 4: a status line', answer(['Content-Length: 2'], 'ok'), ['200 1.1 Content-Length|2 ok']],
  ['9112 4: no reason', answer(['Content-Length: 2'], 'ok', '200 '), ['200 1.1 Content-Length|2 ok']],
  [
    '9112 4: a reason of many words',
    answer(['Content-Length: 0'], '', '200 a\tb \xff'),
    ['200 1.1 Content-Length|0 '],
  ],
  ['9112 4: no space behind the status', answer([], '', '200'), 'status'],
  ['9112 4: a status of two digits', answer([], '', '20 OK'), 'status'],
  ['9112 4: a status of four digits', answer([], '', '2000 OK'), 'status'],
  ['9112 4: a status of letters', answer([], '', '2x0 OK'), 'status'],
  ['9110 15: a status below 100', answer([], '', '099 OK'), 'status'],
  ['9112 4: two spaces', answer([], '', ' 200 OK'), 'status'],
  ['9112 4: a tab for a space', 'HTTP/1.1\t200 OK\r\n\r\n', 'status'],
  ['9112 4: a zero byte in the reason', answer([], '', '200 \0'), 'control byte'],
  ['9112 4: a bare carriage return in the reason', answer([], '', '200 a\rb'), 'bare carriage return'],
  [
    '9112 2.2: a status line that ends with a bare line feed',
    'HTTP/1.1 200 OK\nA: b\r\n\r\n',
    'bare line feed',
  ],
  ['9112 2.2: an empty line before an answer', `\r\n${answer([])}`, 'version'],
  [
    '9112 2.3: HTTP/1.0',
    'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok',
    ['200 1.0 last Content-Length|2 ok'],
  ],
  ['9112 2.3: another protocol', 'ICY 200 OK\r\n\r\n', 'version'],
  ['9112 2.3: HTTP/2.0', 'HTTP/2.0 200 OK\r\n\r\n', 'version'],
  ['9112 2.3: HTTP/0.9', '<html>', 'version'],
  [
    '9112 6.3: 204 has no body',
    `${answer(['Content-Length: 2'], '', '204 No Content')}${answer(['Content-Length: 0'])}`,
    ['204 1.1 Content-Length|2 ', '200 1.1 Content-Length|0 '],
  ],
  ['9112 6.3: 304 has no body', answer([], '', '304 Not Modified'), ['304 1.1  ']],
  [
    '9110 15.2: early answers before the answer',
    `${answer([], '', '100 Continue')}${answer(['Link: a'], '', '103 Early Hints')}${answer(['Content-Length: 0'])}`,
    ['100 1.1  ', '103 1.1 Link|a ', '200 1.1 Content-Length|0 '],
  ],
  ['9110 15.2.2: another protocol', answer(['Upgrade: h2c'], '', '101 Switching Protocols'), 'upgrade'],
  ['9110 15.2: an early answer of HTTP/1.0', 'HTTP/1.0 100 Continue\r\n\r\n', 'early answer'],
  [
    '9110 15.2: an early answer that ends its connection',
    answer(['Connection: close'], '', '103 x'),
    'early answer',
  ],
  ['9112 6.3: a body that ends with its connection', answer([], 'hello'), ['200 1.1 last  hello']],
  ['9112 6.3: an empty one', answer([]), ['200 1.1 last  ']],
  [
    '9112 6.3: chunks',
    answer([chunkedLine], '2\r\nok\r\n0\r\n\r\n'),
    ['200 1.1 Transfer-Encoding|chunked ok'],
  ],
  [
    '9112 6.3: a length and chunks',
    answer([chunkedLine, 'Content-Length: 2'], '2\r\nok\r\n0\r\n\r\n'),
    'length and chunks',
  ],
  ['9112 6.3: two lengths', answer(['Content-Length: 2', 'Content-Length: 3'], 'ok'), 'length'],
  ['9112 6.3: a coding but chunks', answer(['Transfer-Encoding: gzip'], 'ok'), 'coding'],
  ['9112 6.3: chunks in HTTP/1.0', `HTTP/1.0 200 OK\r\n${chunkedLine}\r\n\r\n0\r\n\r\n`, 'coding'],
  ['9112 8: an answer that is cut short', answer(['Content-Length: 3'], 'ok'), 'cut short'],
  ['9112 8: chunks that are cut short', answer([chunkedLine], '2\r\nok\r\n'), 'cut short'],
  ['9112 8: a head that is cut short', 'HTTP/1.1 200 OK\r\nA: b\r\n', 'cut short'],
  [
    '9112 9.6: a connection that ends',
    answer(['Connection: close', 'Content-Length: 0']),
    ['200 1.1 last Connection|close|Content-Length|0 '],
  ],
  ['9112 5.2: a folded line', answer(['A: b', ' c']), 'folded line'],
  ['9112 5.1: a space before a colon', answer(['A : b']), 'space before a colon'],
  ['9110 5.4: a head without end', answer(['A: b'.repeat(headBytesMax)]), 'large head'],
];

for (const [kind, rows] of [
  ['request', requests],
  ['answer', answers],
] as const)
  test.each(rows)(`${kind}, RFC %s`, (_rule, text, expected) => {
    const { messages, fault } = readEachWay(kind, text);
    if (typeof expected === 'string') expect(fault).toBe(expected);
    else expect({ messages, fault }).toEqual({ messages: expected, fault: undefined });
  });

test('every fault is covered by a row', () => {
  const shown = new Set([...requests, ...answers].map(([, , expected]) => expected));
  expect(Object.keys(faults).filter((fault) => !shown.has(fault as FaultName))).toEqual([]);
});

test('chunk extensions are limited per message, not per connection', () => {
  const chunk = `1;${'a'.repeat(1000)}\r\nx\r\n`;
  expect(readPieces('request', [inChunks(chunk.repeat(16))])).toMatchObject({ fault: 'cut short' });
  expect(readPieces('request', [inChunks(chunk.repeat(17))])).toMatchObject({ fault: 'chunk extension' });
  const twice = inChunks(`${chunk.repeat(15)}0\r\n\r\n`).repeat(2);
  expect(readPieces('request', [twice])).toMatchObject({ fault: undefined });
});

test('body bytes read at once reach the sink as one piece, regardless of their chunks', () => {
  const pieces: string[] = [];
  const sink = {
    onHead: () => undefined,
    onPiece: (piece: Buffer) => pieces.push(piece.toString()),
    onEnd: () => pieces.push('end'),
    onFault: (fault: FaultName) => pieces.push(fault),
  };
  const reader = new MessageReader(new RequestHeadReader(headBytesMax), sink, headBytesMax);
  reader.read(Buffer.from(inChunks('1\r\na\r\n2\r\nbc\r\n3\r\nd')));
  reader.read(Buffer.from('ef\r\n1\r\ng\r\nnone'));
  expect(pieces).toEqual(['abcd', 'efg', 'chunk size']);
});

test('a reader abandoned during a call to its sink makes no further calls', () => {
  for (const at of ['onHead', 'onPiece'] as const) {
    const calls: string[] = [];
    const note = (name: string) => () => {
      calls.push(name);
      if (name === at) reader.abandon();
    };
    const sink = {
      onHead: note('onHead'),
      onPiece: note('onPiece'),
      onEnd: note('onEnd'),
      onFault: note('onFault'),
    };
    const reader = new MessageReader(new RequestHeadReader(headBytesMax), sink, headBytesMax);
    reader.read(Buffer.from(inChunks('1\r\na\r\nnone')));
    reader.close();
    expect(calls.at(-1)).toBe(at);
  }
});

test('a fault breaks the reader in every state, and nothing leaves the broken state', () => {
  const states = Object.keys(readerTransitions) as ReaderState[];
  const named: ReaderEvent[] = states.flatMap(
    (state) => Object.keys(readerTransitions[state]) as ReaderEvent[],
  );
  expect(named).not.toContain('fault');
  expect(readerTransitions.broken).toEqual({});
  for (const state of states) if (state !== 'broken') expect(readerTransitions[state]).not.toEqual({});
});

test('ending an idle connection is not a fault', () => {
  expect(readPieces('request', [get])).toMatchObject({ fault: undefined });
  expect(readPieces('request', [`${get}G`])).toMatchObject({ messages: [gotten], fault: 'cut short' });
});
