/**
 * Looks for damage in `usage.db`: pages that contradict each other, rows that cannot be read, and totals that are not the sums of
 * their rows. The file has no digest, and a bit that flips in a number shows nowhere else.
 * Takes as long as the file is large, so it runs on a thread of its own, over a connection of its own. Each period of an
 * organisation is compared in one read transaction, because totals and rows change together.
 */
import { visitorsSubject } from '../../schemas/limits.ts';
import { readKeptRow } from '../../schemas/usage.ts';
import { type Database, mapSqliteError, openDatabase, prepare } from '../runtime/sqlite.ts';

export interface UsageFault {
  /** The table, and the row in it where it is known. */
  readonly object: string;
  readonly text: string;
}

/** Faults named at most: a file that lost a page has thousands. */
export const usageFaultsMax = 20;
const textMax = 200;

/** Opens the file for reading alone. Empty where all is well. Throws what says nothing of the file, such as that it cannot be opened. */
export function checkUsage(path: string): readonly UsageFault[] {
  const db = openDatabase(path, { durability: 'normal', readOnly: true });
  try {
    const faults = pageFaults(db);
    // Damaged pages make rows unreadable, and reading them may end in an error.
    return faults.length > 0 ? faults : rowFaults(db);
  } catch (error) {
    const mapped = mapSqliteError(error, path);
    if (!(mapped instanceof Error) || mapped.name !== 'DatabaseCorrupt') throw mapped;
    return [{ object: 'usage.db', text: mapped.message.slice(0, textMax) }];
  } finally {
    db.close();
  }
}

function pageFaults(db: Database): readonly UsageFault[] {
  const found = prepare<{ readonly quick_check: string }>(db, `PRAGMA quick_check(${usageFaultsMax})`).all();
  return found
    .filter(({ quick_check: text }) => text !== 'ok')
    .map(({ quick_check: text }) => ({ object: 'usage.db', text: text.slice(0, textMax) }));
}

interface Sums {
  promptTokens: number;
  completionTokens: number;
  requests: number;
}
interface KeptRow {
  readonly id: number;
  readonly body: string;
}
interface TotalRow {
  readonly draw: string;
  readonly model: string;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly requests: number;
}
interface Period {
  readonly organisation: string;
  readonly period: string;
}

/** The next period of an organisation that has rows or totals, found through an index of each. */
const nextSql = ['total', 'request']
  .map(
    (table) => `SELECT * FROM (SELECT organisation, period FROM ${table}
      WHERE (organisation, period) > (?, ?) ORDER BY organisation, period LIMIT 1)`,
  )
  .join(' UNION ALL ');

function rowFaults(db: Database): readonly UsageFault[] {
  const next = prepare<Period>(db, `${nextSql} ORDER BY 1, 2 LIMIT 1`);
  const totals = prepare<TotalRow>(
    db,
    'SELECT draw, model, prompt_tokens, completion_tokens, requests FROM total WHERE organisation = ? AND period = ?',
  );
  const rows = prepare<KeptRow>(
    db,
    'SELECT id, body FROM request WHERE organisation IS ? AND period IS ? ORDER BY id',
  );
  const faults: UsageFault[] = [];
  // Of visitors: their rows name no organisation.
  addSums(rows.iterate(null, null), faults);
  for (let at = next.get('', '', '', ''); at !== undefined; ) {
    if (faults.length >= usageFaultsMax) break;
    const { organisation, period } = at;
    if (organisation !== visitorsSubject) {
      db.exec('BEGIN');
      const unreadable = faults.length;
      const sums = addSums(rows.iterate(organisation, period), faults);
      if (faults.length === unreadable) compare(at, totals.all(organisation, period), sums, faults);
      db.exec('COMMIT');
    }
    at = next.get(organisation, period, organisation, period);
  }
  return faults.slice(0, usageFaultsMax);
}

/** Of the rows that can be read, by draw and model; the others are added to the faults. */
function addSums(rows: Iterable<KeptRow>, faults: UsageFault[]): Map<string, Sums> {
  const sums = new Map<string, Sums>();
  for (const { id, body } of rows) {
    const row = readKeptRow(body);
    if (row === undefined) {
      faults.push({ object: `request ${id}`, text: unreadableText });
      if (faults.length >= usageFaultsMax) break;
      continue;
    }
    const key = `${row.draw} ${row.model}`;
    const sum = sums.get(key) ?? { promptTokens: 0, completionTokens: 0, requests: 0 };
    sum.promptTokens += row.promptTokens;
    sum.completionTokens += row.completionTokens;
    sum.requests++;
    sums.set(key, sum);
  }
  return sums;
}

export const unreadableText = 'this row cannot be read, and is in no export';

function compare(
  { organisation, period }: Period,
  totals: readonly TotalRow[],
  sums: Map<string, Sums>,
  faults: UsageFault[],
): void {
  const differ = (key: string): void => {
    faults.push({
      object: organisation,
      text: `in the period from ${period} the total of ${key} is not the sum of its rows`.slice(0, textMax),
    });
  };
  for (const { draw, model, ...total } of totals) {
    const key = `${draw} ${model}`;
    const sum = sums.get(key);
    sums.delete(key);
    const isEqual =
      sum?.requests === total.requests &&
      sum.promptTokens === total.prompt_tokens &&
      sum.completionTokens === total.completion_tokens;
    if (!isEqual) differ(key);
  }
  for (const key of sums.keys()) differ(key);
}
