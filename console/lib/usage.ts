/** Rows of usage, added up by day, model and key: what the chart, the table and the file show. */
import type { UsageLine } from '../../schemas/usage.ts';
import { ApiFailure, answerOf, withQuery } from './api.ts';

export interface DayUsage {
  readonly day: string;
  readonly model: string;
  /** Id of the key; empty where a gateway of an older version counted it. */
  readonly key: string;
  /** Empty where the control plane does not know the key. */
  readonly keyName: string;
  requests: number;
  promptTokens: number;
  completionTokens: number;
  /** Of each request that reported it. */
  readonly firstTokenMs: number[];
}

/** The value that this share of all values is not above; undefined where there is none. */
export function quantile(values: readonly number[], share: number): number | undefined {
  return [...values].sort((a, b) => a - b)[Math.max(0, Math.ceil(values.length * share) - 1)];
}

/** Rows that are read at most; a larger range is a matter for the command line. */
const rowsMax = 500_000;

/** Reads the rows of a range of days as they arrive, and keeps sums alone. Rejects with ApiFailure. */
export async function readUsage(
  organisation: string,
  from: string,
  signal: AbortSignal,
): Promise<readonly DayUsage[]> {
  const answer = await answerOf('GET', withQuery('/usage/export', { organisation, from }), { signal });
  if (!answer.ok || !answer.body)
    throw new ApiFailure(answer.status, 'Unreadable', 'the usage cannot be read', 'try again');
  const sums = new Map<string, DayUsage>();
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
        'the range has too many requests for this page',
        'headgate usage export',
      );
    }
  }
  return [...sums.values()].sort((a, b) => placeOf(a).localeCompare(placeOf(b)));
}

function placeOf({ day, model, keyName, key }: DayUsage): string {
  return [day, model, keyName, key].join(' ');
}

function add(sums: Map<string, DayUsage>, row: UsageLine): void {
  const { at, model, key = '', keyName = '', promptTokens, completionTokens, ttftMs } = row;
  const day = at.slice(0, 10);
  const name = `${day} ${model} ${key}`;
  const sum = sums.get(name) ?? {
    ...{ day, model, key, keyName, requests: 0, promptTokens: 0, completionTokens: 0 },
    firstTokenMs: [],
  };
  sum.requests++;
  sum.promptTokens += promptTokens;
  sum.completionTokens += completionTokens;
  if (ttftMs !== undefined) sum.firstTokenMs.push(ttftMs);
  sums.set(name, sum);
}

/** A text as one cell: spreadsheets run what begins with these signs. */
function cell(value: string | number): string {
  const text = String(value);
  const safe = /^[=+\-@\t\r]/.test(text) && typeof value === 'string' ? `'${text}` : text;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const heads =
  'day,model,key_name,key,requests,prompt_tokens,completion_tokens,total_tokens,first_token_p50_ms,first_token_p95_ms';

export function toCsv(rows: readonly DayUsage[]): string {
  const lines = rows.map(
    ({ day, model, key, keyName, requests, promptTokens, completionTokens, firstTokenMs }) =>
      [
        ...[
          day,
          model,
          keyName,
          key,
          requests,
          promptTokens,
          completionTokens,
          promptTokens + completionTokens,
        ],
        ...[quantile(firstTokenMs, 0.5) ?? '', quantile(firstTokenMs, 0.95) ?? ''],
      ]
        .map(cell)
        .join(','),
  );
  return [heads, ...lines, ''].join('\r\n');
}
