/** Drains a gateway before it stops: accepts no new connections, and gives requests in flight some time to finish. */
import { cannotTakeNow, type Refusal } from '../../shared/decision/refusal.ts';
import type { Check } from '../../shared/runtime/health-server.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { sleep } from '../../shared/runtime/retry.ts';

/** Time in ms to deliver refusals once the time for requests in flight is over. */
const cutOffMs = 1000;
const pollMs = 20;

interface DrainOptions {
  readonly drainDelaySeconds: number;
  readonly drainTimeoutSeconds: number;
  readonly logger: Pick<Logger, 'warn'>;
}

interface DrainingListener {
  stopAccepting(): void;
  /** Refuses all requests whose responses have not begun, and cuts off all other responses. */
  cutOff(refusal: Refusal): void;
}

export function drainCheck(draining: boolean): Check {
  return draining
    ? { name: 'drain', ok: false, detail: 'this gateway is closing' }
    : { name: 'drain', ok: true };
}

/** Resolves when no request is in flight. After the time-out, refuses or cuts off the requests that are left. */
export async function drain(
  { drainDelaySeconds, drainTimeoutSeconds, logger }: DrainOptions,
  listeners: readonly DrainingListener[],
  inFlight: () => number,
): Promise<void> {
  await sleep(drainDelaySeconds * 1000);
  for (const listener of listeners) listener.stopAccepting();
  if (await isDone(inFlight, drainTimeoutSeconds * 1000)) return;
  logger.warn(
    { requests: inFlight() },
    'the drain timed out: requests in flight are refused, and answers that have begun are cut off',
  );
  for (const listener of listeners) listener.cutOff(cannotTakeNow('drain ended'));
  await isDone(inFlight, cutOffMs);
}

async function isDone(inFlight: () => number, withinMs: number): Promise<boolean> {
  const untilMs = performance.now() + withinMs;
  while (inFlight() > 0 && performance.now() < untilMs) await sleep(pollMs);
  return inFlight() === 0;
}
