/** Page about the usage of one organisation: totals of the period, tokens over time, and a CSV download. */
import { useEffect, useState } from 'preact/hooks';
import type { UsageTotals } from '../../schemas/admin/admin.ts';
import { type ApiFailure, toFailure } from '../lib/api.ts';
import { type DayUsage, quantile, toCsv } from '../lib/csv.ts';
import { count, day, shellWord } from '../lib/format.ts';
import { useOrganisations } from '../lib/organisations.ts';
import { useRead } from '../lib/read.ts';
import { organisationInScope } from '../lib/scope.ts';
import { readUsage, type UsageRows } from '../lib/usage.ts';
import { Name } from '../ui/name.tsx';
import { OrganisationChoice } from '../ui/organisation-choice.tsx';
import { Answer, PageHeader } from '../ui/page.tsx';
import { Button, Empty, Failure, Figure, Figures, Loading, NoOrganisations } from '../ui/parts.tsx';
import { numberColumn, Table, type TableColumn } from '../ui/table.tsx';
import { UsageChart } from './usage-chart.tsx';

export function UsagePage() {
  const organisations = useOrganisations();
  const organisation = organisationInScope() ?? organisations[0]?.id;
  const name = organisation === undefined ? undefined : 'usage.get';
  const read = useRead(name, { organisation: organisation ?? '' }, { everyMs: 5000 });
  return (
    <>
      <PageHeader
        title="Usage"
        lead="Tokens of completed requests. Refused and interrupted requests are not billed."
        cli={`headgate usage show --org ${shellWord(organisation ?? 'ORG')}`}
      >
        <OrganisationChoice shown={organisation} />
      </PageHeader>
      {organisation === undefined ? (
        <NoOrganisations />
      ) : (
        <Answer of={read}>{(totals) => <UsageBody key={totals.organisation} totals={totals} />}</Answer>
      )}
    </>
  );
}

function UsageBody({ totals }: { readonly totals: UsageTotals }) {
  const { rows, failure } = useDays(totals);
  return (
    <>
      <Figures>
        <Figure name="All tokens this period" value={count(totals.totalTokens)} />
        <Figure name="Requests this period" value={count(totals.requests)} />
        <Figure name="Allowance used" value={ofAllowance(totals)} />
        <Figure name="Forecast" value={forecast(totals)} />
        <Figure
          name="Time to first token"
          value={firstToken(rows?.days.flatMap((row) => row.firstTokenMs) ?? [])}
        />
      </Figures>
      {failure ? <Failure failure={failure} /> : null}
      {rows === undefined ? (
        failure ? null : (
          <Loading />
        )
      ) : rows.days.length === 0 ? (
        <Empty title={`No usage since ${day(totals.period)}`}>
          <p>
            Requests count once they are complete.{' '}
            <a href={`/keys?org=${totals.organisation}`}>Create a key</a> and send a request.
          </p>
        </Empty>
      ) : (
        <>
          <UsageChart rows={rows} />
          <div class="card-head ends">
            <h2>By day (UTC), model and key</h2>
            <Download rows={rows.days} name={`usage-${totals.organisation}-${totals.period}.csv`} />
          </div>
          <Table
            caption="Usage by day, model and key"
            rows={rows.days.toReversed()}
            columns={columns}
            keyOf={({ day: date, model, key }) => `${date} ${model} ${key}`}
            empty={null}
          />
        </>
      )}
    </>
  );
}

/** Formats the median and the 95th percentile of the times to the first token. */
function firstToken(values: readonly number[]): string {
  const [middle, slow] = [quantile(values, 0.5), quantile(values, 0.95)];
  if (middle === undefined || slow === undefined) return 'not measured';
  return `median ${milliseconds(middle)}, p95 ${milliseconds(slow)}`;
}

function milliseconds(value: number | undefined): string {
  return value === undefined ? '–' : `${count(Math.round(value))} ms`;
}

const dayMs = 86_400_000;

function ofAllowance({ countedTokens, allowance }: UsageTotals): string {
  return `${count(countedTokens ?? 0)}${allowance === null ? ', no limit' : ` of ${count(allowance)}`}`;
}

/** States when the allowance will be used up if usage continues at the period's average rate so far. */
function forecast({ countedTokens, allowance, period }: UsageTotals): string {
  if (allowance === null) return 'no limit';
  const elapsedMs = Math.max(dayMs, Date.now() - Date.parse(period));
  if (countedTokens === null || countedTokens === 0) return 'nothing used';
  if (countedTokens >= allowance) return 'used up';
  const endMs = Date.parse(period) + (allowance / countedTokens) * elapsedMs;
  const end = new Date(Date.parse(period));
  end.setUTCMonth(end.getUTCMonth() + 1);
  return endMs > end.getTime() ? 'lasts for the period' : `used up on ${day(new Date(endMs).toISOString())}`;
}

function useDays({ organisation, period, requests }: UsageTotals) {
  const [state, setState] = useState<{ rows?: UsageRows; failure?: ApiFailure }>({});
  useEffect(() => {
    const ended = new AbortController();
    readUsage(organisation, period, ended.signal).then(
      (rows) => setState({ rows }),
      (error: unknown) => {
        if (!ended.signal.aborted) setState({ failure: toFailure(error) });
      },
    );
    return () => ended.abort();
  }, [organisation, period, requests]);
  return state;
}

const columns: readonly TableColumn<DayUsage>[] = [
  { name: 'Day', isTitle: true, value: (row) => row.day, cell: (row) => day(row.day) },
  {
    name: 'Model',
    value: ({ model }) => model,
    cell: ({ model }) => <Name of={{ kind: 'model', id: model }} />,
  },
  {
    name: 'Key',
    value: ({ keyName }) => keyName,
    cell: ({ key, keyName }) =>
      key === '' ? '–' : <Name of={{ kind: 'key', id: key, name: keyName === '' ? key : keyName }} />,
  },
  numberColumn('Requests', ({ requests }) => requests),
  numberColumn('Prompt', ({ promptTokens }) => promptTokens),
  numberColumn('Completion', ({ completionTokens }) => completionTokens),
  numberColumn('Total', ({ promptTokens, completionTokens }) => promptTokens + completionTokens),
  firstTokenColumn('First token', 0.5),
  firstTokenColumn('p95', 0.95),
];

function firstTokenColumn(name: string, share: number): TableColumn<DayUsage> {
  const of = ({ firstTokenMs }: DayUsage) => quantile(firstTokenMs, share);
  return numberColumn(
    name,
    (row) => of(row) ?? -1,
    (row) => milliseconds(of(row)),
  );
}

function Download({ rows, name }: { readonly rows: readonly DayUsage[]; readonly name: string }) {
  const save = (): void => {
    const url = URL.createObjectURL(new Blob([toCsv(rows)], { type: 'text/csv' }));
    const link = document.createElement('a');
    link.href = url;
    link.download = name;
    link.click();
    URL.revokeObjectURL(url);
  };
  return <Button onClick={save}>Download CSV</Button>;
}
