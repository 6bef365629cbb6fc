/**
 * Prints results: tables for people, json, jsonl and yaml for scripts, name for shells. The JSON forms are stable: a
 * list is `{"items":[…],"position":N}`, a single resource is the resource itself.
 */
import { styleText } from 'node:util';
import type { Resource } from '../../admin-client/answers.ts';
import { resourcesIn } from '../../admin-client/answers.ts';
import { printable } from '../../schemas/printable.ts';
import { type Io, writeAll } from './io.ts';
import { cellText, printableJson } from './text.ts';

export const formats = ['table', 'json', 'jsonl', 'yaml', 'name'] as const;
export type Format = (typeof formats)[number];

export interface Column {
  readonly heading: string;
  cell(resource: Resource): unknown;
  /** Decides the colour; the text alone must also distinguish the states. */
  severity?(resource: Resource): Severity;
}
export type Severity = 'good' | 'warn' | 'bad' | undefined;

/** Part of a line: without colour the text alone is printed. */
export type Part = string | { readonly text: string; readonly style: Style | undefined };
export type Line = string | readonly Part[];
type Style = NonNullable<Severity> | 'faint' | 'strong';

const formatOf = { good: 'green', warn: 'yellow', bad: 'red', faint: 'dim', strong: 'bold' } as const;
/** Narrower ones are treated as if they had these. */
const columnsMin = 40;

/** How a kind of resource is printed. */
export interface View {
  readonly columns: readonly Column[];
  /** The id, for `-o name`. */
  name(resource: Resource): unknown;
}

/** A column that shows one member. */
export function column(heading: string, member: string): Column {
  return { heading, cell: (resource) => resource[member] };
}

export class Renderer {
  readonly format: Format;
  readonly #io: Io;
  readonly #colour: boolean;

  /** `colour` false turns it off; otherwise a terminal without NO_COLOR gets it. */
  constructor(io: Io, format: Format, colour: boolean) {
    this.format = format;
    this.#io = io;
    this.#colour = colour && io.stdout.isTTY === true && !io.env['NO_COLOR'];
  }

  /** A list answer. */
  async list(answer: Resource, view: View): Promise<void> {
    const items = resourcesIn(answer, 'items');
    switch (this.format) {
      case 'table':
        return this.#out(this.#table(items, view.columns));
      case 'name':
        return this.#out(items.map((item) => `${cellText(view.name(item))}\n`).join(''));
      case 'jsonl':
        for (const item of items) await this.#out(`${printableJson(item)}\n`);
        return;
      default:
        return this.document(answer);
    }
  }

  /** A single resource: as a table, one line for each member. */
  async resource(resource: Resource, view: Pick<View, 'name'>): Promise<void> {
    if (this.format === 'name') return this.#out(`${cellText(view.name(resource))}\n`);
    if (this.format !== 'table') return this.document(resource);
    const members = Object.entries(resource).flatMap(([member, value]) => flattened(member, value));
    const width = Math.max(0, ...members.map(([member]) => member.length));
    const lines = members.map(
      ([member, value]) => `${printable(member).padEnd(width)}  ${cellText(value)}\n`,
    );
    return this.#out(lines.join(''));
  }

  /** Of the terminal; undefined where it is none. */
  get columns(): number | undefined {
    const { isTTY, columns = 80 } = this.#io.stdout;
    return isTTY === true ? Math.max(columnsMin, columns) : undefined;
  }

  /** Prints `lines` in place of a table; other formats print the document. */
  async lines(lines: readonly Line[], document: Resource, name: unknown): Promise<void> {
    if (this.format === 'name') return this.#out(`${cellText(name)}\n`);
    if (this.format !== 'table') return this.document(document);
    const texts = lines.map((line) => (typeof line === 'string' ? [line] : line));
    return this.#out(texts.map((parts) => `${parts.map((part) => this.#part(part)).join('')}\n`).join(''));
  }

  /** One document in the chosen machine-readable format; JSON if the format is `table`. */
  async document(value: unknown): Promise<void> {
    if (this.format === 'yaml') return this.#out(await yamlText(value));
    return this.#out(`${printableJson(value, this.format === 'jsonl' ? undefined : 2)}\n`);
  }

  #out(text: string): Promise<void> {
    return writeAll(this.#io.stdout, text);
  }

  #table(items: readonly Resource[], columns: readonly Column[]): string {
    const rows = items.map((item) => columns.map(({ cell }) => cellText(cell(item))));
    const headings = columns.map(({ heading }) => heading);
    const widths = headings.map((heading, at) =>
      Math.max(heading.length, ...rows.map((row) => [...(row[at] ?? '')].length)),
    );
    const line = (cells: readonly string[], paint: (text: string, at: number) => string): string =>
      cells
        .map((cell, at) => {
          const last = at === cells.length - 1;
          const padding = last ? 0 : (widths[at] ?? 0) - [...cell].length + 2;
          return paint(cell, at) + ' '.repeat(padding);
        })
        .join('');
    const body = items.map((item, index) =>
      line(rows[index] ?? [], (text, at) => this.#paint(text, columns[at]?.severity?.(item))),
    );
    return [line(headings, (text) => text), ...body].map((text) => `${text}\n`).join('');
  }

  #part(part: Part): string {
    return typeof part === 'string' ? printable(part) : this.#paint(printable(part.text), part.style);
  }

  #paint(text: string, style: Style | undefined): string {
    if (!this.#colour || !style) return text;
    // The constructor has checked the stream that is written to.
    return styleText(formatOf[style], text, { validateStream: false });
  }
}

/** A member of a resource; the members of an object get lines of their own, as `place.kind`. */
function flattened(member: string, value: unknown): (readonly [string, unknown])[] {
  if (value === undefined) return [];
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [[member, value]];
  return Object.entries(value).map(([inner, part]) => [`${member}.${inner}`, part]);
}

/** YAML in which every string with an unsafe character is in double quotes and escaped. */
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
