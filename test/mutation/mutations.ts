/**
 * Parses the mutations in `rules/*.diff`. Each breaks one rule of one module, and the tests named with it must notice. A file
 * begins with a sentence about itself, followed by any number of sections:
 *
 *   --- the module, from the root of the project
 *   by a test file, of which at least one test must fail; those in `golden.diff` are noticed by the golden decisions
 *   @@ the rule that the change breaks, in the words of the design @@ only tests whose names contain this are run
 *   -text that stands in the module exactly once, as it stands there
 *   +what replaces it
 *
 * A line of a text that ends in a blank has a backslash behind it.
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

/** The rule files are not compiled, so built code reads them from the sources. */
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

/** Mutations of modules that the golden decisions do not reach. */
export function suiteMutations(): Mutation[] {
  return readdirSync(folder)
    .filter((name) => name !== golden)
    .flatMap(read);
}

/** Mutations that the golden decisions must notice: those in the file, and a wrong status for each decided refusal. */
export function goldenMutations(): Mutation[] {
  const { PayloadTooLargeError: _, InternalError: __, ...decided } = refusalKinds;
  const statuses = Object.entries(decided).map(([type, { status }]) => ({
    ...{ rule: `registry: the status of ${type}`, module: 'schemas/api/refusals.ts', tests: [] },
    from: `${type}: { status: ${status}`,
    to: `${type}: { status: ${status + 1}`,
  }));
  return [...read(golden), ...statuses];
}
