/**
 * Finds waits that do not wait. A loop around a promise that settles at once never lets the event loop turn, so no timer,
 * socket or signal is served any more. This file counts settlements between two turns of the event loop.
 */
/** More settlements per turn than any loop that really waits can cause. */
const settledPerTurnMax = 200;

/** Counts calls per turn of the event loop. */
export class TurnCounter {
  #inTurn = 0;
  #most = 0;
  #turn: NodeJS.Immediate | undefined;

  /** The highest number of calls in one turn. */
  get most(): number {
    return this.#most;
  }

  count(): void {
    this.#turn ??= setImmediate(() => {
      this.#turn = undefined;
      this.#inTurn = 0;
    });
    this.#inTurn++;
    this.#most = Math.max(this.#most, this.#inTurn);
  }
}

/**
 * Repeats a wait as the loop around it does and returns the outcome: `threw` if the loop would end with the error, `waited`
 * if the event loop turned between two waits, `spun` if it did not.
 */
export async function howItWaits(wait: () => Promise<unknown>): Promise<'threw' | 'waited' | 'spun'> {
  let turned = false;
  const turn = setImmediate(() => {
    turned = true;
  });
  try {
    for (let round = 0; round < settledPerTurnMax; round++) {
      await wait();
      if (turned) return 'waited';
    }
    return 'spun';
  } catch {
    return 'threw';
  } finally {
    clearImmediate(turn);
  }
}
