/** Tests the table of recorded fields: each record must have exactly the fields that the table names, and no other text. */
import { expect, test } from 'vitest';
import { decisionRecordSchema } from '../../schemas/records/decisions.ts';
import { recordedFields, recordedNames, requestFields } from '../../schemas/records/request-record.ts';
import { unauthorized } from '../../shared/decision/authenticate.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { RequestRecord } from '../request/request-record.ts';
import { mintRequestId } from '../surfaces/common/request-id.ts';
import { toAttributes, toDecisionRecord, toLogLine } from './project.ts';
import { recordedEarly, toRecordedRequest } from './recorded.ts';

const requestId = mintRequestId();
const moment = {
  nowMs: 1_700_000_000_000,
  endMs: 120,
  position: 7,
  isKnown: (model: string) => model === 'm-1',
};
const seen = {
  ...{ atMs: 1_699_999_999_000, windowUsed: 1, unitsInFlight: 2, tokensUsed: 3, turnsUsed: 4 },
  ...{ requests: [1, 9], concurrency: [1, 2, 3, 4], networkTurnsUsed: 5 },
  visitors: { windowUsed: 6, inFlight: 7, tokens: 8, requests: [1, 9], concurrency: [1, 9] },
};
/** Returns the recorded form of a request that a node answered, with the given differences. */
function recorded(more: object = {}): ReturnType<typeof toRecordedRequest> {
  const record = {
    ...{ method: 'POST', status: 200, ids: { requestId }, path: '/v1/secret', startMs: 20, decidedMs: 0 },
    keyHeader: 'x-api-key',
    at: { accepted: 21, read: 22, shaped: 23, decided: 24, sent: 25, begun: 30.04 },
    target: { kind: 'stack', stack: 'stk-amber-otter-9k2f' },
    operation: { kind: 'chat' },
    caller: { kind: 'key', owner: { organisation: 'acme', keyId: 'key-1' } },
    ...{ model: 'of-a-stack', stream: true, position: 6, promptLeast: 2, seen },
    facts: { promptTokensMax: 40, maxTokens: 100 },
    decision: { placement: { capacity: 'stack' } },
    outcome: { kind: 'completed', node: 'acme-s1', usage: { promptTokens: 3, completionTokens: 5 } },
    ...more,
  } as unknown as RequestRecord;
  return toRecordedRequest(record, moment);
}
/** Returns the request as it is read back from disk. */
const kept = (more: object = {}): unknown[] => JSON.parse(JSON.stringify(recorded(more)));
const refusal = new Refusal('no entitlement', 'Not in your plan.', { retryAfterSeconds: 9 });
const early = { kind: 'ended-early', node: 'acme-s1', by: 'client', reason: 'it left' };

test('no two fields of a record have the same name', () => {
  for (const kind of ['usage', 'decision', 'line', 'span', 'nodeSpan'] as const) {
    const names = Object.values<Partial<Record<typeof kind, string>>>(requestFields).flatMap(
      (field) => field[kind] ?? [],
    );
    expect(new Set(names).size, kind).toBe(names.length);
  }
  // Record groups store the first field (the id) separately, and use the second field (the time) to find pages.
  expect(recordedNames.slice(0, 2)).toEqual(['request', 'atMs']);
});

test.each([
  ['was served', {}],
  ['was refused', { refusal, outcome: undefined, decision: undefined, model: 'secret' }],
  ['ended early', { outcome: early }],
  ['was a listing', { facts: undefined, seen: undefined, outcome: undefined, model: undefined }],
])('the decision of a request that %s matches its schema and contains all known facts', (_what, more) => {
  const decision = toDecisionRecord(kept(more), 'gw-1');
  expect(decisionRecordSchema.strict().parse(decision)).toEqual(decision);
  expect(toDecisionRecord(recorded(more), 'gw-1')).toEqual(decision);
  expect(JSON.stringify(decision)).not.toContain('secret');
});

test('a decision contains the billed usage, the limits’ counts, the first token and the end', () => {
  const decision = toDecisionRecord(kept(), 'g');
  const { usage, ms, served, outcome, at } = decision;
  // Expect the old name `promptTokens`, which control planes of version 0.2.0 still read.
  expect(decision).toMatchObject({
    promptTokensMax: 40,
    promptTokens: 40,
    promptTokensLeast: 2,
    counted: 'bound',
  });
  expect(usage).toEqual({ promptTokens: 3, completionTokens: 5 });
  expect(ms).toEqual({ accepted: 1, read: 2, shaped: 3, decided: 4, sent: 5, begun: 10, end: 100 });
  expect({ served, outcome, at }).toEqual({ served: true, outcome: 'completed', at: seen.atMs });
  const asked = toDecisionRecord(kept({ promptCounted: 33 }), 'g');
  expect([asked.promptTokensMax, asked.counted, asked.promptTokensLeast]).toEqual([33, 'node', undefined]);
});

test('each limit is read back by name, and a limit with no subject reads as zero', () => {
  expect(toDecisionRecord(kept(), 'g').counters).toEqual({
    ...{ windowUsed: 1, inFlight: 2, poolTokens: 3, freeTurns: 4, networkTurns: 5 },
    requests: { here: 1, room: 9 },
    concurrency: { here: 1, room: 2, elsewhere: 3, held: 4 },
    visitors: {
      ...{ windowUsed: 6, inFlight: 7, tokens: 8 },
      ...{ requests: { here: 1, room: 9 }, concurrency: { here: 1, room: 9 } },
    },
  });
  const nobody = toDecisionRecord(kept({ seen: undefined, facts: undefined }), 'g');
  expect(nobody.counters).toEqual({ windowUsed: 0, inFlight: 0, poolTokens: 0, freeTurns: 0 });
  expect(nobody.promptTokensMax).toBe(0);
});

test('an access log line contains the same facts', () => {
  expect(JSON.parse(JSON.stringify(toLogLine(recorded())))).toEqual({
    ...{ req_id: requestId, position: 6, host_kind: 'stack', stack: 'stk-amber-otter-9k2f' },
    ...{ method: 'POST', operation: 'chat', status: 200, outcome: 'ok', org_id: 'acme', key_id: 'key-1' },
    ...{ model: 'of-a-stack', stream: true, tokens_in: 3, tokens_out: 5, decision: 'stack' },
    ...{ node: 'acme-s1', finish: 'completed', duration_ms: 100 },
  });
  expect(toLogLine(recorded({ outcome: early }))).toMatchObject({
    outcome: 'aborted',
    finish: 'client: it left',
  });
  const refused = toLogLine(recorded({ refusal, outcome: undefined }));
  expect(refused).toMatchObject({ outcome: 'ModelNotInPlanError', cause: 'no entitlement' });
});

test('every record names a model if a node was to serve it or the state knows it', () => {
  const named = (more: object) => {
    const request = recorded(more);
    const { 'gen_ai.request.model': span } = toAttributes('nodeSpan', request);
    const { model: line } = toLogLine(request) as { model?: string };
    return [toDecisionRecord(request, 'g').model, line, span];
  };
  const unplaced = { decision: undefined };
  expect(named({})).toEqual(['of-a-stack', 'of-a-stack', 'of-a-stack']);
  expect(named({ ...unplaced, model: 'm-1' })).toEqual(['m-1', 'm-1', 'm-1']);
  expect(named({ ...unplaced, operation: { kind: 'model', model: 'm-1' } })).toEqual(['m-1', 'm-1', 'm-1']);
  expect(named({ ...unplaced, model: 'sk-secret' })).toEqual([undefined, 'other', undefined]);
  expect(named({ ...unplaced, model: undefined })).toEqual([undefined, undefined, undefined]);
});

test('a request with two different keys has no caller, but its record names the known key', () => {
  const caller = undefined;
  const of = (cause: 'two different keys' | 'revoked') =>
    toDecisionRecord(recorded({ caller, refusal: unauthorized(cause, 'key-9') }), 'g');
  expect(of('two different keys')).toMatchObject({ key: 'key-9', fault: 'two different keys' });
  expect(of('revoked')).toMatchObject({ key: 'key-9', header: 'x-api-key' });
  expect(of('revoked').fault).toBeUndefined();
});

test('a refusal before the request was parsed keeps its response, and no rule explains it', () => {
  const bad = { requestId, refusal: new Refusal('large headers', 'Too large.') };
  const decision = toDecisionRecord(JSON.parse(JSON.stringify(recordedEarly(bad, moment))), 'gw-1');
  expect(decisionRecordSchema.strict().parse(decision)).toMatchObject({
    ...{ req: requestId, stage: 'http', status: 413, served: false, position: 7 },
    ...{ operation: 'unknown', host: 'unknown' },
  });
  expect(recordedFields(recordedEarly(bad, moment), 'cause')).toBe('large headers');
});
