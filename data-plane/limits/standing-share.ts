/**
 * The standing shares of one process: what it may use of each limit without asking, because the others leave it alone.
 * It uses a share only where all processes that are not cut off know of it. Pure: `wallMs` is since 1970.
 */
import { inFlightWindow } from '../../schemas/records/gauges.ts';
import { type ClaimsFold, clockOffMs } from '../../shared/limits/claims-fold.ts';
import type { Limit, LimitRow } from '../../shared/limits/claims-rows.ts';
import type { OwnLimit } from './own-limit.ts';

/** Without an own record read back for so long, a process is cut off. */
export const cutOffMs = 2000;
/** A process is a member of the minutes that begin so long after its first record. */
const joinMs = 5000;
/** So long before that, the record must have come back: others have read it or are cut off by then, and clocks differ by a second. */
const knownMs = cutOffMs + 1000;

export class StandingShare {
  readonly #fold: ClaimsFold;
  readonly #process: string;
  /** Of the minutes that begin from here on it is a member; what its records say, ms since 1970. */
  #from = 0;
  /** The first record that said so; 0: none did yet. */
  #fromN = 0;
  /** That record came back early enough. */
  #isKnown = false;

  constructor(fold: ClaimsFold, process: string) {
    this.#fold = fold;
    this.#process = process;
  }

  get from(): number {
    return this.#from;
  }

  /** Before a record with this number is made. A moment that others may not have learned in time is replaced by a later one. */
  announce(n: number, wallMs: number): void {
    // One from before the clock was set back is too far ahead.
    const isOfNow = this.#from <= wallMs + joinMs + clockOffMs;
    if (isOfNow && (this.#isKnown || wallMs <= this.#from - knownMs)) return;
    this.#from = Math.round(wallMs + joinMs);
    this.#fromN = n;
    this.#isKnown = false;
  }

  readBack(n: number, wallMs: number): void {
    const isAsked =
      this.#fromN > 0 && n >= this.#fromN && this.#fold.memberFrom(this.#process) === this.#from;
    if (isAsked && wallMs <= this.#from - knownMs) this.#isKnown = true;
  }

  /** As the log has it; 0 where the process is no member, or the share is less than one. */
  of({ window, limit }: Limit, row: LimitRow | undefined): number {
    return this.#fold.has(this.#process, window) ? this.#fold.rows.shareOf(window, limit, row) : 0;
  }

  /** What it may use of its share. Where the shares stop fitting into the limit, that does not grow. */
  level(limit: Limit, row: LimitRow | undefined, own: OwnLimit | undefined): number {
    const level = this.#mayUse(limit, row, own) ? this.#fitting(limit, row, own) : 0;
    if (own !== undefined) own.level = level;
    return level;
  }

  /** What others leave to this process of a minute, also after it has ended. */
  reserved(limit: Limit): number {
    const row = this.#fold.row(limit);
    const cell = row?.cells.get(this.#process);
    return Math.max(cell?.claim ?? 0, cell?.yields === true ? 0 : this.of(limit, row));
  }

  #fitting(limit: Limit, row: LimitRow | undefined, own: OwnLimit | undefined): number {
    const share = this.of(limit, row);
    return row === undefined || this.#fold.rows.fits(row) ? share : Math.min(own?.level ?? 0, share);
  }

  #mayUse({ window }: Limit, row: LimitRow | undefined, own: OwnLimit | undefined): boolean {
    if (this.#fold.alone !== undefined) return false;
    if (row?.cells.get(this.#process)?.yields === true || own?.isYielding === true) return false;
    return window === inFlightWindow || (this.#isKnown && this.#from <= window);
  }
}
