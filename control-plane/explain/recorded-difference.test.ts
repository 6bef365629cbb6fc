/** Tests which step counts as the first that differs, and for which steps a record has no facts. */
import { expect, test } from 'vitest';
import type { DecisionRecord } from '../../schemas/records/decisions.ts';
import type { Cause } from '../../shared/decision/causes.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { Trace } from '../../shared/decision/trace.ts';
import type { TracedVerdict } from './question.ts';
import { findDifference, unreadSteps } from './recorded-difference.ts';

function recorded(cause: Cause, counted?: 'node'): DecisionRecord {
  const { status, type, reason, message } = new Refusal(cause, 'as it was');
  return {
    ...{ stage: 'admission', served: false, status, type, reason, message },
    ...(counted !== undefined && { counted }),
  } as DecisionRecord;
}

function decided(cause: Cause): TracedVerdict {
  const refusal = new Refusal(cause, 'as it is');
  const trace = new Trace();
  trace.refuse(refusal);
  return { verdict: { kind: 'refused', refusal, counted: false }, trace };
}

test.each([
  ['earlier than before', 'allowance', 'revoked', 'key'],
  ['later than before', 'revoked', 'allowance', 'key'],
] as const)('a request refused %s differs at the earlier of the two steps', (_, before, now, step) => {
  expect(findDifference(recorded(before), decided(now))).toMatchObject({ step });
});

test('a refusal for length read no limits, unless a node counted the prompt after all limits passed', () => {
  expect(unreadSteps(recorded('context'))).toEqual(expect.arrayContaining(['requests', 'concurrency']));
  expect(unreadSteps(recorded('context', 'node'))).toEqual([]);
});
