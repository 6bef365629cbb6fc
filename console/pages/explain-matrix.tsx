/** Each model that an organisation has, at the shared host and at each of its stacks: served, or what refuses it. */
import { useState } from 'preact/hooks';
import type { AnswerOf } from '../../schemas/admin.ts';
import { explainLink } from '../lib/explain.ts';
import { useRead } from '../lib/read.ts';
import { Name } from '../ui/name.tsx';
import { Button, Empty, Failure, Loading, State } from '../ui/parts.tsx';
import { Table, type TableColumn } from '../ui/table.tsx';

type Item = AnswerOf<'decision.matrix'>['items'][number];

export interface MatrixProps {
  readonly organisation: string;
  readonly at: string | undefined;
}

export function Matrix({ organisation, at }: MatrixProps) {
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
    <section aria-label="All models">
      <p class="muted">
        What a request with any good key of <Name of={{ kind: 'organisation', id: organisation }} /> gets, for
        each model and host.
      </p>
      <Table
        caption="Models and hosts"
        rows={models}
        columns={columns}
        keyOf={(model) => model}
        empty={<Empty title="Its tier, its stacks and its nodes have no model">{null}</Empty>}
      />
      {(after !== undefined || data.next !== undefined) && (
        <p class="actions">
          <Button disabled={after === undefined} onClick={() => setAfter(undefined)}>
            First models
          </Button>
          <Button disabled={data.next === undefined} onClick={() => setAfter(data.next)}>
            Next models
          </Button>
        </p>
      )}
    </section>
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
