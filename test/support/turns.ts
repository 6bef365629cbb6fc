/**
 * Finds waits that do not wait. A loop around a promise that settles at once never lets the event loop take its turn: no
 * timer, no socket and no signal is served any more. Counted are settlements between two turns of the event loop.
 */
/** More settlements in one turn than any loop needs that waits for something. */
const settledPerTurnMax = 200;

/** Counts calls, from one turn of the event loop to the next. */
export class TurnCounter {
  #inTurn = 0;
  #most = 0;
  #turn: NodeJS.Immediate | undefined;

  /** The most calls that one turn has seen. */
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
 * Repeats a wait as a loop around it does, and says how that ends: `threw`, where the loop would end with the error;
 * `waited`, where the event loop had its turn between two waits; `spun`, where it had none.
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
