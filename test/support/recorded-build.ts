/**
 * A copy of the built service whose functions say that they are called (`note-calls.mjs`): what runs on a road through its processes,
 * and in which order. A function is named by its file and its name, as in `data-plane/request/handle.ts#handle`; before the name of a
 * member stands that of its class or object.
 */
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAst } from 'vite';

const root = fileURLToPath(new URL('../..', import.meta.url));
const product = ['admin-client', 'agent', 'cli', 'control-plane', 'data-plane', 'dev', 'schemas', 'shared'];

/** Writes the copy to an empty folder; gives the path of its command. */
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

/** The source with a call at the begin of each of its functions. */
function recorded(source: string, path: string): string {
  const insertions: { readonly at: number; readonly text: string }[] = [];
  visit(parseAst(source), { name: '', owner: '' }, (body, name) => {
    const call = `__called(${JSON.stringify(`${path}#${name}`)})`;
    if (body.type === 'BlockStatement') insertions.push({ at: body.start + 1, text: `${call};` });
    else insertions.push({ at: body.start, text: `(${call},` }, { at: body.end, text: ')' });
  });
  return insertions
    .sort((a, b) => b.at - a.at)
    .reduce((text, { at, text: own }) => text.slice(0, at) + own + text.slice(at), source);
}

/** A node of the syntax tree, as ESTree has it. */
interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
}
type Members = Readonly<Record<string, unknown>>;

interface Place {
  /** What the node is assigned to, or its key; empty where it has neither. */
  readonly name: string;
  /** The class or object whose member it is. */
  readonly owner: string;
}

function visit(value: unknown, { name, owner }: Place, onFunction: (body: Node, name: string) => void): void {
  if (Array.isArray(value)) {
    for (const each of value) visit(each, { name: '', owner }, onFunction);
    return;
  }
  if (!isNode(value)) return;
  const own = nameOf(value['id']) ?? nameOf(value['key']) ?? name;
  const full = owner === '' || own === '' ? own : `${owner}.${own}`;
  const isFunction = value.type.includes('Function');
  if (isFunction && isNode(value['body'])) onFunction(value['body'], full);
  const isOwner = /^(ObjectExpression|ClassDeclaration|ClassExpression)$/.test(value.type);
  // What a function declares has no owner.
  const inside = isFunction ? '' : isOwner ? full : owner;
  const names = /^(VariableDeclarator|MethodDefinition|Property|PropertyDefinition)$/.test(value.type);
  for (const [member, child] of Object.entries(value))
    visit(child, { name: names && /^(init|value)$/.test(member) ? own : '', owner: inside }, onFunction);
}

function isNode(value: unknown): value is Node & Members {
  return typeof value === 'object' && value !== null && typeof (value as Members)['type'] === 'string';
}

/** Of an identifier, or of a key in quotes. */
function nameOf(node: unknown): string | undefined {
  if (!isNode(node)) return undefined;
  const text = node['name'] ?? node['value'];
  if (typeof text !== 'string') return undefined;
  return node.type === 'PrivateIdentifier' ? `#${text}` : text;
}
