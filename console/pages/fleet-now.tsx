/** What the fleet does now: requests, refusals, the busiest organisations, and what was changed last. */
import type { AdminResponse, LimitUse } from '../../schemas/admin.ts';
import { withQuery } from '../lib/api.ts';
import { count } from '../lib/format.ts';
import type { FleetReads } from '../lib/holes.ts';
import { useRead } from '../lib/read.ts';
import { EventRows } from '../ui/event-rows.tsx';
import { Name } from '../ui/name.tsx';
import { Figure, Figures } from '../ui/parts.tsx';
import { Refusals, useRefusals } from './refusals.tsx';

const everyMs = 3000;
const shownMax = 6;

export function FleetNow({ state: { nodes } }: { readonly state: FleetReads }) {
  const limits = useRead<AdminResponse<'GET /limits'>>('/limits', { everyMs }).data?.items;
  const refused = useRefusals(undefined)?.refusals.reduce((sum, { requests }) => sum + requests, 0);
  const serving = nodes.filter(({ up, drained }) => up && !drained).length;
  const sum = (of: (use: LimitUse) => number | null): string =>
    limits === undefined ? '…' : count(limits.reduce((all, use) => all + (of(use) ?? 0), 0));
  return (
    <Figures>
      <Figure name="Requests this minute" value={sum(({ requests }) => requests.used)} href="/limits" />
      <Figure name="In flight" value={sum(({ concurrency }) => concurrency.inFlight)} href="/limits" />
      <Figure
        name="Refused in the last hour"
        value={refused === undefined ? '…' : count(refused)}
        href="/explain"
      />
      <Figure name="Nodes that serve" value={`${count(serving)} of ${count(nodes.length)}`} href="/nodes" />
    </Figures>
  );
}

export function FleetActivity() {
  const limits = useRead<AdminResponse<'GET /limits'>>('/limits', { everyMs }).data?.items ?? [];
  const path = withQuery('/events', { order: 'desc', limit: shownMax });
  const events = useRead<AdminResponse<'GET /events'>>(path).data?.items ?? [];
  const busiest = limits
    .filter(({ requests, concurrency }) => (requests.used ?? 0) + (concurrency.inFlight ?? 0) > 0)
    .sort((a, b) => (b.requests.used ?? 0) - (a.requests.used ?? 0))
    .slice(0, shownMax);
  return (
    <div class="columns">
      <section class="card">
        <div class="card-head">
          <h2>Newest events</h2>
          <a href="/events">All events</a>
        </div>
        <EventRows label="Newest events" events={events} />
      </section>
      <div class="stacked">
        <section class="card">
          <h2>Busiest this minute</h2>
          {busiest.length === 0 ? <p class="muted">No request in this minute.</p> : null}
          <ul class="rows" aria-label="Busiest organisations">
            {busiest.map(({ organisation, requests, concurrency }) => (
              <li key={organisation}>
                <Name of={{ kind: 'organisation', id: organisation ?? '' }} />
                <span>
                  {count(requests.used ?? 0)} requests, {count(concurrency.inFlight ?? 0)} in flight
                </span>
              </li>
            ))}
          </ul>
        </section>
        <Refusals organisation={undefined} />
      </div>
    </div>
  );
}
