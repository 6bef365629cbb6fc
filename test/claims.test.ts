/**
 * Checks pages and help texts against the command line. Each command, option, variable, exit code, script and bench that they
 * name must exist, and the reference page must list all that exist.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { processCommands } from '../cli/program.ts';
import { buildProgram } from '../cli/run.ts';
import { exitCodes } from '../cli/terminal/errors.ts';
import { processIo } from '../cli/terminal/io.ts';
import { commandWords } from '../cli/terminal/usage-errors.ts';
import { referenceOf, variables } from './support/cli-reference.ts';

const root = new URL('..', import.meta.url).pathname;
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const filesIn = (folder: string, form: RegExp): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => form.test(name) && !name.includes('node_modules'))
    .map((name) => join(folder, name));

const pages = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  ...filesIn('docs', /\.md$/).filter((path) => path !== 'docs/specification.md'),
];
const program = await buildProgram(processIo(), processCommands);
const all = everyCommand(program);
function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}

/** Returns a page's code, one item per inline span or line of a block. */
function codeOf(text: string): string[] {
  const blocks = [...text.matchAll(/^ *```\w*\n(.*?)^ *```$/gms)].flatMap(([, block = '']) =>
    block.replaceAll('\\\n', ' ').split('\n'),
  );
  const inline = [...text.replace(/^ *```.*?^ *```$/gms, '').matchAll(/`([^`]+)`/g)].map(([, code = '']) =>
    code.replace(/\s+/g, ' '),
  );
  return [...blocks, ...inline];
}

/** Returns the command that a line of code names, or undefined if it names none. */
function namedIn(words: readonly string[]): Command | undefined {
  let command: Command | undefined;
  for (const word of words) {
    const inner: Command | undefined = (command ?? program).commands.find((each) => each.name() === word);
    if (!inner) return command;
    command = inner;
  }
  return command;
}

interface Claim {
  readonly where: string;
  readonly line: string;
  readonly words: readonly string[];
}
const helpTexts = all.map((command) => {
  let text = '';
  command.configureOutput({ writeOut: (part) => (text += part) });
  command.outputHelp();
  return [`help ${commandWords(command).join(' ')}`, text] as const;
});
const claimed: Claim[] = [
  ...pages.flatMap((page) => codeOf(read(page)).map((line) => [page, line] as const)),
  ...helpTexts.flatMap(([where, text]) => text.split('\n').map((line) => [where, line] as const)),
].flatMap(([where, line]) =>
  [
    ...line
      .split('#')[0]!
      .matchAll(/(?<!helm (?:install|upgrade) )(?<=^|[\s;|(:])(?:npx )?headgate ([a-z][^|;>·]*)/g),
  ].map(([, rest = '']) => ({
    where,
    line,
    words: rest.trim().split(/\s+/),
  })),
);

test('every command named on a page or in a help text exists, with its options', () => {
  expect(claimed.length).toBeGreaterThan(200);
  const faults = claimed.flatMap(({ where, line, words }) => {
    const command = namedIn(words);
    if (command === undefined) return [`${where}: ${line}`];
    const known: Command[] = [];
    for (let up: Command | null = command; up; up = up.parent) known.push(up);
    const options = known.flatMap((each) => each.options.flatMap(({ long, short }) => [long, short]));
    const flags = words.flatMap((word) => /^--?[a-z][a-z-]*/.exec(word)?.[0] ?? []);
    return flags
      .filter((flag) => flag !== '--help' && !options.includes(flag))
      .map((flag) => `${where}: ${flag} of headgate ${commandWords(command).join(' ')}`);
  });
  expect(faults).toEqual([]);
});

const foreignFlags = new Set(
  '--all --nightly --tenfold --project --set --reuse-values --from-literal --base --stand-in --ignore-scripts --silent --now --operation --seed'
    .concat(' --nodes --profile --bootstrap-server --topic --update')
    .concat(
      ' --alter --add-config --create --partitions --entity-type --entity-name --add --allow-principal --execute',
    )
    .concat(
      ' --reassignment-json-file --delete --verify --help --trace-gc --single-threaded-gc --semi-space-growth-factor --reranking --sandbox --full --sizes',
    )
    .split(' '),
);

test('every option in a page’s code belongs to the program or to another known program', () => {
  const known = new Set(all.flatMap(({ options }) => options.map(({ long }) => long)));
  const faults = pages.flatMap((page) =>
    codeOf(read(page)).flatMap((line) =>
      [...line.matchAll(/(?<![\w-])--[a-z][a-z-]+/g)]
        .map(([flag]) => flag.replace(/-$/, ''))
        .filter((flag) => !known.has(flag) && !foreignFlags.has(flag))
        .filter((flag) => ![...known].some((each) => line.includes(`${flag}-…`) && each?.startsWith(flag)))
        .map((flag) => `${page}: ${flag} in ${line}`),
    ),
  );
  expect(faults).toEqual([]);
});

const ofOptions = all.flatMap(({ options }) =>
  options.flatMap(
    ({ envVar, description }) => envVar ?? /\(env: (HEADGATE_\w+)=true\)$/.exec(description)?.[1] ?? [],
  ),
);
const inTable = variables.flatMap(([name, meaning]) => [
  name,
  ...(meaning.match(/HEADGATE_\w+_FILE/g) ?? []),
]);
const knownVariables = new Set([...ofOptions, ...inTable]);
const ofTools = /^HEADGATE_(?:TEST_\w+|WRITE_SCHEMAS|SEED|ATTACK_\w+|BUILD_REVISION)$/;

test('every variable named in a page, unit, chart or source is read by a process and is in the reference', () => {
  const texts = [
    ...pages,
    'docker-compose.yml',
    'Dockerfile',
    ...filesIn('deploy', /\.(?:yaml|yml|env|service|tpl|md|json)$/),
    ...['agent', 'cli', 'control-plane', 'data-plane', 'tools/dev', 'tools/simulator', 'shared'].flatMap(
      (folder) => filesIn(folder, /(?<!\.test)\.ts$/),
    ),
  ];
  const faults = texts.flatMap((path) =>
    [...new Set(read(path).match(/HEADGATE_[A-Z][A-Z_]*[A-Z]/g) ?? [])]
      .filter((name) => !ofTools.test(name) && !knownVariables.has(name))
      // Accepts a common prefix of several variables, as in HEADGATE_KAFKA_*.
      .filter((name) => ![...knownVariables].some((known) => known.startsWith(`${name}_`)))
      .map((name) => `${path}: ${name}`),
  );
  expect(faults).toEqual([]);
});

test('every process option has a variable that a page or --help names', () => {
  const processes = program.commands.filter(({ options }) =>
    options.some(({ envVar }) => envVar !== undefined),
  );
  expect(processes.map((command) => command.name())).toEqual([
    'dev',
    'control-plane',
    'gateway',
    'node-agent',
    'sim-node',
  ]);
  const without = processes.flatMap((command) =>
    command.options
      .filter(
        ({ envVar, description }) => envVar === undefined && !/\(env: HEADGATE_\w+=true\)$/.test(description),
      )
      .map(({ long }) => `${command.name()} ${long}`),
  );
  expect(without).toEqual([]);
});

test('every exit code named on a page or in a help text is in the table', () => {
  const texts = [...pages.map((page) => [page, read(page)] as const), ...helpTexts];
  const faults = texts.flatMap(([where, text]) =>
    [...text.matchAll(/\bexit(?:s| code)? (\d{1,3})\b/g)]
      .filter(([, code = '']) => !Object.hasOwn(exitCodes, code))
      .map(([found]) => `${where}: ${found}`),
  );
  expect(faults).toEqual([]);
});

test('every script and bench named on a page exists, and every bench is in the table of docs/performance.md', () => {
  const { scripts, engines } = JSON.parse(read('package.json')) as {
    scripts: Record<string, string>;
    engines: { node: string };
  };
  const benches = readdirSync(join(root, 'tools/bench'))
    .filter((name) => name.endsWith('.ts'))
    .map((name) => name.replace('.ts', ''));
  const faults = pages.flatMap((page) =>
    codeOf(read(page)).flatMap((line) => [
      ...[...line.matchAll(/npm run (?:--silent )?([a-z:-]+)/g)]
        .filter(([, name = '']) => !Object.hasOwn(scripts, name))
        .map(([found]) => `${page}: ${found}`),
      ...[...line.matchAll(/npm run bench -- ([a-z-]+)/g)]
        .filter(([, name = '']) => !benches.includes(name))
        .map(([found]) => `${page}: ${found}`),
    ]),
  );
  expect(faults).toEqual([]);
  const rows = [
    ...read('docs/performance.md')
      .split('## Benches')[1]!
      .matchAll(/^\| `([a-z-]+)` \| \w/gm),
  ];
  expect(rows.map(([, name]) => name).sort()).toEqual(benches.sort());
  const node = engines.node.replace('>=', '');
  const others = pages.flatMap(
    (page) => read(page).match(/Node(?:\.js)?[^.\n]{0,20}? 20\.\d+(?:\.\d+)?/g) ?? [],
  );
  expect(others.length).toBeGreaterThan(2);
  expect(others.filter((text) => !text.endsWith(` ${node}`))).toEqual([]);
});

test('docs/cli.md matches the commands: npm run reference writes it', () => {
  expect(read('docs/cli.md')).toBe(referenceOf(program));
});
