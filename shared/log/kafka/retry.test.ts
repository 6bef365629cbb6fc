/** Tests how long a request to Kafka is retried, and what ends the retries early. The tests do not wait in real time. */
import { expect, test } from 'vitest';
import type { Clock } from '../../runtime/retry.ts';
import { LogUnavailable } from '../core/control-log.ts';
import { KafkaFault } from './errors.ts';
import { type RetryPolicy, retryUntilDeadline } from './retry.ts';

function manualClock(): Clock {
  let nowMs = 0;
  const sleep = async (ms: number) => {
    nowMs += ms;
  };
  return { now: () => nowMs, sleep, random: () => 1 };
}

/** Repeats a request that always fails with this error. Returns the number of attempts and the resulting error. */
async function attemptsOf(error: Error, policy: Partial<RetryPolicy> = {}) {
  let attempts = 0;
  const request = () => {
    attempts++;
    return Promise.reject(error);
  };
  const signal = new AbortController().signal;
  const all = { operation: 'topic/0', timeoutMs: 1000, signal, clock: manualClock(), ...policy };
  const thrown: unknown = await retryUntilDeadline(request, all).catch((caught: unknown) => caught);
  return { attempts, thrown };
}

const refused = new KafkaFault('ECONNREFUSED', { kind: 'unsent' });

test('a request is repeated with growing pauses until the deadline', async () => {
  const { attempts, thrown } = await attemptsOf(refused);
  // The pauses between the attempts are 20, 40, 80, 160, 320 and 500 ms.
  expect(attempts).toBe(7);
  expect(thrown).toEqual(new LogUnavailable('topic/0: Kafka cannot be reached (ECONNREFUSED)'));
});

test.each<[string, Error, Partial<RetryPolicy>, number]>([
  ['a permanent fault', new KafkaFault('SASL', { kind: 'unsent' }), {}, 1],
  ['an error that is not from Kafka', new TypeError('a bug'), {}, 1],
  ['giving up early', refused, { giveUpEarly: () => true }, 1],
  ['an aborted signal', refused, { signal: AbortSignal.abort() }, 0],
])('%s ends the retries at once', async (_claim, error, policy, expected) => {
  expect((await attemptsOf(error, policy)).attempts).toBe(expected);
});

test('a response pending at the deadline is abandoned if the policy permits it', async () => {
  const signal = new AbortController().signal;
  const never = new Promise<never>(() => undefined);
  const policy = { operation: 'topic/0', timeoutMs: 1, signal, abandonAtDeadline: true };
  await expect(retryUntilDeadline(() => never, policy)).rejects.toThrow(
    'topic/0: Kafka did not answer (TIMEOUT)',
  );
});
