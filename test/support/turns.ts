/**
 * Finds waits that do not wait. If a loop awaits a promise that settles at once, the event loop never turns, so it no longer
 * serves timers, sockets or signals. This file counts how many promises settle between two turns of the event loop.
 */
/** Largest number of promises that may settle in one turn of the event loop. Only a loop without a real wait exceeds it. */
const settledPerTurnMax = 200;

export class TurnCounter {
  #inTurn = 0;
  #most = 0;
  #turn: NodeJS.Immediate | undefined;

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
 * Repeats a wait as a loop around it would. Returns `threw` if the loop would end with an error, `waited` if the event loop
 * turned between two waits, and `spun` if it did not.
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
