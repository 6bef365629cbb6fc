/** Sums usage rows by day, model and key for the table and the CSV file, and by hour for the chart. */
import type { UsageLine } from '../../schemas/records/usage.ts';
import { ApiFailure, fetchAnswer, readPath } from './api.ts';
import type { DayUsage } from './csv.ts';

export interface HourUsage {
  /** Start of the hour, in ms since 1970. */
  readonly startMs: number;
  readonly model: string;
  tokens: number;
}

export interface UsageRows {
  /** Usage by UTC day, in chronological order. */
  readonly days: readonly DayUsage[];
  readonly hours: readonly HourUsage[];
}

interface Sums {
  readonly days: Map<string, DayUsage>;
  readonly hours: Map<string, HourUsage>;
}

const hourMs = 3_600_000;

/** Maximum number of usage rows to read. Larger ranges can be read with the command line. */
const rowsMax = 500_000;

/** Reads the rows of a range of days as a stream and keeps only their sums. Rejects with ApiFailure. */
export async function readUsage(organisation: string, from: string, signal: AbortSignal): Promise<UsageRows> {
  const answer = await fetchAnswer('GET', readPath('usage.export', { organisation, from }), { signal });
  if (!answer.ok || !answer.body)
    throw new ApiFailure(answer.status, 'Unreadable', 'usage cannot be read', 'try again');
  const sums: Sums = { days: new Map(), hours: new Map() };
  let rest = '';
  let rows = 0;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) add(sums, JSON.parse(line) as UsageLine);
    rows += lines.length;
    if (rows > rowsMax) {
      await reader.cancel();
      throw new ApiFailure(
        0,
        'TooLarge',
        'this period has too many requests for this page',
        'headgate usage export',
      );
    }
  }
  const days = [...sums.days.values()].sort((a, b) => cellKey(a).localeCompare(cellKey(b)));
  return { days, hours: [...sums.hours.values()] };
}

function cellKey({ day, model, keyName, key }: DayUsage): string {
  return [day, model, keyName, key].join(' ');
}

function add({ days, hours }: Sums, row: UsageLine): void {
  const { at, model, key = '', keyName = '', promptTokens, completionTokens, ttftMs } = row;
  const day = at.slice(0, 10);
  const name = `${day} ${model} ${key}`;
  const sum = days.get(name) ?? {
    ...{ day, model, key, keyName, requests: 0, promptTokens: 0, completionTokens: 0 },
    firstTokenMs: [],
  };
  sum.requests++;
  sum.promptTokens += promptTokens;
  sum.completionTokens += completionTokens;
  if (ttftMs !== undefined) sum.firstTokenMs.push(ttftMs);
  days.set(name, sum);
  const startMs = Math.floor(Date.parse(at) / hourMs) * hourMs;
  const hour = `${startMs} ${model}`;
  const ofHour = hours.get(hour) ?? { startMs, model, tokens: 0 };
  ofHour.tokens += promptTokens + completionTokens;
  hours.set(hour, ofHour);
}
