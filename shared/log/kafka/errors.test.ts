/**
 * Tests how errors of appends are classified. Some leave it unknown whether the record is in the log, and a wrong
 * classification would lose or repeat records.
 */
import { expect, test } from 'vitest';
import { type FaultKind, isPermanent, KafkaFault, produceOutcome } from './errors.ts';

test.each<[FaultKind, string, number, string]>([
  ['unsent', 'ECONNREFUSED', 3, 'not written'],
  ['lost', 'ECONNRESET', 1, 'unknown'],
  ['lost', 'TIMEOUT', 3, 'unknown'],
  ['answered', 'NOT_ENOUGH_REPLICAS', 3, 'not written'],
  ['answered', 'NOT_ENOUGH_REPLICAS_AFTER_APPEND', 3, 'unknown'],
  ['answered', 'REQUEST_TIMED_OUT', 3, 'unknown'],
  ['answered', 'NOT_LEADER_FOR_PARTITION', 1, 'not written'],
  ['answered', 'NOT_LEADER_FOR_PARTITION', 3, 'unknown'],
  ['answered', 'KAFKA_STORAGE_ERROR', 1, 'unknown'],
  ['answered', 'KAFKAJS_UNKNOWN_ERROR_CODE', 1, 'unknown'],
  ['answered', 'MESSAGE_TOO_LARGE', 1, 'refused'],
  ['answered', 'TOPIC_AUTHORIZATION_FAILED', 3, 'refused'],
])('an append that was %s with %s, %i replicas: %s', (kind, type, replicas, outcome) => {
  expect(produceOutcome(new KafkaFault(type, { kind }), replicas)).toBe(outcome);
});

test('only faults that no retry can fix are permanent', () => {
  expect(isPermanent(new KafkaFault('SASL', { kind: 'unsent' }))).toBe(true);
  expect(isPermanent(new KafkaFault('ECONNREFUSED', { kind: 'unsent' }))).toBe(false);
  expect(isPermanent(new Error('other'))).toBe(false);
});
