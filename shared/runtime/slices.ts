/**
 * Work of many pieces on an event loop that serves others meanwhile: a generator yields between its pieces, and what runs
 * it decides whether others have their turn there.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Far below what a caller notices, and far above what a turn of the event loop costs. */
const sliceMsDefault = 20;

/** Runs it to its end in one turn of the event loop. */
export function atOnce<Result>(work: Generator<void, Result>): Result {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

/** Runs it to its end, with a turn for others whenever its pieces took so long. What it reads may change there. */
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
 * The same, on a state that stays at one position until the end: where it moves, the work begins again, so often, and what it threw
 * does not count. Resolves with undefined where it moved each time.
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
