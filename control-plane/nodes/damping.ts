/**
 * When does a node's health become an event? Down is told at once; up only once it has lasted, longer for a node that
 * keeps falling, so that a flapping node costs few commits. Pure: observations in, the state to tell out.
 */

const dampSecondsMin = 5;
const dampSecondsMax = 60;
/** A node that stayed up this long has earned its good name back. */
const forgivenAfterSeconds = 300;

export interface Damped {
  /** What was last told; undefined before the first word. */
  readonly told: boolean | undefined;
  /** How long an up must last before it is told. */
  readonly dampSeconds: number;
  /** Since when it has been seen up without a break, ms; undefined while down. */
  readonly upSinceMs: number | undefined;
}

/**
 * Where a replica goes on that has not watched this node yet, from what stands in the log; `told` is undefined where
 * nothing does. A node that was told down has to last like any other that fell.
 */
export function resumed(told: boolean | undefined): Damped {
  return { told, dampSeconds: told === false ? dampSecondsMin : 0, upSinceMs: undefined };
}

/** Takes one observation; `told` of the answer is what should stand in the log. */
export function observe(before: Damped, up: boolean, nowMs: number): Damped {
  if (!up) {
    const fell = before.told === true;
    const dampSeconds = fell
      ? Math.min(dampSecondsMax, Math.max(dampSecondsMin, before.dampSeconds * 2))
      : before.dampSeconds;
    return { told: false, dampSeconds, upSinceMs: undefined };
  }
  const upSinceMs = before.upSinceMs ?? nowMs;
  const lastedSeconds = (nowMs - upSinceMs) / 1000;
  if (before.told === true) {
    return {
      ...before,
      upSinceMs,
      dampSeconds: lastedSeconds > forgivenAfterSeconds ? 0 : before.dampSeconds,
    };
  }
  return {
    told: lastedSeconds >= before.dampSeconds ? true : before.told,
    dampSeconds: before.dampSeconds,
    upSinceMs,
  };
}
