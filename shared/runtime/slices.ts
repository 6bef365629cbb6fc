/** Runs long work on an event loop that also serves requests. The work is a generator that yields after each small piece. */
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Time in ms after which other work gets a turn. It is short enough to go unnoticed, and long compared to a turn's cost. */
const sliceMsDefault = 20;

/** Runs the work to its end in one turn of the event loop. */
export function atOnce<Result>(work: Generator<void, Result>): Result {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

/** Runs the work and yields to the event loop after each `sliceMs`. The work's input may change meanwhile. */
export async function inSlices<Result>(
  work: Generator<void, Result>,
  sliceMs = sliceMsDefault,
): Promise<Result> {
  let beganMs = performance.now();
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
    if (performance.now() - beganMs < sliceMs) continue;
    await nextTurn();
    beganMs = performance.now();
  }
}

/**
 * Runs the work in slices on a state that must not change meanwhile. If the state changes, the work starts again, up to
 * `triesMax` times in total. Resolves to undefined if the state changed each time.
 */
export async function onOnePosition<Result>(
  of: { readonly seq: number },
  triesMax: number,
  work: () => Generator<void, Result>,
): Promise<{ readonly result: Result; readonly seq: number } | undefined> {
  for (let n = 1; n <= triesMax; n++) {
    const { seq } = of;
    try {
      const result = await inSlices(work());
      if (of.seq === seq) return { result, seq };
    } catch (error) {
      if (of.seq === seq) throw error;
    }
  }
  return undefined;
}
