/** Runs long work on an event loop that also serves others. The work is a generator that yields between its pieces. */
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Time after which others get a turn: less than a caller notices, and far more than a turn itself costs. */
const sliceMsDefault = 20;

/** Runs the work to its end in one turn of the event loop. */
export function atOnce<Result>(work: Generator<void, Result>): Result {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

/** Runs the work, and gives others a turn whenever `sliceMs` have passed. Its input may change in these turns. */
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
 * Runs the work in slices on a state that must stay at one position. If the state moves, the work starts again, up to
 * `triesMax` times. Resolves to undefined if the state moved each time.
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
