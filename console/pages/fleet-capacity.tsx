/** Table of the organisations with dedicated capacity. The Fleet page shows it instead of the map if there are too many. */
import type { LiveNodeResource } from '../../schemas/admin/admin.ts';
import type { OwnCapacity } from '../lib/capacity.ts';
import { count } from '../lib/format.ts';
import { serves } from '../lib/holes.ts';
import { Name } from '../ui/name.tsx';
import { Card, State } from '../ui/parts.tsx';
import { numberColumn, Table, type TableColumn } from '../ui/table.tsx';

/** Shows the table. Organisations whose stacks lack models come first. */
export function CapacityTable({ rows }: { readonly rows: readonly OwnCapacity[] }) {
  const sorted = [...rows].sort((one, other) => other.missing - one.missing);
  return (
    <Card title="Organisations with dedicated capacity" isWide>
      <Table
        caption="Capacity by organisation"
        rows={sorted}
        columns={columns}
        keyOf={({ id }) => id}
        empty={null}
      />
    </Card>
  );
}

const nodesOf = ({ stacks, nodes }: OwnCapacity): readonly LiveNodeResource[] => [
  ...stacks.flatMap((stack) => stack.nodes),
  ...nodes,
];

const columns: readonly TableColumn<OwnCapacity>[] = [
  {
    name: 'Organisation',
    isTitle: true,
    value: ({ id, name }) => `${name} ${id}`,
    cell: ({ id, name }) => <Name of={{ kind: 'organisation', id, name }} />,
  },
  numberColumn('Stacks', ({ stacks }) => stacks.length),
  numberColumn(
    'Serving nodes',
    (row) => nodesOf(row).filter(serves).length,
    (row) => `${count(nodesOf(row).filter(serves).length)} of ${count(nodesOf(row).length)}`,
  ),
  numberColumn(
    'Models not served',
    ({ missing }) => missing,
    ({ missing }) => (missing === 0 ? '–' : <State tone="bad">{count(missing)}</State>),
  ),
];
