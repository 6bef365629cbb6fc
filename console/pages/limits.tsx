/** Page about the current use of limits over all gateways. Organisations nearest to a limit come first. */
import type { ComponentChildren } from 'preact';
import type { LimitUse } from '../../schemas/admin/admin.ts';
import { withQuery } from '../lib/api.ts';
import { count, plural, seconds, shellWord } from '../lib/format.ts';
import { organisationName } from '../lib/organisations.ts';
import { type ReadResult, useRead } from '../lib/read.ts';
import { location } from '../lib/router.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator } from '../lib/session.ts';
import { LimitFacts, refill, TierInUse, Used } from '../ui/limit-use.tsx';
import { Name } from '../ui/name.tsx';
import { OrganisationChoice } from '../ui/organisation-choice.tsx';
import { Answer, PageHeader } from '../ui/page.tsx';
import { Card, Empty, NoOrganisations } from '../ui/parts.tsx';
import { numberColumn, Table, type TableColumn } from '../ui/table.tsx';

const everyMs = 2000;
const nearestMax = 50;

export function LimitsPage() {
  const organisation = organisationInScope();
  const isVisitors = isOperator() && location.value.query.get('visitors') !== null;
  const cli = isVisitors
    ? 'headgate limits show --visitors'
    : organisation === undefined
      ? 'headgate limits list'
      : `headgate limits show --org ${shellWord(organisation)}`;
  return (
    <>
      <PageHeader title="Limits" lead="Present use of each limit, over all gateways." cli={cli}>
        <OrganisationChoice />
      </PageHeader>
      {isVisitors ? (
        <Visitors />
      ) : organisation === undefined ? (
        <AllLimits />
      ) : (
        <OneOrganisation key={organisation} id={organisation} />
      )}
    </>
  );
}

function AllLimits() {
  return (
    <Answer of={useRead('limits.list', { limit: nearestMax }, { everyMs })}>
      {({ items, total = items.length }) => (
        <>
          {total > items.length ? (
            <p class="muted">
              The {count(items.length)} of {plural(total, 'organisation')} nearest to a limit. Choose an
              organisation above to see its limits.
            </p>
          ) : null}
          <p class="row search">
            <a href="/limits?visitors">All visitors together</a>
          </p>
          <Table
            caption="Limits"
            rows={items}
            columns={columns}
            keyOf={({ organisation }) => organisation ?? ''}
            empty={<NoOrganisations />}
          />
        </>
      )}
    </Answer>
  );
}

const part = (used: number | null, limit: number | null): number =>
  used === null || limit === null ? -1 : used / Math.max(1, limit);

const columns: readonly TableColumn<LimitUse>[] = [
  {
    name: 'Organisation',
    isTitle: true,
    value: ({ organisation }) => organisationName(organisation ?? ''),
    cell: ({ organisation }) => (
      <a href={withQuery('/limits', { org: organisation ?? '' })} title={organisation ?? ''}>
        <strong>{organisationName(organisation ?? '')}</strong>
      </a>
    ),
  },
  {
    name: 'Tier',
    value: ({ tier }) => tier ?? '',
    cell: (use) => <TierInUse use={use} />,
  },
  {
    name: 'Requests this minute',
    value: ({ requests: { used, limit } }) => part(used, limit),
    cell: ({ requests: { used, limit } }) => <Used name="Requests" used={used} limit={limit} />,
  },
  {
    name: 'In flight',
    value: ({ concurrency: { inFlight, limit } }) => part(inFlight, limit),
    cell: ({ concurrency: { inFlight, limit } }) => <Used name="In flight" used={inFlight} limit={limit} />,
  },
  {
    name: 'Allowance used',
    value: ({ tokens: { used, limit } }) => part(used, limit),
    cell: ({ tokens: { used, limit } }) => <Used name="Allowance used" used={used} limit={limit} />,
  },
  { name: 'Next refill', value: ({ tokens: { refillsAt } }) => refillsAt, cell: refill },
];

function Visitors() {
  const read = useRead('limits.visitors', {}, { everyMs });
  // A missing section for visitors is not an error, because a fleet may be set up without visitors.
  if (read.failure?.status === 404)
    return (
      <Empty title="Visitors are not served">
        <p>
          To serve them, run <code>headgate tier set anonymous</code>.
        </p>
      </Empty>
    );
  return <Uses of={read} title="All visitors together" />;
}

function OneOrganisation({ id }: { readonly id: string }) {
  const read = useRead('organisation.limits', { id }, { everyMs });
  const about = <Name of={{ kind: 'organisation', id }}>Show organisation</Name>;
  return <Uses of={read} title={organisationName(id)} about={about} />;
}

interface UsesProps {
  readonly of: ReadResult<LimitUse>;
  readonly title: string;
  readonly about?: ComponentChildren;
}

function Uses({ of, title, about }: UsesProps) {
  return (
    <Answer of={of}>
      {(use) => (
        <div class="columns">
          <Card title={title} more={about} isWide>
            <LimitFacts use={use} />
          </Card>
          <ByGateway use={use} />
        </div>
      )}
    </Answer>
  );
}

function ByGateway({ use: { gateways, tokens } }: { readonly use: LimitUse }) {
  const elsewhere = tokens.used - gateways.reduce((sum, gateway) => sum + gateway.tokens, 0);
  return (
    <Card title="By gateway" isWide>
      <Table
        caption="Use by gateway"
        rows={gateways}
        columns={gatewayColumns}
        keyOf={({ name }) => name}
        empty={<Empty title="No gateway has counted anything in this period" />}
      />
      {gateways.length === 0 ? null : (
        <p class="muted">
          {plural(gateways.length, 'gateway')} reported.
          {gateways.some(({ requests, inFlight }) => requests === null || inFlight === null)
            ? ' A dash means that the gateway does not report this value right now.'
            : ''}
          {elsewhere === 0
            ? ''
            : ` ${count(elsewhere)} tokens are not in the table yet, because gateways report once a minute.`}
        </p>
      )}
    </Card>
  );
}

type OfGateway = LimitUse['gateways'][number];
const orDash = (value: number | null): string => (value === null ? '–' : count(value));

const gatewayColumns: readonly TableColumn<OfGateway>[] = [
  {
    name: 'Gateway',
    isTitle: true,
    value: ({ name }) => name,
    cell: ({ name }) => <Name of={{ kind: 'gateway', id: name }} />,
  },
  numberColumn(
    'Requests this minute',
    ({ requests }) => requests ?? -1,
    ({ requests }) => orDash(requests),
  ),
  numberColumn(
    'In flight',
    ({ inFlight }) => inFlight ?? -1,
    ({ inFlight }) => orDash(inFlight),
  ),
  numberColumn('Tokens', ({ tokens }) => tokens),
  numberColumn(
    'Reported',
    ({ ageSeconds }) => ageSeconds,
    ({ ageSeconds }) => `${seconds(ageSeconds)} ago`,
  ),
];
