/** Tests the reader of event streams: what it passes on, and that it never holds more than one event. */
import { createParser } from 'eventsource-parser';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '../../../test/support/budget.ts';
import type { NodeFailure } from './node-failure.ts';
import { eventCharactersMax, SseReader } from './sse-reader.ts';

function read(...pieces: (string | Uint8Array)[]): { data: string[]; failures: NodeFailure[] } {
  const data: string[] = [];
  const failures: NodeFailure[] = [];
  const reader = new SseReader({
    onData: (text) => data.push(text),
    onFailure: (failure) => failures.push(failure),
  });
  for (const piece of pieces) reader.push(typeof piece === 'string' ? Buffer.from(piece) : piece);
  return { data, failures };
}

test('comments, ids and empty events produce nothing', () => {
  expect(read(':\n\n: ping\n\nid: 5\nretry: 10\n\ndata: a\n\n')).toEqual({ data: ['a'], failures: [] });
});

test('an event without its final empty line is not delivered', () => {
  expect(read('data: a\n\ndata: b\n').data).toEqual(['a']);
});

test('a byte order mark and both kinds of line ending are accepted', () => {
  expect(read(Buffer.from('\ufeffdata: a\r\n\r\ndata:b\n\n')).data).toEqual(['a', 'b']);
});

const half = 'x'.repeat(eventCharactersMax / 2);

test.each([
  ['an endless line', [`data: ${half}`, half, 'x']],
  ['one line in a single piece', [`data: ${half}${half}x\n\n`]],
  ['many lines', Array.from({ length: 3 }, () => `data: ${half}\n`)],
  ['an endless comment', [`:${half}`, half, 'x']],
])('an event that is too large fails, and nothing after it is read: %s', (_, pieces) => {
  const { data, failures } = read('data: a\n\n', ...pieces, '\n\ndata: b\n\n');
  expect(data).toEqual(['a']);
  expect(failures.map(({ kind }) => kind)).toEqual(['too_large']);
});

test('an event of the largest size is accepted', () => {
  expect(read(`data: ${'x'.repeat(eventCharactersMax - 64)}\n\n`).data).toHaveLength(1);
});

test('multi-byte characters may be cut anywhere', () => {
  const bytes = Buffer.from('data: é漢😀\n\n');
  for (let at = 0; at <= bytes.length; at++)
    expect(read(bytes.subarray(0, at), bytes.subarray(at)).data).toEqual(['é漢😀']);
});

test.each([
  ['an event', 'event: error\ndata: b\n\n'],
  ['a field', 'error: b\n\n'],
])('an error that a node reports as %s fails the stream, and nothing after it is read', (_, text) => {
  const { data, failures } = read('data: a\n\n', text, 'data: c\n\n');
  expect(data).toEqual(['a']);
  expect(failures.map(({ kind }) => kind)).toEqual(['error']);
});

test('single-line events are read as the standard’s parser reads them, however they are cut', () => {
  const line = fc.constantFrom(
    'data: a',
    'data: é漢😀',
    'data: ',
    'data:b',
    ': c',
    'id: 1',
    'event: x',
    'dat',
    '',
  );
  const end = fc.constantFrom('\n', '\n\n', '\n\n', '\n\n', '\r\n', '\r\n\r\n', '\r');
  const text = fc.array(fc.tuple(line, end), { maxLength: 12 }).map((pairs) => pairs.flat().join(''));
  fc.assert(
    fc.property(text, fc.array(fc.nat(200), { maxLength: 5 }), (given, cuts) => {
      const expected: string[] = [];
      const parser = createParser({
        // Skips events that have a name or no data, because they are not part of the answer.
        onEvent: ({ event, data }) => event === undefined && data.trim() !== '' && expected.push(data),
      });
      const bytes = Buffer.from(`data: first\n\n${given}`);
      const at = [
        0,
        13,
        ...cuts.map((cut) => Math.min(13 + cut, bytes.length)).sort((a, b) => a - b),
        bytes.length,
      ];
      const pieces = at.slice(1).map((to, index) => bytes.subarray(at[index], to));
      const decoder = new TextDecoder();
      for (const piece of pieces) parser.feed(decoder.decode(piece, { stream: true }));
      expect(read(...pieces).data).toEqual(expected);
    }),
    { numRuns: runs({ fast: 500, full: 6000 }) },
  );
});
