/** Page that lists stacks. A stack is dedicated capacity of an organisation and has its own host. */
import type { Stack } from '../../schemas/admin/admin.ts';
import { plural } from '../lib/format.ts';
import { organisationOption, pageOptions, usePage } from '../lib/pages.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator } from '../lib/session.ts';
import { Name, Names } from '../ui/name.tsx';
import { OrganisationChoice } from '../ui/organisation-choice.tsx';
import { ListPage } from '../ui/page.tsx';
import { Badge, Empty } from '../ui/parts.tsx';
import type { TableColumn } from '../ui/table.tsx';

export function StacksPage() {
  const organisation = organisationInScope();
  const list = usePage('stack.list', { organisation }, 'id');
  return (
    <ListPage
      title="Stacks"
      lead="Dedicated capacity of an organisation, with its own address."
      cli={`headgate stack list${organisationOption(organisation)}${pageOptions()}`}
      actions={<OrganisationChoice />}
      list={list}
      columns={columns()}
      keyOf={({ id }) => id}
      empty={
        <Empty title="There are no stacks yet">
          <p>
            An operator creates one with <code>headgate stack create --org ID</code>. Until then, requests use
            the shared host.
          </p>
        </Empty>
      }
    />
  );
}

function columns(): readonly TableColumn<Stack>[] {
  const owner: TableColumn<Stack> = {
    name: 'Organisation',
    field: 'organisation',
    cell: ({ organisation }) => <Name of={{ kind: 'organisation', id: organisation }} />,
  };
  return [
    {
      name: 'Stack',
      isTitle: true,
      field: 'id',
      cell: ({ id }) => <Name of={{ kind: 'stack', id }} />,
    },
    ...(isOperator() ? [owner] : []),
    {
      name: 'API style',
      field: 'surface',
      cell: ({ surface }) => <Badge>{surface === 'openai' ? 'OpenAI-style' : 'Anthropic-style'}</Badge>,
    },
    {
      name: 'Models',
      cell: ({ models }) => <Names kind="model" ids={models} />,
    },
    {
      name: 'Nodes',
      isNumber: true,
      cell: ({ nodes }) => plural(nodes.length, 'node'),
    },
  ];
}
