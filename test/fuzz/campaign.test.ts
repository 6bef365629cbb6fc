/** Tests the code that judges answers, because a fuzzer that cannot fail proves nothing. */
import { expect, test } from 'vitest';
import { campaign, type RunningTarget } from './campaign.ts';
import { eventStreamType, faultOf } from './good-answers.ts';
import { answerFault, readAnswers } from './raw-answers.ts';

async function run(more: Partial<RunningTarget>, onlyCase?: number) {
  const lines: string[] = [];
  const running: RunningTarget = {
    workers: 2,
    tryCase: async () => [],
    faults: () => [],
    warmedUp: async () => undefined,
    settle: async () => undefined,
    close: async () => undefined,
    ...more,
  };
  const options = { seed: 7, seconds: 0.05, onlyCase, say: (line: string) => lines.push(line) };
  const summary = await campaign({ name: 'sample', start: async () => running }, options);
  return { ...summary, lines };
}

const tooMany: RunningTarget['tryCase'] = async (draw, note) => {
  const count = draw.below(1000);
  note(`{"count":${count}}`);
  return count > 100 ? [`found number ${count}`] : [];
};

test('a kind of fault is reported once, minimised, and can be repeated by seed and number', async () => {
  const { faults, lines } = await run({ tryCase: tooMany });
  expect(faults).toHaveLength(1);
  expect(lines).toHaveLength(2);
  const number = /^FOUND sample \(SEED=7, case (\d+)\): found number 101$/.exec(lines[0] ?? '')?.[1];
  expect(lines[1]).toBe('      {"count":101}');
  const repeated = await run({ tryCase: tooMany }, Number(number));
  expect(repeated.lines[0]).toMatch(/^INPUT \{"count":\d+\}$/);
  expect(repeated.lines.slice(-2)).toEqual(lines);
});

test('a process that ends stops the run, and the possible culprits are named', async () => {
  let tried = 0;
  const { cases, faults, lines } = await run({
    tryCase: async () => {
      tried++;
      return [];
    },
    faults: () => (tried > 0 ? ['gateway ended (exit 1): Error'] : []),
  });
  expect(faults).toEqual(['gateway ended (exit 1): Error']);
  expect(lines[0]).toMatch(/^FOUND sample \(SEED=7, (one of the cases [01, ]+|case 0)\): gateway ended/);
  expect(cases).toBeLessThanOrEqual(2);
});

test('a fault that appears only after the last case is reported, as is a case that throws', async () => {
  let settled = false;
  const { faults } = await run({
    tryCase: () => Promise.reject(new Error('broken')),
    settle: async () => {
      settled = true;
    },
    faults: () => (settled ? ['it holds more than before'] : []),
  });
  expect(faults.map((fault) => fault.split('\n')[0])).toEqual([
    'the case threw: Error: broken',
    'it holds more than before',
  ]);
});

const envelope = (type: string, status: number): string =>
  JSON.stringify({ error: { code: 'UNAVAILABLE', type, message: 'x', status, path: '/' } });
const refusal = { 'content-type': 'application/json', 'x-request-id': `req_${'0'.repeat(32)}` };

test.each([
  ['a body that is not an envelope', 503, refusal, '{"error":"no"}', /outside the envelope/],
  ['an unknown type', 503, refusal, envelope('Other', 503), /not in the registry/],
  ['another type’s status', 404, refusal, envelope('InferenceUnavailableError', 404), /of another type/],
  [
    'no request id',
    503,
    { 'content-type': 'application/json' },
    envelope('InferenceUnavailableError', 503),
    /request id/,
  ],
  ['a service fault', 500, refusal, envelope('InternalError', 500), /answered 500/],
])('a refusal with %s is a fault', (_what, status, fields, body, fault) => {
  expect(answerFault('gateway', { status, fields, body, whole: true })).toMatch(fault);
});

test('a refusal in the envelope is not a fault', () => {
  const body = envelope('InferenceUnavailableError', 503);
  expect(answerFault('gateway', { status: 503, fields: refusal, body, whole: true })).toBeUndefined();
});

test('consecutive answers are separated, and a truncated one is recognised', () => {
  const whole = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
  const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n';
  const { answers, broken } = readAnswers(`${whole}${chunked}${whole.slice(0, -1)}`, false);
  expect(answers.map(({ body, whole: isWhole }) => [body, isWhole])).toEqual([
    ['ok', true],
    ['ok', true],
    ['o', false],
  ]);
  expect(broken).toBeUndefined();
  expect(readAnswers(`${whole}garbage\r\n\r\n`, false).broken).toMatch(/no status line/);
});

const chunk = 'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[]}\n\n';
const streamed = { 'content-type': eventStreamType };

test.each([
  ['ends cleanly without its terminator', chunk, true, /without its terminator/],
  ['continues after its terminator', `data: [DONE]\n\n${chunk}`, true, /behind the terminator/],
  [
    'contains an error',
    `${chunk}data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[],"error":{}}\n\n`,
    false,
    /an error in a stream/,
  ],
  ['is cut after its terminator', `${chunk}data: [DONE]\n\n`, false, /cut behind its terminator/],
])('a stream that %s is a fault', (_what, body, whole, fault) => {
  const answer = { status: 200, fields: streamed, body, whole };
  expect(faultOf(answer, { operation: 'chat', stream: true })).toMatch(fault);
});

test('a stream with its terminator is not a fault, nor is one cut off without it', () => {
  const expected = { operation: 'chat', stream: true } as const;
  const answer = { status: 200, fields: streamed };
  expect(faultOf({ ...answer, body: `${chunk}data: [DONE]\n\n`, whole: true }, expected)).toBeUndefined();
  expect(faultOf({ ...answer, body: `${chunk}data: {"id`, whole: false }, expected)).toBeUndefined();
});
