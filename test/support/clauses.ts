/**
 * Lists the clauses of the specification and the clauses that tests cite. Clauses have names such as `Errors 7` (chapter and
 * number), `Routing rule 4` (list and position) or `Endpoints 1` (table and row). A test's name begins with the clauses that
 * it tests: `Errors 6, Routing rule 4: …`.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Names that citations use for a chapter's lists. A chapter with a list of a kind that has no name here is an error. */
interface ChapterLists {
  readonly numbered?: string;
  readonly bullets?: string;
  readonly rows?: string;
  /** Name of the clause if the chapter consists of plain text, which is one clause. */
  readonly whole?: string;
}

const chapters: Readonly<Record<string, ChapterLists>> = {
  'What the service does': { numbered: 'What the service does' },
  'Routing algorithm (shared host)': { numbered: 'Routing algorithm', bullets: 'Routing rule' },
  Stack: { bullets: 'Stack' },
  'API key': { bullets: 'API key' },
  'Model listing entry': { bullets: 'Model listing entry' },
  'Error envelope': { whole: 'Error envelope' },
  'States and transitions': { bullets: 'States' },
  Endpoints: { rows: 'Endpoints', bullets: 'Endpoints rule' },
  Authentication: { numbered: 'Authentication' },
  Events: { whole: 'Stream behaviour' },
  Errors: { numbered: 'Errors', bullets: 'Errors further rule' },
  Limits: { numbered: 'Limits' },
  Versioning: { whole: 'Versioning' },
};

/**
 * Returns every clause of the specification with its text. Throws if a chapter contains a list that has no name in
 * `chapters`.
 */
export function clausesOf(specification: string): Map<string, string> {
  const clauses = new Map<string, string>();
  let chapter = '';
  let rows = 0;
  let bullets = 0;
  for (const line of specification.split('\n')) {
    const heading = /^##+ (.+)$/.exec(line)?.[1];
    if (heading !== undefined) {
      chapter = heading;
      rows = -1;
      bullets = 0;
      continue;
    }
    const lists = chapters[chapter] ?? {};
    const [, number, sentence = ''] = /^(\d+)\. (.+)$/.exec(line) ?? [];
    const bullet = /^- (.+)$/.exec(line)?.[1];
    const row = /^\| (?!-)(.+)$/.exec(line)?.[1];
    if (number !== undefined) clauses.set(`${named(lists.numbered, chapter)} ${number}`, sentence);
    else if (bullet !== undefined) clauses.set(`${named(lists.bullets, chapter)} ${++bullets}`, bullet);
    else if (row !== undefined && lists.rows !== undefined) {
      // Does not count the first row, which is the table's header.
      rows++;
      if (rows > 0) clauses.set(`${lists.rows} ${rows}`, row);
    } else if (lists.whole !== undefined && line !== '')
      clauses.set(lists.whole, `${clauses.get(lists.whole) ?? ''}${line}\n`);
  }
  return clauses;
}

function named(name: string | undefined, chapter: string): string {
  if (name === undefined) throw new Error(`the chapter "${chapter}" has a list that no citation names`);
  return name;
}

export interface Citation {
  readonly clause: string;
  readonly file: string;
  readonly name: string;
}

/** Returns the names of the tests in a source file: the first string passed to `test`, `it`, or their table forms. */
export function testNames(source: string): string[] {
  const call =
    /(?:\b(?:test|it)(?:\.(?:concurrent|sequential|fails))*|[\])`])\(\s*(?:'((?:[^'\\\n]|\\.)+)'|"((?:[^"\\\n]|\\.)+)"|`((?:[^`\\]|\\.)+)`)\s*,/g;
  return [...source.matchAll(call)].map(([, single, double, template]) => single ?? double ?? template ?? '');
}

/** Returns the clauses that a test's name cites. Empty if the name does not begin with a citation. */
export function citationsIn(name: string): string[] {
  const head = /^([A-Z][A-Za-z ]*(?: \d+)?(?:, [A-Z][A-Za-z ]*(?: \d+)?)*): /.exec(name)?.[1];
  const parts = head?.split(', ') ?? [];
  const isCitation = parts.some((part) => / \d+$/.test(part) || wholes.has(part));
  return isCitation ? parts : [];
}
const wholes = new Set(Object.values(chapters).map(({ whole }) => whole));

export function citationsUnder(root: string): Citation[] {
  return testFiles(root).flatMap((file) =>
    testNames(readFileSync(file, 'utf8')).flatMap((name) =>
      citationsIn(name).map((clause) => ({ clause, file, name })),
    ),
  );
}

function testFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.name.startsWith('.') || entry.name === 'node_modules' || entry.name === 'dist') return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return testFiles(path);
    return entry.name.endsWith('.test.ts') ? [path] : [];
  });
}
