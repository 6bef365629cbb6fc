/** Page that lists API keys, which is the home page of members. A key's value is shown only once, when the key is created. */
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { ApiKey, OperationAnswer } from '../../schemas/admin/admin.ts';
import { ago, count, day, plural } from '../lib/format.ts';
import { useOrganisations } from '../lib/organisations.ts';
import { organisationOption, type PageState, pageOptions, pageQuery, usePage } from '../lib/pages.ts';
import { useRead } from '../lib/read.ts';
import { requestsLink } from '../lib/request-filter.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator, may } from '../lib/session.ts';
import { moment } from '../lib/travel.ts';
import { Name } from '../ui/name.tsx';
import { OrganisationChoice } from '../ui/organisation-choice.tsx';
import { ListPage } from '../ui/page.tsx';
import { Button, Empty, Id, State } from '../ui/parts.tsx';
import type { TableColumn } from '../ui/table.tsx';
import { CreateKey } from './key-create.tsx';
import { RevokeKey } from './key-revoke.tsx';

const newestFirst = '-createdAt';
const soonMs = 7 * 24 * 3600_000;

export function KeysPage() {
  const organisation = organisationInScope();
  const list = usePage('key.list', { organisation }, newestFirst);
  const uses = useRead(
    moment() === undefined ? 'usage.keys' : undefined,
    { organisation, ...pageQuery(newestFirst) },
    { everyMs: 10_000 },
  ).data;
  const usedBy = uses && new Map(uses.items.map((use) => [use.key, use]));
  const [isCreating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<ApiKey | undefined>();
  const hasOrganisations = useOrganisations().length > 0;
  const mayCreate = may('key.create', organisation) && hasOrganisations;
  const create = (
    <Button look="primary" onClick={() => setCreating(true)}>
      Create key
    </Button>
  );
  return (
    <ListPage
      title="API keys"
      lead={
        list.data && !list.pages.isOfOtherMoment
          ? `${howMany(list.data.items, list.pages)}. A key is shown only once, when it is created.`
          : undefined
      }
      cli={`headgate key list${organisationOption(organisation)}${pageOptions()}`}
      actions={
        <>
          <OrganisationChoice />
          {mayCreate ? create : null}
        </>
      }
      list={list}
      states={['active', 'expired', 'revoked']}
      columns={keyColumns(setRevoking, usedBy)}
      keyOf={({ id }) => id}
      empty={<NoKeys create={mayCreate ? create : undefined} hasOrganisations={hasOrganisations} />}
    >
      {isCreating ? <CreateKey onClose={() => setCreating(false)} /> : null}
      {revoking ? (
        <RevokeKey subject={revoking} use={usedBy?.get(revoking.id)} onClose={() => setRevoking(undefined)} />
      ) : null}
    </ListPage>
  );
}

function NoKeys({
  create,
  hasOrganisations,
}: {
  /** Button that creates a key. Absent if the viewer may not create keys. */
  readonly create: ComponentChildren;
  readonly hasOrganisations: boolean;
}) {
  return (
    <Empty title="There are no keys yet">
      <p>Programs send a key to use the models of its organisation.</p>
      {create ??
        (hasOrganisations ? (
          <p>Ask an owner, admin, approver or member of the organisation to create one.</p>
        ) : (
          <p>
            Create an organisation first: <code>headgate org create acme --name Acme --tier TIER</code>
          </p>
        ))}
    </Empty>
  );
}

/** States the number of active keys if the page contains all keys, and otherwise the number of keys that match. */
function howMany(items: readonly ApiKey[], { total, isFirst, next }: PageState): string {
  const { text, state } = pageQuery(newestFirst);
  if (text !== undefined || state !== undefined) return `${plural(total, 'key')} found`;
  if (!isFirst || next !== undefined) return plural(total, 'key');
  return plural(items.filter(({ state }) => state === 'active').length, 'active key');
}

type KeyUse = OperationAnswer<'usage.keys'>['items'][number];

function keyColumns(
  onRevoke: (key: ApiKey) => void,
  /** Use of each key, or undefined until it has been read and while the page shows the past. */
  usedBy: ReadonlyMap<string, KeyUse> | undefined,
): readonly TableColumn<ApiKey>[] {
  const owner: TableColumn<ApiKey> = {
    name: 'Organisation',
    field: 'organisation',
    cell: ({ organisation }) => <Name of={{ kind: 'organisation', id: organisation }} />,
  };
  return [
    {
      name: 'Name',
      isTitle: true,
      field: 'name',
      cell: ({ id, name, organisation }) => (
        <span class="key-name">
          <Name of={{ kind: 'key', id, name, within: organisation }}>
            <strong>{name}</strong>
          </Name>
          <Id id={id} />
        </span>
      ),
    },
    { name: 'State', field: 'state', cell: (key) => <KeyState subject={key} /> },
    ...(isOperator() ? [owner] : []),
    {
      name: 'Expires',
      field: 'expiresAt',
      cell: (key) => <Expiry subject={key} />,
    },
    {
      name: 'Created',
      field: 'createdAt',
      cell: ({ createdAt, createdBy, organisation }) => (
        <span>
          {createdAt ? <time dateTime={createdAt}>{ago(createdAt)}</time> : ''} by{' '}
          {createdBy.startsWith('operator') ? (
            createdBy
          ) : (
            <Name of={{ kind: 'member', id: createdBy, within: organisation }} />
          )}
        </span>
      ),
    },
    { name: 'Last used', cell: ({ id }) => (usedBy ? <LastUse use={usedBy.get(id)} /> : '–') },
    {
      name: 'Requests in 24 h',
      isNumber: true,
      cell: ({ id, name, organisation }) => {
        const requests = usedBy ? count(usedBy.get(id)?.requestsOfDay ?? 0) : '–';
        const label = `Requests of ${name}: ${requests}`;
        return (
          <a class="name" href={requestsLink({ key: id, organisation })} aria-label={label} title={label}>
            {requests}
          </a>
        );
      },
    },
    {
      name: 'Actions',
      isAction: true,
      cell: (key) =>
        key.state === 'active' && may('key.revoke', key.organisation) ? (
          <Button onClick={() => onRevoke(key)} aria-label={`Revoke ${key.name}`}>
            Revoke
          </Button>
        ) : null,
    },
  ];
}

function LastUse({ use }: { readonly use: KeyUse | undefined }) {
  if (!use) return <span class="muted">never</span>;
  return <time dateTime={use.lastUsedAt}>{ago(use.lastUsedAt)}</time>;
}

function KeyState({ subject: { state, revokedBy, revokedAt } }: { readonly subject: ApiKey }) {
  if (state === 'active') return <State tone="good">active</State>;
  const title = state === 'revoked' ? `by ${revokedBy ?? '?'}, ${day(revokedAt)}` : '';
  return (
    <span title={title}>
      <State tone={state === 'revoked' ? 'bad' : 'warn'}>{state}</State>
    </span>
  );
}

function Expiry({ subject: { state, expiresAt } }: { readonly subject: ApiKey }) {
  if (expiresAt === null) return <span class="muted">never</span>;
  const leftMs = Date.parse(expiresAt) - Date.now();
  if (state !== 'active' || leftMs > soonMs) return <time dateTime={expiresAt}>{day(expiresAt)}</time>;
  return <State tone="warn">in {plural(Math.max(1, Math.ceil(leftMs / 86_400_000)), 'day')}</State>;
}
