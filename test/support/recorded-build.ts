/**
 * Copies the built service. In the copy, every function records the name of its file when it is called (`note-calls.mjs`).
 */
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAst } from 'vite';

const root = fileURLToPath(new URL('../..', import.meta.url));
const product = [
  'agent',
  'cli',
  'control-plane',
  'data-plane',
  'schemas',
  'shared',
  'tools/dev',
  'tools/simulator',
];

/** Writes the copy to an empty folder and returns the path of its `headgate` command. */
export function recordedBuild(folder: string): string {
  for (const room of product)
    for (const name of readdirSync(join(root, 'dist', room), { recursive: true, encoding: 'utf8' })) {
      if (!name.endsWith('.js') || name.endsWith('.test.js')) continue;
      const path = join(room, name);
      const target = join(folder, 'dist', path);
      mkdirSync(dirname(target), { recursive: true });
      const source = readFileSync(join(root, 'dist', path), 'utf8');
      writeFileSync(target, recorded(source, path.replace(/js$/, 'ts')));
    }
  cpSync(join(root, 'package.json'), join(folder, 'package.json'));
  for (const name of ['node_modules', 'dist/console', 'dist/play'])
    symlinkSync(join(root, name), join(folder, name));
  return join(folder, 'dist/cli/headgate.js');
}

/** Inserts a recording call at the beginning of every function. */
function recorded(source: string, path: string): string {
  const call = `__called(${JSON.stringify(path)})`;
  const insertions: { readonly at: number; readonly text: string }[] = [];
  visit(parseAst(source), (body) => {
    if (body.type === 'BlockStatement') insertions.push({ at: body.start + 1, text: `${call};` });
    else insertions.push({ at: body.start, text: `(${call},` }, { at: body.end, text: ')' });
  });
  return insertions
    .sort((a, b) => b.at - a.at)
    .reduce((text, { at, text: own }) => text.slice(0, at) + own + text.slice(at), source);
}

/** A node of the ESTree syntax tree. */
interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
}

/** Calls `onFunction` with the body of every function in the syntax tree below this value. */
function visit(value: unknown, onFunction: (body: Node) => void): void {
  if (typeof value !== 'object' || value === null) return;
  const { type = '', body } = value as { readonly type?: unknown; readonly body?: Node };
  if (String(type).includes('Function') && body) onFunction(body);
  for (const child of Object.values(value)) visit(child, onFunction);
}
