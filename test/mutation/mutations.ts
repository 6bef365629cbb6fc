/**
 * Parses the mutations in `rules/*.diff`. Each mutation breaks one rule of one module, and at least one test in the files
 * named with it must fail. A diff file begins with a sentence about itself, followed by any number of sections:
 *
 *   --- path of the module, from the root of the project
 *   by path of a test file (missing in `golden.diff`, because the golden decisions must notice its mutations)
 *   @@ the rule that the change breaks, in the words of the design @@ only tests whose names contain this are run
 *   -text to replace, which the module must contain exactly once
 *   +the replacement
 *
 * A line that ends in a space is written with a backslash after it.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { refusalKinds } from '../../schemas/api/refusals.ts';

export interface Mutation {
  readonly rule: string;
  readonly module: string;
  readonly from: string;
  readonly to: string;
  readonly tests: readonly string[];
  readonly only?: string | undefined;
}

/** Folder of the rule files. They are not compiled, so built code reads them from the source folder. */
const place = import.meta.url.includes('/dist/test/') ? '../../../test/mutation/rules/' : './rules/';
const folder = new URL(place, import.meta.url);
const golden = 'golden.diff';

export function parseMutations(table: string): Mutation[] {
  const [, ...sections] = table.split(/^--- /m);
  return sections.flatMap((section) => {
    const [head = '', ...rules] = section.split(/^@@ /m);
    const [module = '', ...named] = head.trim().split('\n');
    const tests = named.map((line) => line.replace(/^by /, ''));
    return rules.map((text) => {
      const [title = '', ...lines] = text.trimEnd().split('\n');
      const [rule = '', only] = title.split(' @@ ');
      const odd = lines.find((line) => !/^[-+]/.test(line));
      if (odd !== undefined) throw new Error(`${module}: ${rule}: "${odd}" has no sign`);
      return { rule, module, from: sideOf(lines, '-'), to: sideOf(lines, '+'), tests, only };
    });
  });
}

function sideOf(lines: readonly string[], sign: '-' | '+'): string {
  const own = lines.filter((line) => line.startsWith(sign));
  return own.map((line) => line.slice(1).replace(/\\$/, '')).join('\n');
}

/** Replaces the text. Throws if the source does not contain it exactly once. */
export function mutate(source: string, { rule, module, from, to }: Omit<Mutation, 'tests'>): string {
  const parts = source.split(from);
  if (parts.length !== 2)
    throw new Error(`${module}: "${from}" stands there ${parts.length - 1} times, not once (${rule})`);
  return parts.join(to);
}

const read = (name: string): Mutation[] => parseMutations(readFileSync(new URL(name, folder), 'utf8'));

/** Returns the mutations of modules that the golden decisions do not reach. */
export function suiteMutations(): Mutation[] {
  return readdirSync(folder)
    .filter((name) => name !== golden)
    .flatMap(read);
}

/**
 * Returns the mutations that the golden decisions must notice: those in the file, and a wrong status for each kind of
 * refusal.
 */
export function goldenMutations(): Mutation[] {
  const { PayloadTooLargeError: _, InternalError: __, ...decided } = refusalKinds;
  const statuses = Object.entries(decided).map(([type, { status }]) => ({
    ...{ rule: `registry: the status of ${type}`, module: 'schemas/api/refusals.ts', tests: [] },
    from: `${type}: { status: ${status}`,
    to: `${type}: { status: ${status + 1}`,
  }));
  return [...read(golden), ...statuses];
}
