/**
 * Decides when a node's observed health is written to the log. An outage is reported at once, a recovery only after a delay.
 * The delay grows for a node that keeps going down, so that a flapping node causes few commits. The functions are pure.
 */
import { nodeIntervals } from './intervals.ts';

const dampSecondsMax = 60;
/** Seconds of continuous uptime after which the delay for a flapping node is reset. */
const resetAfterSeconds = 300;

export interface DampingState {
  /** Last reported health, or undefined before the first report. */
  readonly reportedUp: boolean | undefined;
  /** Seconds that a node must be up before it is reported up. */
  readonly dampSeconds: number;
  /** Start of the current uptime in ms, or undefined while the node is down. */
  readonly upSinceMs: number | undefined;
}

/** Returns the initial state, derived from the log. A node that was reported down is reported up only after some uptime. */
export function resumeDamping(
  reportedUp: boolean | undefined,
  dampSecondsMin = nodeIntervals.dampSecondsMin,
): DampingState {
  return { reportedUp, dampSeconds: reportedUp === false ? dampSecondsMin : 0, upSinceMs: undefined };
}

/** Adds one observation of whether the node is up. `reportedUp` of the result is the health that the log should contain. */
export function observe(
  before: DampingState,
  up: boolean,
  nowMs: number,
  dampSecondsMin = nodeIntervals.dampSecondsMin,
): DampingState {
  if (!up) {
    const wentDown = before.reportedUp === true;
    const dampSeconds = wentDown
      ? Math.min(dampSecondsMax, Math.max(dampSecondsMin, before.dampSeconds * 2))
      : before.dampSeconds;
    return { reportedUp: false, dampSeconds, upSinceMs: undefined };
  }
  const upSinceMs = before.upSinceMs ?? nowMs;
  const lastedSeconds = (nowMs - upSinceMs) / 1000;
  if (before.reportedUp === true) {
    return {
      ...before,
      upSinceMs,
      dampSeconds: lastedSeconds > resetAfterSeconds ? 0 : before.dampSeconds,
    };
  }
  return {
    reportedUp: lastedSeconds >= before.dampSeconds ? true : before.reportedUp,
    dampSeconds: before.dampSeconds,
    upSinceMs,
  };
}
