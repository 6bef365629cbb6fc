/** Usage of one organisation: totals of the period, tokens by day and model, and the same numbers as a file. */
import { useEffect, useRef, useState } from 'preact/hooks';
import UPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { UsageTotals } from '../../schemas/admin.ts';
import { ApiFailure } from '../lib/api.ts';
import { type DayUsage, quantile, toCsv } from '../lib/csv.ts';
import { count, day, plural, shellWord, shortDay } from '../lib/format.ts';
import { useRead } from '../lib/read.ts';
import { organisationInScope } from '../lib/scope.ts';
import { readUsage } from '../lib/usage.ts';
import { Name } from '../ui/name.tsx';
import { OrganisationChoice, useOrganisations } from '../ui/organisation-choice.tsx';
import { Answer } from '../ui/page.tsx';
import {
  Button,
  Empty,
  Failure,
  Figure,
  Figures,
  Loading,
  NoOrganisations,
  PageHeader,
} from '../ui/parts.tsx';
import { Table, type TableColumn } from '../ui/table.tsx';

export function UsagePage() {
  const organisations = useOrganisations();
  const organisation = organisationInScope() ?? organisations[0]?.id;
  const name = organisation === undefined ? undefined : 'usage.get';
  const read = useRead(name, { organisation: organisation ?? '' }, { everyMs: 5000 });
  return (
    <>
      <PageHeader
        title="Usage"
        lead="What was completed. Requests that were refused or broken off are not counted."
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
        <Figure name="Tokens that count against the allowance" value={ofAllowance(totals)} />
        <Figure name="Forecast" value={forecast(totals)} />
        <Figure name="First token" value={firstToken(rows?.flatMap((row) => row.firstTokenMs) ?? [])} />
      </Figures>
      {failure ? <Failure failure={failure} /> : null}
      {rows === undefined ? (
        failure ? null : (
          <Loading />
        )
      ) : rows.length === 0 ? (
        <Empty title={`Nothing was used since ${day(totals.period)}`}>
          <p>
            A request counts when it is complete.{' '}
            <a href={`/keys?org=${totals.organisation}`}>Create a key</a> and send one.
          </p>
        </Empty>
      ) : (
        <>
          {new Set(rows.map((row) => row.day)).size > 1 ? <Chart rows={rows} /> : <FirstDay rows={rows} />}
          <div class="card-head">
            <h2>By day, model and key</h2>
            <Download rows={rows} name={`usage-${totals.organisation}-${totals.period}.csv`} />
          </div>
          <Table
            caption="Usage by day, model and key"
            rows={rows.toReversed()}
            columns={columns}
            keyOf={({ day: date, model, key }) => `${date} ${model} ${key}`}
            empty={null}
          />
        </>
      )}
    </>
  );
}

/** The middle, and what one in twenty is above. */
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
  return `${count(countedTokens ?? 0)} of ${allowance === null ? 'unlimited' : count(allowance)}`;
}

/** At the average of the period so far. */
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
  const [state, setState] = useState<{ rows?: readonly DayUsage[]; failure?: ApiFailure }>({});
  useEffect(() => {
    const ended = new AbortController();
    readUsage(organisation, period, ended.signal).then(
      (rows) => setState({ rows }),
      (error: unknown) => {
        if (!ended.signal.aborted)
          setState({
            failure: error instanceof ApiFailure ? error : new ApiFailure(0, 'Failed', String(error)),
          });
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
  {
    name: 'Requests',
    isNumber: true,
    value: ({ requests }) => requests,
    cell: ({ requests }) => count(requests),
  },
  {
    name: 'Prompt',
    isNumber: true,
    value: (row) => row.promptTokens,
    cell: (row) => count(row.promptTokens),
  },
  {
    name: 'Completion',
    isNumber: true,
    value: (row) => row.completionTokens,
    cell: (row) => count(row.completionTokens),
  },
  {
    name: 'Total',
    isNumber: true,
    value: (row) => row.promptTokens + row.completionTokens,
    cell: (row) => count(row.promptTokens + row.completionTokens),
  },
  {
    name: 'First token',
    isNumber: true,
    value: ({ firstTokenMs }) => quantile(firstTokenMs, 0.5) ?? -1,
    cell: ({ firstTokenMs }) => milliseconds(quantile(firstTokenMs, 0.5)),
  },
  {
    name: 'p95',
    isNumber: true,
    value: ({ firstTokenMs }) => quantile(firstTokenMs, 0.95) ?? -1,
    cell: ({ firstTokenMs }) => milliseconds(quantile(firstTokenMs, 0.95)),
  },
];

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

/** A line through one point says nothing: bars by model do. */
function FirstDay({ rows }: { readonly rows: readonly DayUsage[] }) {
  const tokens = new Map<string, number>();
  for (const { model, promptTokens, completionTokens } of rows)
    tokens.set(model, (tokens.get(model) ?? 0) + promptTokens + completionTokens);
  const most = Math.max(1, ...tokens.values());
  return (
    <section class="chart" aria-label="Tokens of the first day">
      <p class="muted">
        Tokens of {day(rows[0]?.day)} by model; a line a day is drawn from the second day on.
      </p>
      <ul class="day-bars">
        {[...tokens]
          .sort(([, a], [, b]) => b - a)
          .map(([model, sum]) => (
            <li key={model}>
              <Name of={{ kind: 'model', id: model }} />
              <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                <rect width={(100 * sum) / most} height="10" />
              </svg>
              <span>{count(sum)}</span>
            </li>
          ))}
      </ul>
    </section>
  );
}

const colours = ['#6366f1', '#0d9488', '#d97706', '#db2777', '#0284c7', '#65a30d'];
const chartHeight = 220;
const daySeconds = 86_400;

/** All tokens a day, a line for each model. */
function Chart({ rows }: { readonly rows: readonly DayUsage[] }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const days = [...new Set(rows.map((row) => row.day))];
    const models = [...new Set(rows.map(({ model }) => model))].slice(0, colours.length);
    const tokens = new Map<string, number>();
    for (const row of rows) {
      const name = `${row.day} ${row.model}`;
      tokens.set(name, (tokens.get(name) ?? 0) + row.promptTokens + row.completionTokens);
    }
    const ink = getComputedStyle(element).color;
    const axis = {
      stroke: ink,
      grid: { stroke: 'rgb(128 128 128 / 0.2)', width: 1 },
      ticks: { show: false },
    };
    const chart = new UPlot(
      {
        width: element.clientWidth,
        height: chartHeight,
        // Days are those of the log, wherever the browser is.
        tzDate: (seconds) => UPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
        // Not by what the chart makes of it: one day alone it draws on an axis of years.
        scales: {
          x: { time: true, range: [momentOf(days[0]) - daySeconds, momentOf(days.at(-1)) + daySeconds] },
          y: { range: (_chart, _min, max) => [0, Math.max(1, max * 1.1)] },
        },
        legend: { live: false },
        axes: [
          {
            ...axis,
            incrs: [1, 7, 30, 365].map((count) => count * daySeconds),
            values: (_chart, values) => values.map(shortDay),
          },
          { ...axis, size: 64, values: (_chart, values) => values.map((value) => count(value)) },
        ],
        series: [
          {},
          ...models.map((label, index) => ({
            label,
            stroke: colours[index] ?? ink,
            width: 2,
            points: { show: true, size: 6 },
          })),
        ],
      },
      [days.map(momentOf), ...models.map((model) => days.map((date) => tokens.get(`${date} ${model}`) ?? 0))],
      element,
    );
    const observer = new ResizeObserver(() =>
      chart.setSize({ width: element.clientWidth, height: chartHeight }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [rows]);
  const total = rows.reduce((sum, row) => sum + row.promptTokens + row.completionTokens, 0);
  return (
    <figure class="chart">
      <figcaption>
        All tokens a day by model: {plural(total, 'token')} in all; the table below has the numbers.
      </figcaption>
      <div ref={box} aria-hidden="true" />
    </figure>
  );
}

/** Seconds since 1970. */
function momentOf(date: string | undefined): number {
  return Date.parse(date ?? '') / 1000;
}
