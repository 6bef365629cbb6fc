/** What requests met in the last hour: refusals by type, of an organisation or of all, and which keys call its stacks how. */
import type { AnswerOf } from '../../schemas/admin/admin.ts';
import { readingRoles } from '../../schemas/admin/admin-row.ts';
import { visitorsSubject } from '../../schemas/records/limits.ts';
import { addRefused, type Refused } from '../../schemas/records/traffic.ts';
import { authorise } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { findOrganisation } from '../state/tenants.ts';
import { type AdminContext, actorOf } from './context.ts';
import type { OperationHandlers } from './operations.ts';

const refusalsListed = 100;

type Answer = AnswerOf<'organisation.activity'>;
type FleetRefusal = AnswerOf<'activity.get'>['refusals'][number];
type Caller = Answer['callers'][number];

/** Of one organisation, or of all. */
function refusalsOf({ traffic }: AdminContext, nowMs: number, of: string | undefined): FleetRefusal[] {
  const all = new Map<string, { readonly type: string; organisation?: string; refused: Refused }>();
  const where = of === undefined ? {} : { organisation: of };
  for (const { row, isRest } of traffic.rows(nowMs, where)) {
    // Nobody knows whose those are; the answer says that it is partial.
    if (row.refused === undefined || isRest) continue;
    const { organisation } = row;
    const named = organisation !== visitorsSubject && organisation !== undefined ? { organisation } : {};
    for (const [type, refused] of Object.entries(row.refused)) {
      const key = `${named.organisation ?? ''} ${type}`;
      all.set(key, { type, ...named, refused: addRefused(all.get(key)?.refused, refused) });
    }
  }
  return mostFirst(
    [...all.values()].map(({ type, organisation, refused: { status, requests, lastAtMs, lastRequest } }) => ({
      ...{ status, type, requests, lastAt: new Date(lastAtMs).toISOString(), lastRequest },
      ...(of === undefined && organisation !== undefined && { organisation }),
    })),
  );
}

function callersOf({ traffic }: AdminContext, nowMs: number, of: string): Caller[] {
  const all = new Map<string, Caller>();
  for (const { report } of traffic.reports(nowMs))
    for (const { organisation, stack, surface, key, requests } of report.callers ?? []) {
      if (organisation !== of) continue;
      const name = `${stack} ${surface} ${key}`;
      all.set(name, { stack, surface, key, requests: requests + (all.get(name)?.requests ?? 0) });
    }
  return mostFirst([...all.values()]);
}

export function activityHandlers(
  context: AdminContext,
): OperationHandlers<'organisation.activity' | 'activity.get'> {
  return {
    'organisation.activity': ({ params: { id }, request }) => {
      const { db } = context.snapshot;
      authorise(db, actorOf(request), readingRoles, () => id);
      if (!findOrganisation(db, id)) throw new CommandError('NotFound', `there is no organisation ${id}`);
      const nowMs = context.traffic.now();
      return {
        refusals: refusalsOf(context, nowMs, id),
        callers: callersOf(context, nowMs, id),
        ...howFar(context, nowMs),
      };
    },
    'activity.get': () => {
      const nowMs = context.traffic.now();
      return {
        refusals: refusalsOf(context, nowMs, undefined).slice(0, refusalsListed),
        ...howFar(context, nowMs),
      };
    },
  };
}

function mostFirst<Counted extends { readonly requests: number }>(counted: Counted[]): Counted[] {
  return counted.sort((a, b) => b.requests - a.requests);
}

/** How much of the last hour is known. */
export function howFar(
  { snapshot, traffic, board }: AdminContext,
  nowMs: number,
): Pick<Answer, 'since' | 'unanswered' | 'partial' | 'position'> {
  const isPartial = traffic
    .reports(nowMs)
    .some(({ report }) => report.rest !== undefined || report.otherCallers !== undefined);
  const unknown = board
    .gateways()
    .filter((seen) => seen.report.countsTraffic !== true || board.isSilent(seen));
  return {
    since: new Date(traffic.sinceMs(nowMs)).toISOString(),
    unanswered: [...new Set(unknown.map(({ report }) => report.name))],
    ...(isPartial && ({ partial: true } as const)),
    position: snapshot.seq,
  };
}
