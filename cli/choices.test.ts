/**
 * Gives each option and operand of each command a value that it does not accept. The value must be refused before anything is
 * sent, and the error must name the option and the accepted values. The cases come from the command tables, so new options
 * are included.
 */
import type { Command, Option } from 'commander';
import { beforeEach, expect, test } from 'vitest';
import { cliOf, errorAnswer, useAdminServer } from '../test/support/admin-server.ts';
import { processCommands } from './program.ts';
import { buildProgram } from './run.ts';
import { processIo } from './terminal/io.ts';
import { commandWords } from './terminal/usage-errors.ts';

const server = useAdminServer();
beforeEach(() => {
  server.answer = () => ({ body: { id: 'x', position: 3 } });
});

const cli = cliOf(server);

function leaves(command: Command): Command[] {
  const isLeaf = command.commands.length === 0 || command.registeredArguments.length > 0;
  return [...(isLeaf ? [command] : []), ...command.commands.flatMap(leaves)];
}
const program = await buildProgram(processIo(), processCommands);
const processes = new Set(['dev', 'control-plane', 'gateway', 'node-agent', 'sim-node', 'help']);
const admin = leaves(program).filter((command) => !processes.has(commandWords(command).join(' ')));

/** An accepted value for each placeholder. */
const samples: Readonly<Record<string, string>> = {
  id: 'x',
  text: 'x',
  org: 'x',
  person: 'x',
  file: '/dev/null',
  url: 'http://127.0.0.1:9',
  place: 'pool',
  n: '1',
  position: '1',
};
const placeholderOf = ({ flags }: Pick<Option, 'flags'>): string => /[<[](.+)[>\]]/.exec(flags)?.[1] ?? '';
const sampleOf = (option: Option): string => option.argChoices?.[0] ?? samples[placeholderOf(option)] ?? 'x';

/** Returns a command line with everything that the command requires, except for one option or operand. */
function lineOf(command: Command, without: string): string[] {
  const operands = command.registeredArguments
    .filter(({ required }) => required)
    .map((operand) => operand.argChoices?.[0] ?? samples[operand.name()] ?? 'x');
  const options = command.options
    .filter(({ mandatory, long }) => mandatory && long !== without)
    .flatMap((option) => [option.long ?? '', sampleOf(option)]);
  return [...commandWords(command), ...operands, ...options];
}

/** Invalid values for each placeholder. */
const wrong: Readonly<Record<string, readonly string[]>> = {
  n: ['-1', '1e3', '0.5', 'zzz', '', '9'.repeat(20)],
  position: ['0', '-1', 'zzz', '9'.repeat(20)],
  moment: ['zzz', '-5', 'yesterday'],
  day: ['2026-02-30', '2026-13-01', 'zzz', '1'],
  time: ['zzz', '-1h', '1y'],
  duration: ['zzz', '-1d', '1s', '400d'],
  place: ['zzz', 'stack:'],
  groups: ['zzz', 'log,zzz', ''],
  list: ['zzz', '0', '70000'],
  '--waves': ['', '0%', '101%', 'one,,all', 'all,one', '50%,10%'],
  '--hold': ['zzz', '-1s', '0s', '8d'],
  '--watch': ['zzz', '', 'errors=0', 'least=x', 'refusals=-1', 'refusals=1=2'],
  '--slower-than': ['zzz', '-1s', '1d', '2'],
  '--wait': ['zzz', '-1s', '2h', '4000s'],
};
/** Placeholders that accept any text, or whose values only the control plane can check. */
const open = new Set([
  ...['id', 'text', 'file', 'folder', 'url', 'name', 'ids', 'field', 'cursor', 'host', 'stack', 'key'],
  'tier',
]);
const openFlags = new Set(['--served <model=name>', '--signer <public-key-file>']);

const ofOptions = [program, ...admin].flatMap((command) =>
  command.options
    .filter(({ flags }) => /[<[]/.test(flags) && !openFlags.has(flags))
    .map((option) => [`${commandWords(command).join(' ')} ${option.flags}`.trim(), command, option] as const),
);

test.each(ofOptions)('%s refuses impossible values by its name', async (_name, of, option) => {
  const placeholder = placeholderOf(option);
  const values = option.argChoices ? ['zzz', ''] : (wrong[option.long ?? ''] ?? wrong[placeholder]);
  if (values === undefined) return expect([...open, 'admin', 'person']).toContain(placeholder);
  const command =
    of === program ? (admin.find((each) => commandWords(each).join(' ') === 'org list') as Command) : of;
  for (const value of option.flags.includes('--tokens ') ? values.filter((each) => each !== '-1') : values) {
    const { code, err, out } = await cli([...lineOf(command, option.long ?? ''), `${option.long}=${value}`]);
    expect([code, out, server.seen], `${value}\n${err}`).toEqual([2, '', []]);
    expect(err).toContain(option.long);
    expect(err).toMatch(/\n {2}next {2}headgate /);
    for (const choice of option.argChoices ?? []) expect(err).toContain(choice);
  }
});

test.each([
  ['stack surface x zzz', ['surface', 'openai, anthropic']],
  ['events show zzz', ['position', 'whole number']],
  ['undo 0', ['position', 'whole number']],
  ['events list --from 9 --to 3', ['--from 9', '--to 3']],
  ['usage export --from 2026-11-20 --to 2026-11-20', ['--from 2026-11-20', '--to 2026-11-20']],
  ['usage export --from 2026-11-21 --to 2026-11-20', ['--from', '--to']],
  ['tier set Pro --rank 1001', ['--rank', '0 to 1000, or none']],
  ['model set m --weight 0', ['--weight', '1 to 1000']],
  ['explain --org a --model m --prompt-tokens none', ['--prompt-tokens', '0 or more']],
])('%s is refused with %j', async (line, texts) => {
  const { code, err } = await cli(line.split(' '));
  expect([code, server.seen]).toEqual([2, []]);
  for (const text of texts) expect(err).toContain(text);
});

test.each([
  ['pool list', 'there are: get, install, uninstall'],
  ['usage list', 'there are: show, adjust, export'],
  ['decisions list', 'there are: export'],
  ['member list acme', 'did you mean headgate member list --org acme?'],
  ['key list --limit 3 acme', 'did you mean headgate key list --org acme?'],
  ['org get acme birch', 'it is: headgate org get <id>'],
  ['node token lst', 'there are: create, revoke, list'],
  ['key revok k', 'Did you mean revoke?'],
  ['orgs list', 'Did you mean org?'],
])('%s: %s', async (line, text) => {
  const { code, err } = await cli(line.split(' '));
  expect([code, server.seen]).toEqual([2, []]);
  expect(err).toContain(text);
  expect(err).toMatch(/\n {2}next {2}headgate help/);
});

test.each([400, 401, 403, 404, 409, 413, 429, 500, 503])(
  'a status %i response without a next step gets one from each command',
  async (status) => {
    server.answer = () => errorAnswer(status, status === 503 ? 'LogUnavailable' : 'Refused');
    for (const words of [
      'org get x',
      'key list',
      'org resume x',
      'gateway get x',
      'usage show --org x',
      'status',
    ]) {
      const { err } = await cli(words.split(' '));
      expect(err, words).toMatch(/\n {2}next {2}\S.{10}/);
    }
    if (status === 404)
      expect((await cli(['key', 'get', 'nope'])).err).toContain('headgate key list shows what exists');
  },
);

test('an option is written the same way in every command that has it', () => {
  const spellings = new Map<string, Map<string, string>>();
  for (const command of admin)
    for (const { long, flags } of command.options) {
      const known = spellings.get(long ?? flags) ?? new Map<string, string>();
      spellings.set(long ?? flags, known.set(flags, commandWords(command).join(' ')));
    }
  /** Options with two meanings, each with its own placeholder. */
  const several = new Set(['--from', '--to', '--data', '--expires']);
  const differing = [...spellings].filter(([long, known]) => known.size > 1 && !several.has(long));
  expect(differing.map(([, known]) => Object.fromEntries(known))).toEqual([]);
  const lists = admin.filter((command) => command.name() === 'list');
  const unbounded = lists.filter((command) => !command.options.some(({ long }) => long === '--limit'));
  expect(unbounded.map((command) => commandWords(command).join(' '))).toEqual([
    'gateway list',
    'change list',
    'signer list',
  ]);
});
