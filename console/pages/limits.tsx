/** What organisations use of their limits now, over all gateways: those nearest to one first. */
import type { ComponentChildren } from 'preact';
import type { AdminResponse, LimitUse } from '../../schemas/admin.ts';
import { count, plural, seconds, shellWord } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { location } from '../lib/router.ts';
import { organisationInScope } from '../lib/scope.ts';
import { isOperator } from '../lib/session.ts';
import { LimitFacts, refill, Used } from '../ui/limit-use.tsx';
import { Name } from '../ui/name.tsx';
import { OrganisationChoice, organisationName } from '../ui/organisation-choice.tsx';
import { Empty, Failure, Loading, NoOrganisations, PageHeader } from '../ui/parts.tsx';
import { Table, type TableColumn } from '../ui/table.tsx';

const everyMs = 2000;

const visitorsPath = '/limits/visitors';

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
      <PageHeader title="Limits" lead="What counts now, over all gateways." cli={cli}>
        <OrganisationChoice />
      </PageHeader>
      {isVisitors ? (
        <OneSubject path={visitorsPath} title="All visitors together" />
      ) : organisation === undefined ? (
        <AllLimits />
      ) : (
        <OneSubject
          key={organisation}
          path={`/organisations/${encodeURIComponent(organisation)}/limits`}
          title={organisationName(organisation)}
          about={<Name of={{ kind: 'organisation', id: organisation }}>The organisation</Name>}
        />
      )}
    </>
  );
}

function AllLimits() {
  const { data, failure, refresh } = useRead<AdminResponse<'GET /limits'>>('/limits', { everyMs });
  if (!data) return failure ? <Failure failure={failure} onRetry={refresh} /> : <Loading />;
  return (
    <>
      {failure ? <Failure failure={failure} onRetry={refresh} /> : null}
      <p class="more-links">
        <a href="/limits?visitors">All visitors together</a>
      </p>
      <Table
        caption="Limits"
        rows={data.items}
        columns={columns}
        keyOf={({ organisation }) => organisation ?? ''}
        empty={<NoOrganisations />}
      />
    </>
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
      <a href={`/limits?org=${encodeURIComponent(organisation ?? '')}`} title={organisation ?? ''}>
        <strong>{organisationName(organisation ?? '')}</strong>
      </a>
    ),
  },
  {
    name: 'Plan',
    value: ({ tier }) => tier ?? '',
    cell: ({ tier }) => (tier === null ? 'none' : <Name of={{ kind: 'tier', id: tier }} />),
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
    name: 'Allowance tokens',
    value: ({ tokens: { used, limit } }) => part(used, limit),
    cell: ({ tokens: { used, limit } }) => <Used name="Tokens that count" used={used} limit={limit} />,
  },
  { name: 'Refills', value: ({ tokens: { refillsAt } }) => refillsAt, cell: refill },
];

interface SubjectProps {
  readonly path: string;
  readonly title: string;
  readonly about?: ComponentChildren;
}

function OneSubject({ path, title, about }: SubjectProps) {
  const { data, failure, refresh } = useRead<LimitUse>(path, { everyMs });
  // A fleet without them is as it should be.
  if (failure?.status === 404 && path === visitorsPath)
    return (
      <Empty title="Visitors are not served">
        <p>
          <code>headgate tier set anonymous</code> serves them.
        </p>
      </Empty>
    );
  if (!data) return failure ? <Failure failure={failure} onRetry={refresh} /> : <Loading />;
  return (
    <div class="columns">
      <section class="card wide">
        <div class="card-head">
          <h2>{title}</h2>
          {about}
        </div>
        {failure ? <Failure failure={failure} onRetry={refresh} /> : null}
        <LimitFacts use={data} />
      </section>
      <section class="card wide">
        <h2>By gateway</h2>
        <Table
          caption="Use by gateway"
          rows={data.gateways}
          columns={gatewayColumns}
          keyOf={({ name }) => name}
          empty={<Empty title="No gateway has counted anything in this period">{null}</Empty>}
        />
        {data.gateways.length === 0 ? null : (
          <p class="muted">
            {plural(data.gateways.length, 'gateway')} counted.
            {data.gateways.some(({ requests, inFlight }) => requests === null || inFlight === null)
              ? ' A dash: this gateway does not report it now.'
              : ''}
          </p>
        )}
      </section>
    </div>
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
  {
    name: 'Requests this minute',
    isNumber: true,
    value: ({ requests }) => requests ?? -1,
    cell: ({ requests }) => orDash(requests),
  },
  {
    name: 'In flight',
    isNumber: true,
    value: ({ inFlight }) => inFlight ?? -1,
    cell: ({ inFlight }) => orDash(inFlight),
  },
  {
    name: 'Tokens that count',
    isNumber: true,
    value: ({ tokens }) => tokens,
    cell: ({ tokens }) => count(tokens),
  },
  {
    name: 'Published',
    isNumber: true,
    value: ({ ageSeconds }) => ageSeconds,
    cell: ({ ageSeconds }) => `${seconds(ageSeconds)} ago`,
  },
];
