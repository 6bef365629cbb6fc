/** Shows the current activity of the fleet: requests, refusals, organisations near a limit, and the latest changes. */
import type { LimitUse } from '../../schemas/admin/admin.ts';
import { count } from '../lib/format.ts';
import { type FleetReads, serves } from '../lib/holes.ts';
import { useRead } from '../lib/read.ts';
import { requestsLink } from '../lib/request-filter.ts';
import { toHour, useTraffic } from '../lib/traffic.ts';
import { EventsCard } from '../ui/event-rows.tsx';
import { Name } from '../ui/name.tsx';
import { Card, Figure, Figures } from '../ui/parts.tsx';
import { Refusals, useRefusals } from './refusals.tsx';

const everyMs = 5000;
const shownMax = 6;
const minuteMs = 60_000;

export function FleetNow({ state: { nodes } }: { readonly state: FleetReads }) {
  const traffic = useTraffic({}).data;
  const refused = useRefusals(undefined)?.refusals.reduce((sum, { requests }) => sum + requests, 0);
  const { steps, stepMs } = traffic ? toHour(traffic) : { steps: [], stepMs: minuteMs };
  const minute = steps.slice(-minuteMs / stepMs);
  const requests = minute.reduce((sum, step) => sum + ((step?.requestsPerSecond ?? 0) * stepMs) / 1000, 0);
  const known = (value: number): string => (traffic === undefined ? '…' : count(Math.round(value)));
  return (
    <Figures>
      <Figure name="Requests in the last minute" value={known(requests)} href="/requests" />
      <Figure name="In flight" value={known(minute.at(-1)?.inFlight ?? 0)} href="/limits" />
      <Figure
        name="Refused in the last hour"
        value={refused === undefined ? '…' : count(refused)}
        href={requestsLink({ outcome: 'refused', since: '1h' })}
      />
      <Figure
        name="Serving nodes"
        value={`${count(nodes.filter(serves).length)} of ${count(nodes.length)}`}
        href="/nodes"
      />
    </Figures>
  );
}

/** Returns the limit that is closest to being reached, or undefined if nothing is used. */
function nearest({ requests, concurrency, tokens }: LimitUse) {
  const limits = [
    { what: 'the requests per minute', used: requests.used, limit: requests.limit },
    { what: 'the requests in flight', used: concurrency.inFlight, limit: concurrency.limit },
    { what: 'the allowance', used: tokens.used, limit: tokens.limit },
  ];
  const parts = limits.map(({ what, used, limit }) => ({
    what,
    part: (used ?? 0) / Math.max(1, limit ?? Infinity),
  }));
  return parts.filter(({ part }) => part > 0).sort((one, other) => other.part - one.part)[0];
}

export function FleetActivity() {
  const limits = useRead('limits.list', { limit: shownMax }, { everyMs }).data?.items ?? [];
  const near = limits.flatMap((use) => {
    const found = nearest(use);
    return found === undefined ? [] : [{ id: use.organisation ?? '', ...found }];
  });
  return (
    <div class="columns">
      <EventsCard title="Newest events" label="Newest events" about={{}} limit={shownMax} more="All events" />
      <div class="stack">
        <Card title="Nearest to a limit" more={<a href="/limits">All limits</a>}>
          {near.length === 0 ? <p class="muted">No limit is in use right now.</p> : null}
          <ul class="rows" aria-label="Organisations nearest to a limit">
            {near.map(({ id, what, part }) => (
              <li key={id}>
                <Name of={{ kind: 'organisation', id }} />
                <span>
                  {count(Math.round(part * 100))} % of {what}
                </span>
              </li>
            ))}
          </ul>
        </Card>
        <Refusals organisation={undefined} />
      </div>
    </div>
  );
}
