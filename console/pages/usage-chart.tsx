/** Bar chart of tokens over time. It has hourly bars while a period is new, and daily bars later on. */
import { clock, count, day, plural, shortDay } from '../lib/format.ts';
import type { UsageRows } from '../lib/usage.ts';
import { Name } from '../ui/name.tsx';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** Maximum number of hourly bars. Shorter periods are shown by hour, because one or two daily bars would say little. */
const hoursMax = 72;
/** Number of models with a colour of their own. All other models share one colour. */
const modelsApart = 5;
const other = 'other models';

interface Bar {
  readonly name: string;
  readonly tokens: ReadonlyMap<string, number>;
}

interface Steps {
  readonly stepMs: number;
  /** Minimum number of bars, because a single bar would be as wide as the page. */
  readonly least: number;
  readonly nameOf: (ms: number) => string;
}

const sumOf = (tokens: ReadonlyMap<string, number>): number =>
  [...tokens.values()].reduce((sum, value) => sum + value, 0);

/** Builds one bar per step up to the last step with usage. Steps without usage also get a bar. */
function buildBars({ hours }: UsageRows, { stepMs, least, nameOf }: Steps): readonly Bar[] {
  const byStep = new Map<number, Map<string, number>>();
  for (const { startMs, model, tokens } of hours) {
    const step = Math.floor(startMs / stepMs) * stepMs;
    const found = byStep.get(step) ?? new Map<string, number>();
    byStep.set(step, found.set(model, (found.get(model) ?? 0) + tokens));
  }
  const last = Math.max(...byStep.keys());
  const first = Math.min(last - (least - 1) * stepMs, ...byStep.keys());
  return Array.from({ length: (last - first) / stepMs + 1 }, (_, at) => {
    const ms = first + at * stepMs;
    return { name: nameOf(ms), tokens: byStep.get(ms) ?? new Map<string, number>() };
  });
}

const hourName = (ms: number): string => clock(new Date(ms).toISOString()).replace(/:\d\d$/, '');
const dayName = (ms: number): string => shortDay(ms / 1000);

/** Shows the usage chart. Hours are in the browser's time zone and days in UTC, and the chart states which applies. */
export function UsageChart({ rows }: { readonly rows: UsageRows }) {
  const starts = rows.hours.map(({ startMs }) => startMs);
  const isByHour = Math.max(...starts) - Math.min(...starts) < hoursMax * hourMs;
  const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  const steps: Steps = isByHour
    ? { stepMs: hourMs, least: 24, nameOf: hourName }
    : { stepMs: dayMs, least: 7, nameOf: dayName };
  const models = sumByModel(rows);
  const total = [...models.values()].reduce((sum, tokens) => sum + tokens, 0);
  return (
    <section class="chart" aria-label="Tokens over time">
      <p class="muted">
        Tokens per {isByHour ? `hour and model (${zone})` : 'day and model (UTC)'}: {count(total)} since{' '}
        {day(rows.days[0]?.day)}.
      </p>
      <Bars bars={buildBars(rows, steps)} models={[...models.keys()]} />
      <ul class="bar-models row" aria-label="Tokens by model">
        {[...models].map(([model, tokens], index) => (
          <li key={model} class={`row line-${index}`}>
            <i aria-hidden="true" />
            {model === other ? other : <Name of={{ kind: 'model', id: model }} />}
            <strong>{count(tokens)}</strong>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Returns the number of tokens by model, largest first. The smallest models are combined into `other`. */
function sumByModel({ hours }: UsageRows): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const { model, tokens } of hours) sums.set(model, (sums.get(model) ?? 0) + tokens);
  const all = [...sums].sort(([, a], [, b]) => b - a);
  if (all.length <= modelsApart + 1) return new Map(all);
  const others = all.slice(modelsApart).reduce((sum, [, tokens]) => sum + tokens, 0);
  return new Map([...all.slice(0, modelsApart), [other, others]]);
}

interface BarsProps {
  readonly bars: readonly Bar[];
  /** Models in the order of their colours. A last entry `other` stands for all other models. */
  readonly models: readonly string[];
}

function Bars({ bars, models }: BarsProps) {
  const most = Math.max(1, ...bars.map(({ tokens }) => sumOf(tokens)));
  const middle = bars[Math.floor(bars.length / 2)];
  return (
    <div class="bars">
      <span class="bars-most muted small">{count(most)}</span>
      <svg
        viewBox={`0 0 ${bars.length * 10} 100`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${plural(bars.length, 'bar')}, at most ${plural(most, 'token')}. The table shows the numbers.`}
      >
        {bars.map((bar, at) => (
          <g key={at}>
            <title>
              {bar.name}: {plural(sumOf(bar.tokens), 'token')}
            </title>
            {/* This background makes bars without usage clickable and hoverable. */}
            <rect class="bar-ground" x={at * 10} width="10" height="100" />
            <Stack bar={bar} models={models} x={at * 10 + 1} most={most} />
          </g>
        ))}
      </svg>
      <div class="scale ends muted small">
        <span>{bars[0]?.name}</span>
        <span class="middle">{middle?.name}</span>
        <span>{bars.at(-1)?.name}</span>
      </div>
    </div>
  );
}

interface StackProps {
  readonly bar: Bar;
  readonly models: readonly string[];
  readonly x: number;
  readonly most: number;
}

function Stack({ bar, models, x, most }: StackProps) {
  const sums = models.map(() => 0);
  for (const [model, tokens] of bar.tokens) {
    const index = models.indexOf(model);
    const at = index < 0 ? models.length - 1 : index;
    sums[at] = (sums[at] ?? 0) + tokens;
  }
  let top = 100;
  return (
    <>
      {sums.map((tokens, index) => {
        const high = (100 * tokens) / most;
        top -= high;
        return high === 0 ? null : (
          <rect key={models[index]} class={`bar line-${index}`} x={x} y={top} width="8" height={high} />
        );
      })}
    </>
  );
}
