/** Organisations: all for the operator, their own for members. */
import type { AdminResponse, Organisation } from '../../schemas/admin.ts';
import { pageOptions, usePage } from '../lib/pages.ts';
import { isOperator, me } from '../lib/session.ts';
import { Name } from '../ui/name.tsx';
import { Badge, Failure, Loading, NoOrganisations, PageHeader, State } from '../ui/parts.tsx';
import { Table, type TableColumn } from '../ui/table.tsx';

interface Row {
  readonly id: string;
  readonly name: string;
  readonly role?: string;
  readonly organisation?: Organisation;
}

export function OrganisationsPage() {
  const { data, failure, refresh, pages } = usePage<Organisation, AdminResponse<'GET /organisations'>>(
    isOperator() ? '/organisations' : undefined,
    {},
    'name',
  );
  const rows: readonly Row[] | undefined = isOperator()
    ? data?.items.map((organisation) => ({ id: organisation.id, name: organisation.name, organisation }))
    : (me.value?.organisations ?? []);
  return (
    <>
      <PageHeader
        title="Organisations"
        lead="Tenants: each owns keys, stacks and nodes, and has at most one plan."
        cli={`headgate org list${pageOptions()}`}
      />
      {failure ? <Failure failure={failure} onRetry={refresh} /> : null}
      {rows ? (
        <Table
          caption="Organisations"
          rows={rows}
          {...(isOperator() && { pages })}
          columns={isOperator() ? operatorColumns : memberColumns}
          keyOf={({ id }) => id}
          empty={<NoOrganisations />}
        />
      ) : failure ? null : (
        <Loading />
      )}
    </>
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
    name: 'Plan',
    field: 'tier',
    cell: ({ organisation }) =>
      organisation?.tier ? (
        <Name of={{ kind: 'tier', id: organisation.tier }} />
      ) : (
        <span class="muted">none: inference is refused</span>
      ),
  },
  {
    name: 'State',
    field: 'suspended',
    cell: ({ organisation }) =>
      organisation?.suspended ? <State tone="bad">suspended</State> : <State tone="good">active</State>,
  },
];
