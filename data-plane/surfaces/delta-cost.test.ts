/** Tests that a stream's cost grows no faster than its text, however many pieces a node splits it into. */
import { expect, test } from 'vitest';
import { cpuMsOf } from '../../test/support/cpu.ts';
import {
  type AnswerSurface,
  answerSurfaces,
  chunk,
  responsesSurface,
  streamOf,
} from '../../test/support/surface-answers.ts';
import { SseReader } from './common/sse-reader.ts';

const piece = 'x'.repeat(100);
const blanks = ' '.repeat(100);
const called = (text: string, index = 0) => ({ tool_calls: [{ index, function: { arguments: text } }] });
const opened = (text: string, index = 0) => ({
  tool_calls: [{ index, id: `c${index}`, function: { name: 'f', arguments: text } }],
});
const token = { token: piece, logprob: -1, bytes: null, top_logprobs: [] };

interface Case {
  readonly first: readonly object[];
  readonly next: object;
  readonly more?: object;
}

const cases: Readonly<Record<string, Case>> = {
  text: { first: [], next: { content: piece } },
  thoughts: { first: [], next: { reasoning_content: piece } },
  'a refusal': { first: [], next: { refusal: piece } },
  'the arguments of a call': { first: [opened('{"a":"')], next: called(piece) },
  'blanks in the arguments of a call': { first: [opened('{')], next: called(blanks) },
  'blanks before the arguments of a call': { first: [opened('')], next: called(blanks) },
  'the arguments of a call that waits for another': {
    first: [opened('{"a":"'), opened('{"a":"', 1)],
    next: called(piece, 1),
  },
  'text behind a call': { first: [opened('{}')], next: { content: piece } },
};
const customCases: Readonly<Record<string, Case>> = {
  'the input of a custom tool': { first: [opened('{"input":"')], next: called(piece) },
  'escapes in the input of a custom tool': { first: [opened('{"input":"')], next: called('\\n'.repeat(50)) },
  'an illegal escape in the input of a custom tool': {
    first: [opened('{"input":"\\x')],
    next: called(piece),
  },
  'bare text for a custom tool': { first: [opened('a')], next: called(piece) },
  'another object for a custom tool': { first: [opened('{"x":"')], next: called(piece) },
  'blanks before the input of a custom tool': { first: [opened('{')], next: called(blanks) },
  'blanks for a custom tool': { first: [opened(' ')], next: called(blanks) },
};
const probabilities = {
  first: [],
  next: { content: 'x' },
  more: { logprobs: { content: [token] } },
};

const customTool = { tools: [{ type: 'custom', name: 'f' }] };
const include = { include: ['message.output_text.logprobs'] };
const readers: readonly (readonly [string, AnswerSurface, Case, object])[] = [
  ...answerSurfaces.flatMap((surface) =>
    Object.entries(cases).map(([name, one]) => [name, surface, one, { tools: true }] as const),
  ),
  ...Object.entries(customCases).map(
    ([name, one]) => [name, responsesSurface, one, { fields: customTool }] as const,
  ),
  ['token probabilities', responsesSurface, probabilities, { fields: include }],
];

const few = 1000;
const factor = 4;

/**
 * Expects that the cost grows by the same factor as the number of pieces; a quadratic cost would grow by its square. Retries,
 * because other work on the machine may disturb a measurement.
 */
function expectLinear(costOf: (pieces: number) => number): void {
  costOf(few);
  let growth = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < 4 && growth >= 2 * factor; tries += 1)
    growth = Math.min(growth, costOf(few * factor) / costOf(few));
  expect(growth).toBeLessThan(2 * factor);
}

const named = readers.map(([name, surface, ...rest]) => [name, surface.name, surface, ...rest] as const);
test.each(named)(
  '%s on %s: four times the pieces cost about four times as much',
  (_name, _surface, surface, { first, next, more }, wanted) => {
    const again = JSON.stringify(chunk(next, null, more));
    expectLinear((pieces) => {
      const stream = streamOf(surface, wanted);
      for (const delta of first) stream.push(JSON.stringify(chunk(delta)));
      return cpuMsOf(() => {
        for (let n = 0; n < pieces; n += 1) stream.push(again);
      });
    });
  },
);

test('one stream line in pieces: four times the pieces cost about four times as much', () => {
  expectLinear((pieces) => {
    const reader = new SseReader({ onData: () => undefined, onFailure: () => undefined });
    reader.push(Buffer.from('data: '));
    return cpuMsOf(() => {
      for (let n = 0; n < pieces; n += 1) reader.push(Buffer.from(piece));
    });
  });
});
