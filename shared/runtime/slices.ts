/**
 * Work of many pieces on an event loop that serves others meanwhile: a generator yields between its pieces, and what runs
 * it decides whether others have their turn there.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Far below what a caller notices, and far above what a turn of the event loop costs. */
const sliceMs = 20;

/** Runs it to its end in one turn of the event loop. */
export function atOnce<Result>(work: Generator<void, Result>): Result {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

/** Runs it to its end, with a turn for others whenever its pieces took so long. What it reads may change there. */
export async function inSlices<Result>(work: Generator<void, Result>): Promise<Result> {
  let beganMs = performance.now();
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
    if (performance.now() - beganMs < sliceMs) continue;
    await nextTurn();
    beganMs = performance.now();
  }
}
