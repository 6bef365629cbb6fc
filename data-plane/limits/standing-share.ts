/**
 * Standing shares of one process. A standing share is the part of a limit that a process may use without a claim, once every
 * process that is not cut off knows of its membership. The class reads no clock: `wallMs` is in ms since 1970.
 */
import { inFlightWindow } from '../../schemas/records/gauges.ts';
import { type ClaimsFold, clockOffMs } from '../../shared/limits/claims-fold.ts';
import type { Limit, LimitRow } from '../../shared/limits/claims-rows.ts';
import type { OwnLimit } from './own-limit.ts';

/** Time in ms without reading back one of its own records after which a process counts as cut off. */
export const cutOffMs = 2000;
/** Delay in ms between a process's first record and the first minute in which it is a member, with standing shares. */
const joinMs = 5000;
/** A process must read back its announcement this long (ms) before joining. All others then know of it or are cut off. */
const knownMs = cutOffMs + 1000;

export class StandingShare {
  readonly #fold: ClaimsFold;
  readonly #process: string;
  /** Time from which this process is a member according to its own records, in ms since 1970. */
  #from = 0;
  /** Number of the first record that stated `#from`, or 0 if no record has. */
  #fromN = 0;
  /** Whether the record that stated `#from` was read back early enough (`knownMs`). */
  #isKnown = false;

  constructor(fold: ClaimsFold, process: string) {
    this.#fold = fold;
    this.#process = process;
  }

  get from(): number {
    return this.#from;
  }

  /** Called before record number `n` is created. Postpones the start of membership if others may not learn of it in time. */
  announce(n: number, wallMs: number): void {
    // If the clock was set back, `#from` may lie too far in the future.
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

  /** This process's share of the limit according to the log. 0 if the process is not a member or the share is below one. */
  of({ window, limit }: Limit, row: LimitRow | undefined): number {
    return this.#fold.has(this.#process, window) ? this.#fold.rows.standingShare(window, limit, row) : 0;
  }

  /** Part of this process's share that it may use now. Does not grow while all shares together exceed the limit. */
  level(limit: Limit, row: LimitRow | undefined, own: OwnLimit | undefined): number {
    const level = this.#mayUse(limit, row, own) ? this.#fitting(limit, row, own) : 0;
    if (own !== undefined) own.level = level;
    return level;
  }

  /** Amount of a minute's limit that others reserve for this process, even after it has ended. */
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
