/** The catalog: models with where each is installed and loaded, and plans with what each includes. For operators. */
import type { AdminResponse, LiveNodeResource, Model, Tier } from '../../schemas/admin.ts';
import { withQuery } from '../lib/api.ts';
import { count, day, plural, shellWord } from '../lib/format.ts';
import { pageOptions, usePage } from '../lib/pages.ts';
import { useRead } from '../lib/read.ts';
import { moment } from '../lib/travel.ts';
import { EventRows } from '../ui/event-rows.tsx';
import { Name, Names } from '../ui/name.tsx';
import { Empty, Facts, Failure, Id, Loading, PageHeader, State } from '../ui/parts.tsx';
import { Table, type TableColumn } from '../ui/table.tsx';
import { NodeState } from './node-state.tsx';

const eventsShown = 8;

export function ModelsPage() {
  const { data, failure, refresh, pages } = usePage<Model, AdminResponse<'GET /models'>>('/models', {}, 'id');
  const pool = useRead<AdminResponse<'GET /pool'>>('/pool').data;
  const stacks = useRead<AdminResponse<'GET /stacks'>>('/stacks').data?.items;
  const where = (id: string) => {
    const on = stacks?.filter(({ models }) => models.includes(id)).map((stack) => stack.id) ?? [];
    const isInPool = pool?.models.includes(id) ?? false;
    if (!isInPool) return <Names kind="stack" ids={on} none="nowhere" />;
    return <span>the pool{on.length === 0 ? null : <>, {<Names kind="stack" ids={on} />}</>}</span>;
  };
  const columns: readonly TableColumn<Model>[] = [
    { name: 'Model', isTitle: true, field: 'id', cell: ({ id }) => <Name of={{ kind: 'model', id }} /> },
    { name: 'Family', field: 'family', cell: ({ family }) => family },
    { name: 'Installed on', cell: ({ id }) => where(id) },
    { name: 'Weight', isNumber: true, cell: ({ weight }) => count(weight) },
    { name: 'Added', field: 'added', cell: ({ added }) => <time dateTime={added}>{day(added)}</time> },
  ];
  return (
    <>
      <PageHeader
        title="Models"
        lead="The catalog: what callers can ask for."
        cli={`headgate model list${pageOptions()}`}
      />
      {failure ? <Failure failure={failure} onRetry={refresh} /> : null}
      {data ? (
        <Table
          caption="Models"
          rows={data.items}
          pages={pages}
          columns={columns}
          keyOf={({ id }) => id}
          empty={
            <Empty title="The catalog is empty">
              <p>
                <code>headgate model set MODEL --family FAMILY</code>
              </p>
            </Empty>
          }
        />
      ) : failure ? null : (
        <Loading />
      )}
    </>
  );
}

export function ModelPage({ id }: { readonly id: string }) {
  const { data, failure, refresh } = useRead<Model>(`/models/${encodeURIComponent(id)}`);
  return (
    <>
      <PageHeader
        title={id}
        lead={<a href={withQuery('/models', { at: moment() })}>All models</a>}
        cli={`headgate model get ${shellWord(id)}`}
      />
      {failure ? <Failure failure={failure} onRetry={refresh} /> : null}
      {data ? (
        <div class="columns">
          <section class="card">
            <h2>About</h2>
            <Facts
              items={[
                ['Identifier', <Id key="id" id={id} />],
                ['Family', data.family],
                ['Weight', `${count(data.weight)} of the concurrency of a plan`],
                ['Affinity', data.affinity === 'none' ? 'none' : 'prompts that begin alike go to one node'],
                ['Added', day(data.added)],
              ]}
            />
          </section>
          <WhereInstalled id={id} />
          <ModelEvents id={id} />
        </div>
      ) : failure ? null : (
        <Loading />
      )}
    </>
  );
}

function WhereInstalled({ id }: { readonly id: string }) {
  const pool = useRead<AdminResponse<'GET /pool'>>('/pool').data;
  const stacks = useRead<AdminResponse<'GET /stacks'>>('/stacks').data?.items ?? [];
  const nodes = useRead<AdminResponse<'GET /nodes'>>('/nodes', { everyMs: 3000 }).data?.items ?? [];
  const tiers = useRead<AdminResponse<'GET /tiers'>>('/tiers').data?.items ?? [];
  const on = stacks.filter(({ models }) => models.includes(id)).map((stack) => stack.id);
  const loaded = nodes.filter((node: LiveNodeResource) => node.loaded.includes(node.models?.[id] ?? id));
  const plans = tiers.filter(({ models }) => models === '*' || models.includes(id)).map((tier) => tier.id);
  return (
    <section class="card">
      <h2>Where it is</h2>
      <Facts
        items={[
          ['Pool', pool?.models.includes(id) ? <State tone="good">installed</State> : 'not installed'],
          ['Stacks', <Names key="stacks" kind="stack" ids={on} />],
          ['Plans', <Names key="plans" kind="tier" ids={plans} />],
          [
            'Loaded on',
            loaded.length === 0 ? (
              <State tone="warn">no node</State>
            ) : (
              <ul class="plain" key="nodes">
                {loaded.map((node) => (
                  <li key={node.id}>
                    <Name of={{ kind: 'node', id: node.id }} /> <NodeState node={node} />
                  </li>
                ))}
              </ul>
            ),
          ],
        ]}
      />
    </section>
  );
}

function ModelEvents({ id }: { readonly id: string }) {
  const path = withQuery('/events', { text: id, order: 'desc', limit: eventsShown, at: moment() });
  const { data } = useRead<AdminResponse<'GET /events'>>(path, { isFixed: moment() !== undefined });
  if (!data) return null;
  return (
    <section class="card wide">
      <div class="card-head">
        <h2>Events that name it</h2>
        <a href={withQuery('/events', { q: id })}>All of them</a>
      </div>
      <EventRows label="Events of the model" events={data.items} />
    </section>
  );
}

const orUnlimited = (value: number | undefined): string => (value === undefined ? 'no limit' : count(value));

const tierColumns: readonly TableColumn<Tier>[] = [
  {
    name: 'Plan',
    isTitle: true,
    value: ({ id }) => id,
    cell: ({ id }) => <Name of={{ kind: 'tier', id }} />,
  },
  { name: 'Rank', isNumber: true, value: ({ rank }) => rank, cell: ({ rank }) => count(rank) },
  {
    name: 'Requests a minute',
    isNumber: true,
    cell: ({ requestsPerMinute }) => orUnlimited(requestsPerMinute),
  },
  { name: 'In flight', isNumber: true, cell: ({ concurrency }) => orUnlimited(concurrency) },
  { name: 'Context', isNumber: true, cell: ({ contextTokens }) => orUnlimited(contextTokens) },
  { name: 'Tokens a month', isNumber: true, cell: ({ monthlyTokens }) => orUnlimited(monthlyTokens) },
  {
    name: 'Models',
    isNumber: true,
    cell: ({ models }) => (models === '*' ? 'all' : count(models.length)),
  },
];

export function TiersPage() {
  const { data, failure, refresh } = useRead<AdminResponse<'GET /tiers'>>('/tiers');
  return (
    <>
      <PageHeader
        title="Plans"
        lead="What organisations may use: limits and models."
        cli="headgate tier list"
      />
      {failure ? <Failure failure={failure} onRetry={refresh} /> : null}
      {data ? (
        <Table
          caption="Plans"
          rows={data.items}
          columns={tierColumns}
          keyOf={({ id }) => id}
          empty={
            <Empty title="There are no plans yet">
              <p>
                <code>headgate tier set Starter --models '*'</code>
              </p>
            </Empty>
          }
        />
      ) : failure ? null : (
        <Loading />
      )}
    </>
  );
}

export function TierPage({ id }: { readonly id: string }) {
  const { data, failure, refresh } = useRead<Tier>(`/tiers/${encodeURIComponent(id)}`);
  const organisations = useRead<AdminResponse<'GET /organisations'>>('/organisations').data?.items;
  const having = organisations?.filter(({ tier }) => tier === id) ?? [];
  return (
    <>
      <PageHeader
        title={id}
        lead={<a href={withQuery('/tiers', { at: moment() })}>All plans</a>}
        cli={`headgate tier get ${shellWord(id)}`}
      />
      {failure ? <Failure failure={failure} onRetry={refresh} /> : null}
      {data ? (
        <div class="columns">
          <section class="card">
            <h2>Limits</h2>
            <Facts
              items={[
                ['Requests', `${orUnlimited(data.requestsPerMinute)} a minute`],
                ['In flight', orUnlimited(data.concurrency)],
                ['Context', `${orUnlimited(data.contextTokens)} tokens`],
                ['Allowance', `${orUnlimited(data.monthlyTokens)} tokens a month`],
                ['Rank', count(data.rank)],
              ]}
            />
          </section>
          <section class="card">
            <h2>Models</h2>
            <p>
              {data.models === '*' ? 'All models of the catalog.' : <Names kind="model" ids={data.models} />}
            </p>
          </section>
          <section class="card wide">
            <h2>{plural(having.length, 'organisation')} with it</h2>
            <p>
              {having.length === 0 ? <span class="muted">None has this plan.</span> : null}
              {having.map(({ id: organisation, name }, at) => (
                <span key={organisation}>
                  {at === 0 ? '' : ', '}
                  <Name of={{ kind: 'organisation', id: organisation, name }} />
                </span>
              ))}
            </p>
          </section>
        </div>
      ) : failure ? null : (
        <Loading />
      )}
    </>
  );
}
