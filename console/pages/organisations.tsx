/** Page that lists organisations. Operators see all of them, and members see their own. */
import type { Organisation } from '../../schemas/admin/admin.ts';
import { pageOptions, usePage } from '../lib/pages.ts';
import { isOperator, me } from '../lib/session.ts';
import { Name } from '../ui/name.tsx';
import { ListPage } from '../ui/page.tsx';
import { Badge, NoOrganisations, State } from '../ui/parts.tsx';
import type { TableColumn } from '../ui/table.tsx';

/** Row of the table. Members see their role, and operators the organisation's other fields. */
type Row = Pick<Organisation, 'id' | 'name'> & Partial<Organisation> & { readonly role?: string };

export function OrganisationsPage() {
  const list = usePage(isOperator() ? 'organisation.list' : undefined, {}, 'name');
  const own = {
    data: { items: me.value?.organisations ?? [] },
    failure: undefined,
    refresh: () => undefined,
  };
  return (
    <ListPage<Row>
      title="Organisations"
      lead={isOperator() ? 'Each has its own keys, and at most one tier.' : 'Organisations you belong to.'}
      cli={`headgate org list${pageOptions()}`}
      list={isOperator() ? list : own}
      columns={isOperator() ? operatorColumns : memberColumns}
      keyOf={({ id }) => id}
      empty={<NoOrganisations />}
    />
  );
}

const name: TableColumn<Row> = {
  name: 'Name',
  isTitle: true,
  value: (row) => row.name,
  field: 'name',
  cell: (row) => <Name of={{ kind: 'organisation', id: row.id, name: row.name }} />,
};
const id: TableColumn<Row> = {
  name: 'Id',
  value: (row) => row.id,
  field: 'id',
  cell: (row) => (
    <Name of={{ kind: 'organisation', id: row.id }}>
      <code>{row.id}</code>
    </Name>
  ),
};

const memberColumns: readonly TableColumn<Row>[] = [
  name,
  id,
  { name: 'Your role', value: ({ role = '' }) => role, cell: ({ role }) => <Badge>{role}</Badge> },
];

const operatorColumns: readonly TableColumn<Row>[] = [
  name,
  id,
  {
    name: 'Tier',
    field: 'tier',
    cell: ({ tier }) =>
      tier ? <Name of={{ kind: 'tier', id: tier }} /> : <span class="muted">none, requests are refused</span>,
  },
  {
    name: 'State',
    field: 'suspended',
    cell: ({ suspended }) =>
      suspended ? <State tone="bad">suspended</State> : <State tone="good">active</State>,
  },
];
