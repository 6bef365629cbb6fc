/** Page that lists nodes (the inference servers), the places that they serve, and what they report. */
import { useState } from 'preact/hooks';
import type { LiveNodeResource } from '../../schemas/admin/admin.ts';
import { ago } from '../lib/format.ts';
import { pageOptions, usePage } from '../lib/pages.ts';
import { may } from '../lib/session.ts';
import { Name } from '../ui/name.tsx';
import { ListPage } from '../ui/page.tsx';
import { Badge, Button, Empty } from '../ui/parts.tsx';
import type { TableColumn } from '../ui/table.tsx';
import { DrainDialog, Installs, LoadedModels, NodeState, Place } from './node-state.tsx';

export function NodesPage() {
  const list = usePage('node.list', {}, 'id', { everyMs: 3000 });
  const [chosen, setChosen] = useState<LiveNodeResource | undefined>();
  return (
    <ListPage
      title="Nodes"
      lead="The inference servers behind the gateways."
      cli={`headgate node list${pageOptions()}`}
      list={list}
      states={['up', 'down', 'drained']}
      columns={nodeColumns(setChosen)}
      keyOf={({ id }) => id}
      empty={
        <Empty title="There are no nodes yet">
          <p>
            <code>headgate node register NODE --url http://… --dialect vllm --place pool</code>
          </p>
        </Empty>
      }
    >
      {chosen ? <DrainDialog node={chosen} onClose={() => setChosen(undefined)} /> : null}
    </ListPage>
  );
}

function nodeColumns(onDrain: (node: LiveNodeResource) => void): readonly TableColumn<LiveNodeResource>[] {
  return [
    { name: 'Node', isTitle: true, field: 'id', cell: ({ id }) => <Name of={{ kind: 'node', id }} /> },
    {
      name: 'State',
      field: 'state',
      cell: (node) => (
        <div>
          <NodeState node={node} />
          {node.reason !== undefined ? <small class="why muted">{node.reason}</small> : null}
        </div>
      ),
    },
    { name: 'Place', field: 'place', cell: (node) => <Place node={node} /> },
    { name: 'Engine', field: 'dialect', cell: ({ dialect }) => <Badge>{dialect}</Badge> },
    {
      name: 'Loaded',
      field: 'loaded',
      cell: (node) => (
        <div>
          <LoadedModels node={node} />
          <Installs node={node} />
        </div>
      ),
    },
    {
      name: 'Changed',
      field: 'changedAt',
      cell: ({ changedAt }) =>
        changedAt === undefined ? '–' : <time dateTime={changedAt}>{ago(changedAt)}</time>,
    },
    {
      name: 'Reported by',
      field: 'owner',
      cell: ({ owner, agent }) => `${owner ?? '–'}${agent ? ', agent' : ''}`,
    },
    {
      name: 'Actions',
      isAction: true,
      cell: (node) =>
        may('node.drain') ? (
          <Button
            aria-label={`${node.drained ? 'Undrain' : 'Drain'} ${node.id}`}
            onClick={() => onDrain(node)}
          >
            {node.drained ? 'Undrain' : 'Drain'}
          </Button>
        ) : null,
    },
  ];
}
