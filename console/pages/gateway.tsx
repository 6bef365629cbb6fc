/** One gateway: what it reports, and when it had the newest commits in force. */
import type { AdminResponse, GatewayStatus } from '../../schemas/admin.ts';
import { count, seconds, shellWord } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { EventRows } from '../ui/event-rows.tsx';
import { Facts, Failure, Loading, PageHeader, State } from '../ui/parts.tsx';
import { Freshness, GatewayState, WhenStale } from './gateways.tsx';

const commitsShown = 8;

export function GatewayPage({ id: name }: { readonly id: string }) {
  const path = `/gateways/${encodeURIComponent(name)}`;
  const { data, failure, refresh } = useRead<GatewayStatus>(path, { everyMs: 1000 });
  return (
    <>
      <PageHeader
        title={name}
        lead={<a href="/gateways">All gateways</a>}
        cli={`headgate gateway get ${shellWord(name)}`}
      />
      {failure ? <Failure failure={failure} onRetry={refresh} /> : null}
      {data ? (
        <div class="columns">
          <About gateway={data} />
          <NewestCommits gateway={data} />
        </div>
      ) : failure ? null : (
        <Loading />
      )}
    </>
  );
}

function About({ gateway }: { readonly gateway: GatewayStatus }) {
  const { applied, lagEvents, digest, stalePolicy, seenSeconds, incarnation, foldVersion } = gateway;
  return (
    <section class="card">
      <h2>About</h2>
      <Facts
        items={[
          ['State', <GatewayState key="state" gateway={gateway} />],
          ['Applied', `${count(applied)}, ${count(lagEvents)} behind`],
          ['Freshness', <Freshness key="fresh" gateway={gateway} />],
          ['Without proof', <WhenStale key="policy" policy={stalePolicy} />],
          ['Digest', <code key="digest">{digest.slice(0, 16)}</code>],
          ['Fold version', String(foldVersion ?? '–')],
          ['Process', <code key="process">{incarnation.slice(0, 8)}</code>],
          ['Seen', `${seconds(seenSeconds)} ago`],
        ]}
      />
    </section>
  );
}

/** By its own reports, which the page reads all the time: a gateway answers by all that it has applied. */
function NewestCommits({ gateway: { applied, halted, log } }: { readonly gateway: GatewayStatus }) {
  const path = `/events?order=desc&limit=${commitsShown}`;
  const { data, failure } = useRead<AdminResponse<'GET /events'>>(path);
  return (
    <section class="card">
      <h2>Newest commits here</h2>
      {failure ? <Failure failure={failure} /> : data ? null : <Loading />}
      <EventRows
        label="Confirmations"
        events={data?.items ?? []}
        stateOf={({ position }) =>
          position <= applied && halted === undefined && log === undefined ? (
            <State tone="good">in force</State>
          ) : (
            <State tone="warn">not applied yet</State>
          )
        }
      />
    </section>
  );
}
