/**
 * Tests that recorded answers are replayed byte for byte, and that shortened recordings are replayed without the events that
 * were damaged.
 */
import { expect, test } from 'vitest';
import { readCapture } from './capture.ts';

const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n';
const file = (answer: string, end = 'eof; 9 bytes') =>
  `=== REQUEST\nGET / HTTP/1.1\n\n=== RESPONSE\n${answer}\n=== END ${end}\n### note\n`;

test('a complete recording is kept unchanged', () => {
  const answer = `${head}9\r\ndata: a\n\n\r\n0\r\n\r\n`;
  expect(readCapture(file(answer))).toEqual({ bytes: answer, held: false });
});

test('a connection that the client gave up counts as held open', () => {
  expect(readCapture(file(head, 'client timeout 40s; 9 bytes')).held).toBe(true);
  expect(readCapture(file(head, 'client RST; 9 bytes')).held).toBe(true);
});

test('events damaged by a cut are left out, and the rest is framed again', () => {
  const answer = `${head}9\r\ndata: a\n\n\r\nff\r\ndata: {"b\n[... 300 bytes cut ...]\n"}\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n`;
  expect(readCapture(file(answer)).bytes).toBe(
    `${head}9\r\ndata: a\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n`,
  );
});

test('a shortened stream without an end gets none', () => {
  const answer = `${head}9\r\ndata: a\n\n\r\nff\r\ndata: {"b\n[... 300 bytes cut ...]\n"}\n\n\r\n9\r\ndata: c\n\n\r\n`;
  expect(readCapture(file(answer)).bytes).toBe(`${head}9\r\ndata: a\n\n\r\n9\r\ndata: c\n\n\r\n`);
});

test.each([
  { name: 'no answer', text: 'ENGINE 1.0', says: 'no answer' },
  {
    name: 'a shortened JSON body',
    text: file('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"a\n[... 7 bytes cut ...]\n"}'),
    says: 'shortened',
  },
])('a recording that cannot be replayed is refused: $name', ({ text, says }) => {
  expect(() => readCapture(text)).toThrow(says);
});
