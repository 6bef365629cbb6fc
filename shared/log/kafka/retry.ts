/**
 * Trying again for a while, and no longer. Every retry of the Kafka log goes through here, so that each has an end in
 * time, a random pause, and stops at once when its log is closed.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { LogUnavailable } from '../core/control-log.ts';
import { isLasting, KafkaFault } from './errors.ts';

const pauseMsMin = 20;
const pauseMsMax = 500;

export interface Patience {
  /** What is being done, for the text of LogUnavailable. */
  readonly what: string;
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
  /** Called after each fault. */
  readonly onFault?: () => void;
  /** Asked after each fault whether to give up before the deadline. */
  readonly isHopeless?: () => boolean;
  /** For what leaves nothing behind: an answer that is still awaited at the deadline is waited for no longer. */
  readonly strict?: boolean;
}

/**
 * Repeats a question that changes nothing until it is answered. Rejects with LogUnavailable at the deadline, when the
 * signal aborts, or where waiting does not help; an error that is no KafkaFault passes through.
 */
export async function patiently<Answer>(ask: () => Promise<Answer>, patience: Patience): Promise<Answer> {
  const untilMs = performance.now() + patience.deadlineMs;
  for (let attempt = 0; ; attempt++) {
    if (patience.signal.aborted) throw closedError(patience.what);
    try {
      return await (patience.strict ? within(ask(), untilMs) : ask());
    } catch (error) {
      const fault = faultOf(error);
      patience.onFault?.();
      const isOver = performance.now() >= untilMs || patience.isHopeless?.() === true;
      if (isLasting(fault) || isOver) throw unavailable(patience.what, fault);
    }
    await backOff(attempt, patience.signal);
  }
}

/** Passes on what is no fault of Kafka. */
function faultOf(error: unknown): KafkaFault {
  if (error instanceof KafkaFault) return error;
  throw error;
}

async function within<Answer>(asked: Promise<Answer>, untilMs: number): Promise<Answer> {
  const timer = new AbortController();
  const delayMs = Math.max(untilMs - performance.now(), 0);
  const late = pause(delayMs, undefined, { signal: timer.signal }).then(() => {
    throw new KafkaFault('TIMEOUT', { kind: 'lost' });
  });
  // Both may still reject once the other has decided.
  late.catch(() => undefined);
  asked.catch(() => undefined);
  try {
    return await Promise.race([asked, late]);
  } finally {
    timer.abort();
  }
}

/** A random pause that grows with the attempts; ends early, without an error, when the signal aborts. */
export async function backOff(attempt: number, signal: AbortSignal): Promise<void> {
  const longest = Math.min(pauseMsMin * 2 ** Math.min(attempt, 10), pauseMsMax);
  const pausing = pause(longest * (0.5 + Math.random() / 2), undefined, { signal });
  await pausing.catch(() => undefined);
}

export function closedError(what: string): LogUnavailable {
  return new LogUnavailable(`${what}: the log is closed`);
}

export function unavailable(what: string, fault: KafkaFault): LogUnavailable {
  return new LogUnavailable(`${what}: ${fault.message}`, { cause: fault });
}
