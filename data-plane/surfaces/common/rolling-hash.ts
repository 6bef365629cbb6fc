/** Fast 53-bit hash that is available after every prefix of a text. Not cryptographic: an attacker can choose collisions. */

const highBits = 0x1f_ffff;

export class RollingHash {
  #low: number;
  #high: number;

  constructor(seed = 0) {
    this.#low = lowHalf(seed) ^ 0x9e37_79b9;
    this.#high = highHalf(seed) ^ 0x85eb_ca6b;
  }

  /** Adds a part of the text. Takes two code units per step, which halves the cost per character. */
  add(text: string, from = 0, to = text.length): void {
    let low = this.#low;
    let high = this.#high;
    let at = from;
    for (; at + 1 < to; at += 2) {
      low = Math.imul(low ^ (text.charCodeAt(at) | (text.charCodeAt(at + 1) << 16)), 0xcc9e_2d51);
      low = (low << 15) | (low >>> 17);
      high = Math.imul(high ^ low, 0x1b87_3593);
    }
    if (at < to) this.#step(text.charCodeAt(at), low, high);
    else this.#step(0, low, high);
  }

  /** Adds a separator, so that the same characters give a different hash if they are split at another position. */
  mark(value: number): void {
    this.#step(value, this.#low, this.#high);
  }

  get value(): number {
    return joinHalves(mixed(this.#low), mixed(this.#high ^ (this.#low >>> 16)));
  }

  #step(value: number, low: number, high: number): void {
    this.#low = Math.imul(low ^ value, 0xcc9e_2d51);
    this.#low = (this.#low << 15) | (this.#low >>> 17);
    this.#high = Math.imul(high ^ this.#low, 0x1b87_3593);
  }
}

/** Combines two values so that each bit depends on all bits of both. */
export function combine(a: number, b: number): number {
  const low = mixed(lowHalf(a) ^ mixed(lowHalf(b)));
  return joinHalves(low, mixed(highHalf(a) ^ Math.imul(highHalf(b), 0x1b87_3593) ^ low));
}

function joinHalves(low: number, high: number): number {
  return (high & highBits) * 2 ** 32 + (low >>> 0);
}

function lowHalf(value: number): number {
  return value | 0;
}

function highHalf(value: number): number {
  return Math.floor(value / 2 ** 32);
}

/** Mixes all bits of the value, by the final step of MurmurHash3. */
function mixed(value: number): number {
  let mix = value;
  mix = Math.imul(mix ^ (mix >>> 16), 0x85eb_ca6b);
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2_ae35);
  return mix ^ (mix >>> 16);
}
