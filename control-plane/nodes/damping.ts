/**
 * When does a node's health become an event? Down is reported at once; up only after it has lasted, longer for a node that
 * keeps going down, so that a flapping node costs few commits. Pure: observations in, the state to report out.
 */
import { nodeIntervals } from './intervals.ts';

const dampSecondsMax = 60;
/** The penalty of a flapping node is reset after this time up. */
const resetAfterSeconds = 300;

export interface Damped {
  /** The health last reported; undefined before the first report. */
  readonly reportedUp: boolean | undefined;
  /** How long an up must last before it is reported. */
  readonly dampSeconds: number;
  /** Since when it has been up without a break, ms; undefined while down. */
  readonly upSinceMs: number | undefined;
}

/**
 * The state for a replica that has not observed this node yet, from the folded state; `reportedUp` is undefined where the
 * log has no report. A node that was reported down must last like any other that went down.
 */
export function resumeDamping(
  reportedUp: boolean | undefined,
  dampSecondsMin = nodeIntervals.dampSecondsMin,
): Damped {
  return { reportedUp, dampSeconds: reportedUp === false ? dampSecondsMin : 0, upSinceMs: undefined };
}

/** Records one observation; `reportedUp` of the result is what the log should have. */
export function observe(
  before: Damped,
  up: boolean,
  nowMs: number,
  dampSecondsMin = nodeIntervals.dampSecondsMin,
): Damped {
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
