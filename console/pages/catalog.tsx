/** Pages about one model and about tiers. Only operators see them. */
import type { LiveNodeResource, Tier } from '../../schemas/admin/admin.ts';
import { count, day, plural, shellWord } from '../lib/format.ts';
import { useKnown } from '../lib/organisations.ts';
import { useRead } from '../lib/read.ts';
import { moment } from '../lib/travel.ts';
import { EventsCard } from '../ui/event-rows.tsx';
import { Name, Names } from '../ui/name.tsx';
import { ListPage, ThingPage } from '../ui/page.tsx';
import { Card, Empty, Facts, Id, State } from '../ui/parts.tsx';
import { numberColumn, type TableColumn } from '../ui/table.tsx';
import { NodeState } from './node-state.tsx';

export function ModelPage({ id }: { readonly id: string }) {
  return (
    <ThingPage
      title={id}
      list={['/models', 'All models']}
      cli={`headgate model get ${shellWord(id)}`}
      of={useRead('model.get', { id })}
    >
      {({ family, weight, affinity, added }) => (
        <div class="columns">
          <Card title="About">
            <Facts
              items={{
                Identifier: <Id id={id} />,
                Family: family,
                Weight: `counts as ${plural(weight, 'request')} in flight`,
                Affinity: affinity === 'none' ? 'none' : 'prompts that begin alike go to one node',
                Added: day(added),
              }}
            />
          </Card>
          <WhereInstalled id={id} />
          <EventsCard
            title="Events"
            label="Events of the model"
            about={{ text: id }}
            more="All events"
            isWide
          />
        </div>
      )}
    </ThingPage>
  );
}

function WhereInstalled({ id }: { readonly id: string }) {
  const pool = useRead('pool.get').data;
  const stacks = useRead('stack.list', { text: id }, { isWhole: true }).data?.items ?? [];
  const nodes = useRead('node.list', {}, { everyMs: 3000, isWhole: true }).data?.items ?? [];
  const tiers = useRead('tier.list').data?.items ?? [];
  const on = stacks.filter(({ models }) => models.includes(id)).map((stack) => stack.id);
  const loaded = nodes.filter((node: LiveNodeResource) => node.loaded.includes(node.models?.[id] ?? id));
  const reranking = loaded.filter((node) => node.rerankModels?.includes(node.models?.[id] ?? id));
  const including = tiers.filter(({ models }) => models === '*' || models.includes(id));
  return (
    <Card title="Availability">
      <Facts
        items={{
          Pool: pool?.models.includes(id) ? <State tone="good">installed</State> : 'not installed',
          Stacks: <Names kind="stack" ids={on} />,
          Tiers: <Names kind="tier" ids={including.map((tier) => tier.id)} />,
          ...(reranking.length > 0 && { Kind: 'only reranks documents' }),
          'Loaded on':
            loaded.length === 0 ? (
              <State tone="warn">no node</State>
            ) : (
              <ul class="stack" key="nodes">
                {loaded.map((node) => (
                  <li key={node.id}>
                    <Name of={{ kind: 'node', id: node.id }} /> <NodeState node={node} />
                  </li>
                ))}
              </ul>
            ),
        }}
      />
    </Card>
  );
}

const orUnlimited = (value: number | undefined, unit = ''): string =>
  value === undefined ? 'no limit' : `${count(value)}${unit}`;

const tierColumns: readonly TableColumn<Tier>[] = [
  {
    name: 'Tier',
    isTitle: true,
    value: ({ id }) => id,
    cell: ({ id }) => <Name of={{ kind: 'tier', id }} />,
  },
  numberColumn('Rank', ({ rank }) => rank),
  {
    name: 'Requests per minute',
    isNumber: true,
    cell: ({ requestsPerMinute }) => orUnlimited(requestsPerMinute),
  },
  { name: 'In flight', isNumber: true, cell: ({ concurrency }) => orUnlimited(concurrency) },
  { name: 'Context', isNumber: true, cell: ({ contextTokens }) => orUnlimited(contextTokens) },
  { name: 'Tokens per month', isNumber: true, cell: ({ monthlyTokens }) => orUnlimited(monthlyTokens) },
  {
    name: 'Models',
    isNumber: true,
    cell: ({ models }) => (models === '*' ? 'all' : count(models.length)),
  },
];

export function TiersPage() {
  return (
    <ListPage
      title="Tiers"
      lead="A tier sets the limits and models of its organisations. A caller’s plan is its tier."
      cli="headgate tier list"
      list={useRead('tier.list')}
      columns={tierColumns}
      keyOf={({ id }) => id}
      empty={
        <Empty title="There are no tiers yet">
          <p>
            <code>headgate tier set Starter --models '*'</code>
          </p>
        </Empty>
      }
    />
  );
}

export function TierPage({ id }: { readonly id: string }) {
  const organisations = useRead('organisation.list', { text: id }, { isWhole: true }).data?.items;
  useKnown(moment() === undefined ? organisations : undefined);
  const having = organisations?.filter(({ tier }) => tier === id) ?? [];
  return (
    <ThingPage
      title={id}
      list={['/tiers', 'All tiers']}
      cli={`headgate tier get ${shellWord(id)}`}
      of={useRead('tier.get', { id })}
    >
      {({ requestsPerMinute, concurrency, contextTokens, monthlyTokens, rank, models }) => (
        <div class="columns">
          <Card title="Limits">
            <Facts
              items={{
                Requests: orUnlimited(requestsPerMinute, ' per minute'),
                'In flight': orUnlimited(concurrency),
                Context: orUnlimited(contextTokens, ' tokens'),
                Allowance: orUnlimited(monthlyTokens, ' tokens per month'),
                Rank: count(rank),
              }}
            />
          </Card>
          <Card title="Models">
            <p>{models === '*' ? 'All models of the catalog.' : <Names kind="model" ids={models} />}</p>
          </Card>
          <Card title={`${plural(having.length, 'organisation')} on this tier`} isWide>
            <p>
              <Names kind="organisation" ids={having.map((each) => each.id)} />
            </p>
          </Card>
        </div>
      )}
    </ThingPage>
  );
}
