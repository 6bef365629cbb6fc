/** Rows of usage, added up by day and model: what the chart, the table and the file show. */
import type { UsageRow } from '../../schemas/usage.ts';
import { ApiFailure, answerOf, withQuery } from './api.ts';

export interface DayUsage {
  readonly day: string;
  readonly model: string;
  requests: number;
  promptTokens: number;
  completionTokens: number;
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
    for (const line of lines) add(sums, JSON.parse(line) as UsageRow);
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
  return [...sums.values()].sort((a, b) => a.day.localeCompare(b.day) || a.model.localeCompare(b.model));
}

function add(sums: Map<string, DayUsage>, { at, model, promptTokens, completionTokens }: UsageRow): void {
  const day = at.slice(0, 10);
  const key = `${day} ${model}`;
  const sum = sums.get(key) ?? { day, model, requests: 0, promptTokens: 0, completionTokens: 0 };
  sum.requests++;
  sum.promptTokens += promptTokens;
  sum.completionTokens += completionTokens;
  sums.set(key, sum);
}

/** A text as one cell: spreadsheets run what begins with these signs. */
function cell(value: string | number): string {
  const text = String(value);
  const safe = /^[=+\-@\t\r]/.test(text) && typeof value === 'string' ? `'${text}` : text;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function toCsv(rows: readonly DayUsage[]): string {
  const lines = rows.map(({ day, model, requests, promptTokens, completionTokens }) =>
    [day, model, requests, promptTokens, completionTokens, promptTokens + completionTokens]
      .map(cell)
      .join(','),
  );
  return ['day,model,requests,prompt_tokens,completion_tokens,total_tokens', ...lines, ''].join('\r\n');
}
