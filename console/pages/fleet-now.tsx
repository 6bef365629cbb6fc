/** What the fleet does now: requests, refusals, the busiest organisations, and what was changed last. */
import type { LimitUse } from '../../schemas/admin.ts';
import { count, plural } from '../lib/format.ts';
import type { FleetReads } from '../lib/holes.ts';
import { useRead } from '../lib/read.ts';
import { requestsLink } from '../lib/request-filter.ts';
import { EventsCard } from '../ui/event-rows.tsx';
import { Name } from '../ui/name.tsx';
import { Card, Figure, Figures } from '../ui/parts.tsx';
import { Refusals, useRefusals } from './refusals.tsx';

const everyMs = 3000;
const shownMax = 6;

export function FleetNow({ state: { nodes } }: { readonly state: FleetReads }) {
  const limits = useRead('limits.list', {}, { everyMs, isWhole: true }).data?.items;
  const refused = useRefusals(undefined)?.refusals.reduce((sum, { requests }) => sum + requests, 0);
  const serving = nodes.filter(({ up, drained }) => up && !drained).length;
  const sum = (of: (use: LimitUse) => number | null): string =>
    limits === undefined ? '…' : count(limits.reduce((all, use) => all + (of(use) ?? 0), 0));
  return (
    <Figures>
      <Figure name="Requests this minute" value={sum(({ requests }) => requests.used)} href="/requests" />
      <Figure name="In flight" value={sum(({ concurrency }) => concurrency.inFlight)} href="/limits" />
      <Figure
        name="Refused in the last hour"
        value={refused === undefined ? '…' : count(refused)}
        href={requestsLink({ outcome: 'refused', since: '1h' })}
      />
      <Figure name="Nodes that serve" value={`${count(serving)} of ${count(nodes.length)}`} href="/nodes" />
    </Figures>
  );
}

export function FleetActivity() {
  const limits = useRead('limits.list', {}, { everyMs, isWhole: true }).data?.items ?? [];
  const busiest = limits
    .filter(({ requests, concurrency }) => (requests.used ?? 0) + (concurrency.inFlight ?? 0) > 0)
    .sort((a, b) => (b.requests.used ?? 0) - (a.requests.used ?? 0))
    .slice(0, shownMax);
  return (
    <div class="columns">
      <EventsCard title="Newest events" label="Newest events" about={{}} limit={shownMax} more="All events" />
      <div class="stacked">
        <Card title="Busiest this minute">
          {busiest.length === 0 ? <p class="muted">No request in this minute.</p> : null}
          <ul class="rows" aria-label="Busiest organisations">
            {busiest.map(({ organisation, requests, concurrency }) => (
              <li key={organisation}>
                <Name of={{ kind: 'organisation', id: organisation ?? '' }} />
                <span>
                  {plural(requests.used ?? 0, 'request')}, {count(concurrency.inFlight ?? 0)} in flight
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
