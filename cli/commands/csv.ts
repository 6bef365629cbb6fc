/** Reads and writes CSV (RFC 4180): cells in quotes may hold commas, line ends and quotes, which are doubled. */

export interface CsvRecord {
  /** Of the file, from 1, on which the record begins. */
  readonly line: number;
  readonly cells: readonly string[];
}

/** A cell in quotes, text, the end of a cell, the end of a record; a quote that nothing closes is text. */
const tokens = /"((?:[^"]|"")*)"|[^",\r\n]+|,|\r\n|[\r\n]|"/g;

/** Empty lines are left out. */
export function csvRecords(text: string): CsvRecord[] {
  const records: CsvRecord[] = [];
  let cells: string[] = [];
  let cell = '';
  let [line, first] = [1, 1];
  const endRecord = (): void => {
    cells.push(cell);
    if (cells.length > 1 || cell !== '') records.push({ line: first, cells });
    [cells, cell] = [[], ''];
  };
  for (const [token, quoted] of text.replace(/^\ufeff/, '').matchAll(tokens)) {
    if (quoted !== undefined) cell += quoted.replaceAll('""', '"');
    else if (token === ',') {
      cells.push(cell);
      cell = '';
    } else if (/^[\r\n]/.test(token)) endRecord();
    else cell += token;
    line += token.split(/\r\n|\r|\n/).length - 1;
    if (cells.length === 0 && cell === '') first = line;
  }
  endRecord();
  return records;
}

export function csvLine(cells: readonly string[]): string {
  const quoted = cells.map((cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell));
  return `${quoted.join(',')}\n`;
}
