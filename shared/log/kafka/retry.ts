/** Retries requests to Kafka until a deadline, with random pauses. All retries of the Kafka log use this file. */
import { Backoff, type Clock, systemClock, within } from '../../runtime/retry.ts';
import { LogUnavailable, LogUnreadable } from '../core/control-log.ts';
import { isPermanent, KafkaFault } from './errors.ts';

export interface RetryPolicy {
  /** Name of the operation in `LogUnavailable`'s message. */
  readonly operation: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly onFault?: (fault: KafkaFault) => void;
  /** Called after each fault. If it returns true, retrying stops before the deadline. */
  readonly giveUpEarly?: () => boolean;
  /** Whether to abandon a response that is still pending at the deadline. Only for requests without side effects. */
  readonly abandonAtDeadline?: boolean;
  readonly clock?: Clock;
}

/** Back-off that sets the pauses between attempts of a request to Kafka. */
export function retryBackoff(clock: Clock = systemClock): Backoff {
  return new Backoff({ minMs: 20, maxMs: 500, clock });
}

/** Repeats an idempotent request. Rejects with `LogUnavailable` at the deadline, on abort or after a permanent fault. */
export async function retryUntilDeadline<Result>(
  request: () => Promise<Result>,
  policy: RetryPolicy,
): Promise<Result> {
  const { operation, signal, clock = systemClock } = policy;
  const deadlineMs = clock.now() + policy.timeoutMs;
  const backoff = retryBackoff(clock);
  for (;;) {
    if (signal.aborted) throw closedError(operation);
    try {
      return await (policy.abandonAtDeadline
        ? withinDeadline(request(), deadlineMs - clock.now())
        : request());
    } catch (error) {
      if (!(error instanceof KafkaFault)) throw error;
      policy.onFault?.(error);
      const isOver = clock.now() >= deadlineMs || policy.giveUpEarly?.() === true;
      if (isPermanent(error) || isOver) throw unavailableError(operation, error);
    }
    await backoff.pause(signal);
  }
}

async function withinDeadline<Result>(pending: Promise<Result>, timeoutMs: number): Promise<Result> {
  const result = await within(pending, timeoutMs);
  if (result === 'late') throw new KafkaFault('TIMEOUT', { kind: 'lost' });
  return result as Result;
}

export function closedError(operation: string): LogUnavailable {
  return new LogUnavailable(`${operation}: the log is closed`);
}

export function unavailableError(operation: string, fault: KafkaFault): LogUnavailable {
  const Unavailable = fault.kind === 'answered' ? LogUnreadable : LogUnavailable;
  return new Unavailable(`${operation}: ${fault.message}`, { cause: fault });
}
