/** Rows of usage, added up by day, model and key: what the chart, the table and the file show. */
import type { UsageLine } from '../../schemas/usage.ts';
import { ApiFailure, answerOf, readPath } from './api.ts';
import type { DayUsage } from './csv.ts';

/** Rows that are read at most; a larger range is a matter for the command line. */
const rowsMax = 500_000;

/** Reads the rows of a range of days as they arrive, and keeps sums alone. Rejects with ApiFailure. */
export async function readUsage(
  organisation: string,
  from: string,
  signal: AbortSignal,
): Promise<readonly DayUsage[]> {
  const answer = await answerOf('GET', readPath('usage.export', { organisation, from }), { signal });
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
