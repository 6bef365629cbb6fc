/** Prints results: tables for people, stable JSON for scripts (lists as `{"items":[…],"position":N}`), names for shells. */
import { styleText } from 'node:util';
import { printable } from '../../schemas/printable.ts';
import type { Resource } from '../admin-client/answers.ts';
import { listMember } from '../admin-client/answers.ts';
import { type Io, writeAll } from './io.ts';
import type { Format } from './options.ts';
import { ageText, amountText, cellText, printableJson } from './text.ts';

export interface Column<Row = Resource> {
  readonly heading: string;
  cell(row: Row): unknown;
  /** Chooses the colour of a cell. The cell's text must also be clear without colour, because output may have none. */
  severity?(row: Row): Severity;
  /** Whether the text may be shortened if the table is too wide. JSON and single resources always show all of it. */
  readonly isLong?: boolean;
}
export type Severity = 'good' | 'warn' | 'bad' | undefined;

/** A piece of a line with its style. Without colour, only the text is printed. */
export type Part = string | { readonly text: string; readonly style: Style | undefined };
export type Line = string | readonly Part[];
type Style = NonNullable<Severity> | 'faint' | 'strong';

const styleFormats = { good: 'green', warn: 'yellow', bad: 'red', faint: 'dim', strong: 'bold' } as const;
/** Minimum width in characters that is assumed for a terminal. */
const columnsMin = 40;
/** Maximum width of a table in characters. */
const widthMax = 160;
/** Minimum width of a shortened column in characters. */
const cutMin = 10;
/** Members whose digits are not grouped, because they are pasted into commands or are not counts. */
const plainMembers: ReadonlySet<string> = new Set([
  'position',
  'applied',
  'divergedAt',
  'generation',
  'foldVersion',
]);

/** How to print one kind of resource. */
export interface View<Row = Resource> {
  readonly columns: readonly Column<Row>[];
  /** Returns the id that `-o name` prints. */
  name(row: Row): unknown;
}

/** Creates a column that shows one member of a row. */
export function column<Row = Resource>(heading: string, member: keyof Row & string): Column<Row> {
  return { heading, cell: (row) => memberText(member, row[member]) };
}

/** Creates a column for a member whose text may be shortened. */
export function longColumn<Row = Resource>(heading: string, member: keyof Row & string): Column<Row> {
  return { ...column<Row>(heading, member), isLong: true };
}

/** Creates a column with the time since or until a moment. A resource that is printed alone shows the moment itself. */
export function ageColumn<Row = Resource>(
  heading: string,
  member: keyof Row & string,
  none = '-',
): Column<Row> {
  return { heading, cell: ({ [member]: at }) => (at === null || at === undefined ? none : ageText(at)) };
}

function memberText(member: string, value: unknown): string {
  return plainMembers.has(member.split('.').at(-1) ?? '') ? cellText(value) : amountText(value);
}

/** A list that is printed page by page. */
interface Listing {
  page(answer: Resource): Promise<void>;
  end(): Promise<void>;
}

export class Renderer {
  readonly format: Format;
  readonly #io: Io;
  readonly #colour: boolean;

  /** If `colour` is false, colour is off. Otherwise it is used on terminals, unless NO_COLOR is set. */
  constructor(io: Io, format: Format, colour: boolean) {
    this.format = format;
    this.#io = io;
    this.#colour = colour && io.stdout.isTTY === true && !io.env['NO_COLOR'];
  }

  async list(answer: Resource, view: View): Promise<void> {
    const listing = this.listing(view);
    await listing.page(answer);
    await listing.end();
  }

  /** Starts a list. Its pages are printed as they arrive, but JSON and YAML are printed as one document at the end. */
  listing(view: View): Listing {
    let widths: readonly number[] | undefined;
    const all: Resource[] = [];
    let last: Resource = {};
    const page = async (answer: Resource): Promise<void> => {
      const items = listMember(answer, 'items');
      switch (this.format) {
        case 'table': {
          const table = renderTable(items, view.columns, widths);
          widths = table.widths;
          return this.#out(this.#text(table.lines));
        }
        case 'name':
          return this.#out(items.map((item) => `${cellText(view.name(item))}\n`).join(''));
        case 'jsonl':
          for (const item of items) await this.#out(`${printableJson(item)}\n`);
          return;
        default:
          all.push(...items);
          last = answer;
      }
    };
    const isDocument = this.format === 'json' || this.format === 'yaml';
    return { page, end: async () => (isDocument ? this.document({ ...last, items: all }) : undefined) };
  }

  /** Prints one resource. In table format, each member gets its own line. */
  async resource(resource: Resource, view: Pick<View, 'name'>): Promise<void> {
    if (this.format === 'name') return this.#out(`${cellText(view.name(resource))}\n`);
    if (this.format !== 'table') return this.document(resource);
    const members = Object.entries(resource).flatMap(([member, value]) => flattenMember(member, value));
    const width = Math.max(0, ...members.map(([member]) => member.length));
    const lines = members.map(
      ([member, value]) => `${printable(member).padEnd(width)}  ${memberText(member, value)}\n`,
    );
    return this.#out(lines.join(''));
  }

  /** Width of the terminal in characters, or undefined if output is not a terminal. */
  get columns(): number | undefined {
    const { isTTY, columns = 80 } = this.#io.stdout;
    return isTTY === true ? Math.max(columnsMin, columns) : undefined;
  }

  /** Prints `lines` in table format, and `document` or `name` in other formats. */
  async lines(lines: readonly Line[], document: Resource, name: unknown): Promise<void> {
    if (this.format === 'name') return this.#out(`${cellText(name)}\n`);
    if (this.format !== 'table') return this.document(document);
    return this.#out(this.#text(lines));
  }

  /** Prints a document in the chosen format, or as JSON if the format is `table`. */
  async document(value: unknown): Promise<void> {
    if (this.format === 'yaml') return this.#out(await yamlText(value));
    return this.#out(`${printableJson(value, this.format === 'jsonl' ? undefined : 2)}\n`);
  }

  #out(text: string): Promise<void> {
    return writeAll(this.#io.stdout, text);
  }

  /** Formats a table with its headings, so that it can be printed between other lines. */
  table(items: readonly Resource[], columns: readonly Column[]): Line[] {
    return renderTable(items, columns).lines;
  }

  #text(lines: readonly Line[]): string {
    const texts = lines.map((line) => (typeof line === 'string' ? [line] : line));
    return texts.map((parts) => `${parts.map((part) => this.#part(part)).join('')}\n`).join('');
  }

  #part(part: Part): string {
    return typeof part === 'string' ? printable(part) : this.#paint(printable(part.text), part.style);
  }

  #paint(text: string, style: Style | undefined): string {
    if (!this.#colour || !style) return text;
    // Skip validation, because the constructor has already checked the stream.
    return styleText(styleFormats[style], text, { validateStream: false });
  }
}

/** Formats rows below their headings. If the previous page's widths (`before`) are given, continues its table instead. */
function renderTable(
  items: readonly Resource[],
  columns: readonly Column[],
  before?: readonly number[],
): { readonly lines: Line[]; readonly widths: readonly number[] } {
  const rows = items.map((item) => columns.map(({ cell }) => amountText(cell(item))));
  const headings = columns.map(({ heading }) => heading);
  const own = fitWidths(columns, before ? rows : [headings, ...rows]);
  const widths =
    before?.map((width, at) => (columns[at]?.isLong ? width : Math.max(width, own[at] ?? 0))) ?? own;
  const line = (cells: readonly string[], item?: Resource): Line =>
    cells.flatMap((cell, at): Part[] => {
      const text = cut(cell, widths[at] ?? 0);
      const padding = at === cells.length - 1 ? '' : ' '.repeat((widths[at] ?? 0) - [...text].length + 2);
      return [{ text, style: item && columns[at]?.severity?.(item) }, padding];
    });
  const lines = rows.map((row, index) => line(row, items[index]));
  return { lines: before ? lines : [line(headings), ...lines], widths };
}

/** Flattens a member. Each member of an object gets its own line, such as `place.kind`, and so does each object in a list. */
function flattenMember(member: string, value: unknown): (readonly [string, unknown])[] {
  if (value === undefined) return [];
  if (Array.isArray(value) && value.some((one) => typeof one === 'object'))
    return value.map((one) => [member, one]);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [[member, value]];
  return Object.entries(value).flatMap(([inner, part]) => flattenMember(`${member}.${inner}`, part));
}

/** Computes the columns' widths. Long columns are shortened, the widest first, until the table fits. */
function fitWidths(columns: readonly Column[], rows: readonly (readonly string[])[]): number[] {
  const widths = columns.map((_, at) =>
    rows.reduce((most, row) => Math.max(most, [...(row[at] ?? '')].length), 0),
  );
  const least = columns.map(({ heading }) => Math.max(cutMin, heading.length));
  let excess = widths.reduce((sum, width) => sum + width, 2 * (widths.length - 1)) - widthMax;
  for (; excess > 0; excess--) {
    const room = columns.map(({ isLong }, at) => (isLong ? (widths[at] ?? 0) - (least[at] ?? 0) : 0));
    const widest = columns.reduce(
      (best, _, at) => ((room[at] ?? 0) > 0 && (widths[at] ?? 0) > (widths[best] ?? -1) ? at : best),
      -1,
    );
    if (widest === -1) return widths;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

function cut(text: string, width: number): string {
  const characters = [...text];
  return characters.length <= width ? text : `${characters.slice(0, width - 1).join('')}…`;
}

/** Formats a value as YAML. Strings with unsafe characters are quoted and escaped. */
async function yamlText(value: unknown): Promise<string> {
  const { Document, visit } = await import('yaml');
  const document = new Document(value);
  visit(document, {
    Scalar(_key, node) {
      if (typeof node.value === 'string' && printable(node.value) !== node.value) node.type = 'QUOTE_DOUBLE';
    },
  });
  return document
    .toString({ lineWidth: 0 })
    .split('\n')
    .map((line) => printable(line))
    .join('\n');
}
