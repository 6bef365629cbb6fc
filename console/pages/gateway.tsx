/** Page about one gateway. It shows the gateway's report, and which of the newest commits the gateway enforces. */
import type { GatewayStatus } from '../../schemas/admin/admin.ts';
import { withQuery } from '../lib/api.ts';
import { count, plural, seconds, shellWord } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { EventRows } from '../ui/event-rows.tsx';
import { Answer, ThingPage } from '../ui/page.tsx';
import { Card, Facts, State } from '../ui/parts.tsx';
import { Freshness, GatewayState, memberColumns } from './gateways.tsx';
import { TrafficCard } from './traffic.tsx';

const commitsShown = 8;

export function GatewayPage({ id: name }: { readonly id: string }) {
  const gateway = useRead('gateway.get', { name }, { everyMs: 1000 });
  return (
    <ThingPage
      title={name}
      list={['/gateways', 'All gateways']}
      cli={`headgate gateway get ${shellWord(name)}`}
      of={gateway}
    >
      {(data) => (
        <div class="columns">
          <About gateway={data} />
          <NewestCommits gateway={data} />
          <TrafficCard of={{ gateway: name }} more={withQuery('/requests', { gateway: name })} />
        </div>
      )}
    </ThingPage>
  );
}

function About({ gateway }: { readonly gateway: GatewayStatus }) {
  const { applied, lagEvents, digest, seenSeconds, incarnation, foldVersion } = gateway;
  return (
    <Card title="About">
      <Facts
        items={{
          State: <GatewayState gateway={gateway} />,
          Applied: `position ${count(applied)}, ${plural(lagEvents, 'commit')} behind`,
          Freshness: <Freshness gateway={gateway} />,
          ...Object.fromEntries(memberColumns.map(({ name, cell }) => [name, cell(gateway)])),
          Digest: <code>{digest.slice(0, 16)}</code>,
          'Fold version': String(foldVersion ?? '–'),
          Process: <code>{incarnation.slice(0, 8)}</code>,
          'Last seen': `${seconds(seenSeconds)} ago`,
        }}
      />
    </Card>
  );
}

/** Lists the newest commits and whether the gateway enforces them, which it does once it has reported them as applied. */
function NewestCommits({ gateway: { applied, halted, log } }: { readonly gateway: GatewayStatus }) {
  const isInForce = (position: number): boolean =>
    position <= applied && halted === undefined && log === undefined;
  return (
    <Card title="Newest commits">
      <Answer of={useRead('event.list', { order: 'desc', limit: commitsShown })}>
        {({ items }) => (
          <EventRows
            label="Confirmations"
            events={items}
            stateOf={({ position }) =>
              isInForce(position) ? (
                <State tone="good">in force</State>
              ) : (
                <State tone="warn">not applied yet</State>
              )
            }
          />
        )}
      </Answer>
    </Card>
  );
}
