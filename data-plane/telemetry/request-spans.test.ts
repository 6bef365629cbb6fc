/**
 * Tests the spans of all kinds of request records: their names, times, and that their attributes contain no text from
 * callers.
 */
import { expect, test } from 'vitest';
import { Refusal } from '../../shared/decision/refusal.ts';
import { toRecordedRequest } from '../records/recorded.ts';
import type { RequestRecord } from '../request/request-record.ts';
import { planSpans } from './request-spans.ts';

const isKnown = (model: string): boolean => model === 'echo-small';
const trace = {
  traceparent: '',
  spans: { traceId: 't', parentId: undefined, requestId: 'of-request', nodeId: 'of-node' },
};

function spansWith(more: object): ReturnType<typeof planSpans> {
  const record = {
    method: 'POST',
    status: 200,
    ids: { requestId: 'req-1' },
    path: '/v1/secret-path',
    startMs: 10,
    at: { accepted: 11, read: 12, shaped: 13, decided: 14, sent: 15, begun: 16 },
    trace,
    target: { kind: 'stack', stack: 'stk-amber-otter-9k2f' },
    operation: { kind: 'chat' },
    caller: { kind: 'key', owner: { organisation: 'acme', keyId: 'key-secret' } },
    model: 'echo-small',
    stream: true,
    decision: { placement: { capacity: 'stack' } },
    outcome: { kind: 'completed', node: 'acme-s1', usage: { promptTokens: 3, completionTokens: 5 } },
    position: 7,
    ...more,
  } as unknown as RequestRecord;
  const moment = { nowMs: 0, endMs: 20, position: 0, isKnown };
  return planSpans(record, toRecordedRequest(record, moment), 20);
}

const refusal = (): Refusal => new Refusal('unknown', 'no', { detail: 'secret reason' });

test('a request that a node answered has five spans, with their times', () => {
  const spans = spansWith({});
  expect(spans.map(({ name, startMs, endMs, kind, id }) => [name, startMs, endMs, kind, id])).toEqual([
    ['POST /v1/chat/completions', 10, 20, 'server', 'of-request'],
    ['authenticate', 10, 11, 'internal', undefined],
    ['shape', 12, 13, 'internal', undefined],
    ['decide', 13, 14, 'internal', undefined],
    ['chat echo-small', 14, 20, 'client', 'of-node'],
  ]);
  expect(spans.every(({ failed }) => !failed)).toBe(true);
  expect(spans[0]?.attributes).toMatchObject({
    'headgate.stack': 'stk-amber-otter-9k2f',
    'headgate.organisation': 'acme',
    'http.response.status_code': 200,
  });
  expect(spans[4]?.attributes).toMatchObject({
    'gen_ai.usage.input_tokens': 3,
    'gen_ai.usage.output_tokens': 5,
    'headgate.time_to_first_byte_ms': 2,
  });
});

test.each<[string, object]>([
  ['no key', { caller: undefined, decision: undefined }],
  ['a visitor', { caller: { kind: 'anonymous', visitor: 'secret' }, decision: undefined }],
  ['a valid key of no stack', { decision: { placement: refusal() } }],
  ['a valid key, before the decision', { decision: undefined }],
])('a stack name from a caller with %s appears in no span', (_, more) => {
  const spans = spansWith({ ...more, target: { kind: 'stack', stack: 'stk-secret' }, refusal: refusal() });
  expect(JSON.stringify(spans)).not.toContain('secret');
  expect(spans[0]?.attributes['headgate.host_kind']).toBe('stack');
});

test('a phase that did not end has failed, and a phase that never began has no span', () => {
  const spans = spansWith({ at: { accepted: 11, read: 12 }, decision: undefined, refusal: refusal() });
  expect(spans.map(({ name, endMs, failed }) => [name, endMs, failed])).toEqual([
    ['POST /v1/chat/completions', 20, false],
    ['authenticate', 11, false],
    ['shape', 20, true],
  ]);
});

test.each<[object, boolean, unknown]>([
  [{ refusal: new Refusal('fault', 'no'), status: 500 }, true, 'InternalError'],
  [{ refusal: refusal() }, false, 'Unauthorized'],
  [{ outcome: { kind: 'ended-early', by: 'node', node: 'n' } }, true, 'aborted'],
])('%j fails the request: %s', (more, failed, errorType) => {
  const [request] = spansWith(more);
  expect([request?.failed, request?.attributes['error.type']]).toEqual([failed, errorType]);
});

test('a model is named if a node was to serve it or the state contains it, and is “other” otherwise', () => {
  const nameOf = (more: object) => {
    const node = spansWith(more).at(-1);
    expect(node?.name).toBe(`chat ${node?.attributes['gen_ai.request.model'] ?? 'other'}`);
    return node?.name;
  };
  expect(nameOf({ model: 'of-a-stack' })).toBe('chat of-a-stack');
  expect(nameOf({ model: 'echo-small', decision: undefined })).toBe('chat echo-small');
  expect(nameOf({ model: 'secret-model', decision: undefined })).toBe('chat other');
});
