/**
 * Page about models. For an organisation, it shows the outcome of a request for each model on the shared host and on each
 * stack. For operators who have not chosen an organisation, it shows the catalog.
 */
import { useState } from 'preact/hooks';
import type { Model, OperationAnswer } from '../../schemas/admin/admin.ts';
import { explainLink } from '../lib/explain.ts';
import { count, day, shellWord } from '../lib/format.ts';
import { pageOptions, usePage } from '../lib/pages.ts';
import { useRead } from '../lib/read.ts';
import { organisationInScope } from '../lib/scope.ts';
import { moment } from '../lib/travel.ts';
import { Name, Names } from '../ui/name.tsx';
import { OrganisationChoice } from '../ui/organisation-choice.tsx';
import { ListPage, PageHeader } from '../ui/page.tsx';
import { Button, Empty, Failure, Loading, State } from '../ui/parts.tsx';
import { Table, type TableColumn } from '../ui/table.tsx';

type Item = OperationAnswer<'decision.matrix'>['items'][number];

export function ModelsPage() {
  const organisation = organisationInScope();
  if (organisation === undefined) return <Catalog />;
  const at = moment();
  const atOption = at === undefined ? '' : ` --at ${shellWord(at)}`;
  return (
    <>
      <PageHeader
        title="Models"
        lead={
          <>
            What a request with a valid key of <Name of={{ kind: 'organisation', id: organisation }} /> gets,
            for each model and host.
          </>
        }
        cli={`headgate explain --org ${shellWord(organisation)} --list${atOption}`}
      >
        <OrganisationChoice />
      </PageHeader>
      <Matrix key={`${organisation} ${at}`} organisation={organisation} at={at} />
    </>
  );
}

function Catalog() {
  const list = usePage('model.list', {}, 'id');
  const pool = useRead('pool.get').data;
  const stacks = useRead('stack.list', {}, { isWhole: true }).data?.items;
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
    <ListPage
      title="Models"
      lead="The catalog of models that callers can ask for."
      cli={`headgate model list${pageOptions()}`}
      actions={<OrganisationChoice />}
      list={list}
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
  );
}

interface MatrixProps {
  readonly organisation: string;
  readonly at: string | undefined;
}

function Matrix({ organisation, at }: MatrixProps) {
  const [after, setAfter] = useState<string>();
  const asked = { organisation, at, after };
  const { data, failure, refresh } = useRead('decision.matrix', asked, { isFixed: at !== undefined });
  if (!data) return failure ? <Failure failure={failure} onRetry={refresh} /> : <Loading />;
  const models = [...new Set(data.items.map(({ model }) => model))];
  const hosts = [...new Set(data.items.map(({ host }) => host))];
  const cells = new Map(data.items.map((item) => [`${item.host} ${item.model}`, item]));
  const columns: readonly TableColumn<string>[] = [
    {
      name: 'Model',
      isTitle: true,
      value: (model) => model,
      cell: (model) => <Name of={{ kind: 'model', id: model }} />,
    },
    ...hosts.map(
      (host): TableColumn<string> => ({
        name: host === 'shared' ? 'Shared host' : host,
        value: (model) => cells.get(`${host} ${model}`)?.status ?? 0,
        cell: (model) => <Cell item={cells.get(`${host} ${model}`)} organisation={organisation} at={at} />,
      }),
    ),
  ];
  return (
    <>
      <Table
        caption="Models and hosts"
        rows={models}
        columns={columns}
        keyOf={(model) => model}
        empty={<Empty title="This organisation has no models">{null}</Empty>}
      />
      {(after !== undefined || data.next !== undefined) && (
        <p class="row">
          <Button disabled={after === undefined} onClick={() => setAfter(undefined)}>
            First models
          </Button>
          <Button disabled={data.next === undefined} onClick={() => setAfter(data.next)}>
            Next models
          </Button>
        </p>
      )}
    </>
  );
}

function Cell({ item, organisation, at }: MatrixProps & { readonly item: Item | undefined }) {
  if (!item) return <span class="muted">–</span>;
  const { model, host, path, served, status, type } = item;
  return (
    <a
      href={explainLink({
        ...{ org: organisation, model, at },
        ...(host !== 'shared' && { host }),
        ...(path !== 'chat' && { path }),
      })}
    >
      <State tone={served ? 'good' : 'bad'}>{served ? 'served' : `${status} ${type ?? ''}`}</State>
    </a>
  );
}
