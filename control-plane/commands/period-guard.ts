/**
 * The guard against giving allowance back by mistake: another anchor day begins another period, in which what an organisation
 * has used of the present one does not count.
 */
import type { KnownEvent } from '../../schemas/events/events.ts';
import { grouped } from '../../schemas/grouped.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { periodOf } from '../../shared/usage/period.ts';
import { CommandError } from '../core/command-error.ts';
import { findAdjustment, findOrganisation } from '../state/tenants.ts';

export interface PeriodFacts {
  readonly nowMs: number;
  readonly force?: boolean | undefined;
  /** Tokens that count against the allowance, without adjustments. Absent: not known here, and nothing is guarded. */
  readonly used?: ((organisation: string, period: string) => number) | undefined;
}

/** What no longer counts, in words. Throws CommandError GuardRefused where it is not forced. */
export function guardPeriods(
  db: Database,
  events: readonly KnownEvent[],
  { nowMs, force, used }: PeriodFacts,
): string[] {
  return events.flatMap(({ type, data }) => {
    const before = type === 'organisation.set' ? findOrganisation(db, data.id) : undefined;
    if (type !== 'organisation.set' || before === undefined || used === undefined) return [];
    const was = periodOf(before.anchor, nowMs).start;
    const is = periodOf(data.anchor, nowMs).start;
    if (was === is) return [];
    const tokens = used(data.id, was) + findAdjustment(db, data.id, was);
    if (tokens <= 0) return [];
    const text = `${data.id} has used ${grouped(tokens)} tokens of the period from ${was}; with the anchor day ${data.anchor} the present period is the one from ${is}, in which they do not count`;
    if (force) return [text];
    throw new CommandError('GuardRefused', text, {
      next: `headgate usage show --org ${data.id}; repeat it with --force where this is meant`,
    });
  });
}
