/**
 * Standing shares of one process: the part of each limit that it may use without asking, once every process that is not cut
 * off knows of it. The class is pure: `wallMs` is in ms since 1970.
 */
import { inFlightWindow } from '../../schemas/records/gauges.ts';
import { type ClaimsFold, clockOffMs } from '../../shared/limits/claims-fold.ts';
import type { Limit, LimitRow } from '../../shared/limits/claims-rows.ts';
import type { OwnLimit } from './own-limit.ts';

/** Time without reading back an own record after which a process counts as cut off. */
export const cutOffMs = 2000;
/** Delay from a process's first record to the first minute in which it is a member. */
const joinMs = 5000;
/** Time before that first minute by which a record must be read back, so that others have read it or are cut off. */
const knownMs = cutOffMs + 1000;

export class StandingShare {
  readonly #fold: ClaimsFold;
  readonly #process: string;
  /** Start of the first minute in which the process is a member, as its records state. In ms since 1970. */
  #from = 0;
  /** Number of the first record that stated this moment. 0 if none has. */
  #fromN = 0;
  /** Whether that record was read back early enough. */
  #isKnown = false;

  constructor(fold: ClaimsFold, process: string) {
    this.#fold = fold;
    this.#process = process;
  }

  get from(): number {
    return this.#from;
  }

  /** Called before the record with this number is made. Postpones the moment if others may not learn it in time. */
  announce(n: number, wallMs: number): void {
    // A moment from before the clock was set back would be too far ahead.
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

  /** Share according to the log. 0 if the process is not a member or the share is less than one. */
  of({ window, limit }: Limit, row: LimitRow | undefined): number {
    return this.#fold.has(this.#process, window) ? this.#fold.rows.standingShare(window, limit, row) : 0;
  }

  /** Usable part of the share. It does not grow while the shares do not fit into the limit. */
  level(limit: Limit, row: LimitRow | undefined, own: OwnLimit | undefined): number {
    const level = this.#mayUse(limit, row, own) ? this.#fitting(limit, row, own) : 0;
    if (own !== undefined) own.level = level;
    return level;
  }

  /** Amount of a minute that others reserve for this process, even after it has ended. */
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
