/**
 * Tests that a process does not load code that it never runs. Follows the imports that run when a command starts, which
 * excludes type imports and imports inside functions.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { adminCommands } from '../../cli/admin.ts';
import { processCommands } from '../../cli/program.ts';
import { buildProgram } from '../../cli/run.ts';
import { processIo } from '../../cli/terminal/io.ts';

const root = new URL('../..', import.meta.url).pathname;
const statement = /^(?:import|export)\s(?!type\s)(?:[^;'"=()]*?\sfrom\s)?'([^']+)';/gm;

/** Returns all files and packages that are loaded with the given files before any function runs. */
function loadedWith(...files: readonly string[]): Set<string> {
  const loaded = new Set<string>();
  const add = (path: string): void => {
    if (loaded.has(path)) return;
    loaded.add(path);
    for (const [, from = ''] of readFileSync(join(root, path), 'utf8').matchAll(statement)) {
      if (from.startsWith('.')) add(join(dirname(path), from));
      else if (!from.startsWith('node:')) loaded.add(from);
    }
  };
  for (const file of files) add(file);
  return loaded;
}

const threads = [
  'control-plane/history/history-thread.ts',
  'data-plane/usage/open-usage-worker.ts',
  'data-plane/body-worker/worker.ts',
];
/** Packages that are loaded only once a setting or a request needs them. */
const onUse = [
  'kafkajs',
  'undici',
  'openid-client',
  'yaml',
  '@opentelemetry/api',
  '@opentelemetry/sdk-trace',
];
const ofServers = ['fastify', 'ws', 'pino', 'better-sqlite3', 'prom-client'];
const own = {
  gateway: 'data-plane/main.ts',
  controlPlane: 'control-plane/main.ts',
  console: 'control-plane/console-server/start-console.ts',
  play: 'data-plane/playground/start-play.ts',
};

test.each([
  ['a command line', ['cli/headgate.ts'], ['zod', ...onUse, ...ofServers, ...Object.values(own)]],
  ['gateway', ['cli/processes/gateway.ts', own.gateway], ['fastify', 'ws', own.controlPlane, own.play]],
  ['control-plane', ['cli/processes/control-plane.ts', own.controlPlane], [own.gateway, own.console]],
  ['dev', ['tools/dev/dev.ts', own.controlPlane, own.console], [own.gateway]],
  ['sim-node', ['cli/processes/sim-node.ts', 'tools/simulator/sim-node.ts'], ['fastify', 'better-sqlite3']],
  ['the thread of usage', ['data-plane/usage/worker-entry.ts'], ['prom-client', 'pino', own.gateway]],
  ['the thread of bodies', ['data-plane/body-worker/worker-entry.ts'], ['better-sqlite3', own.gateway]],
  ['the thread of the history', ['control-plane/history/worker-entry.ts'], ['fastify', own.controlPlane]],
  ['the thread of a copy of the state', ['control-plane/state/copy-thread.ts'], ['zod', own.controlPlane]],
])('%s does not load modules that it may never need', (name, files, unneeded) => {
  const loaded = loadedWith(...files);
  const ofThreads = name.startsWith('the thread') ? [] : threads;
  expect([...onUse, ...unneeded, ...ofThreads].filter((each) => loaded.has(each))).toEqual([]);
});

test.each(['keys', 'tenants', 'capacity', 'nodes', 'gateways', 'status', 'events'])(
  'the commands of %s load neither schemas nor a server',
  (module) => {
    const loaded = loadedWith(`cli/commands/${module}.ts`);
    expect(['zod', ...onUse, ...ofServers].filter((each) => loaded.has(each))).toEqual([]);
  },
);

const io = processIo();
// Loads all modules outside the tests, so that no test times out because of it.
const whole = await buildProgram(io, processCommands);
const names = async (line: string): Promise<string[]> => {
  const program = await buildProgram(io, processCommands, line.split(' '));
  return program.commands.map((command) => command.name()).filter((name) => name !== 'help');
};

test('each module registers the commands that the table lists for it', async () => {
  for (const module of [...processCommands, ...adminCommands])
    for (const name of module.names) expect(await names(`${name} --help`)).toEqual(module.names);
});

test('a command loads only its own module, and help or a mistake loads all', async () => {
  const all = [...new Set([...processCommands, ...adminCommands].flatMap((module) => module.names))];
  expect(whole.commands.map((command) => command.name())).toEqual(['help', ...all]);
  expect(await names('--at 5 -o json key list --org dev')).toEqual(['key']);
  expect(await names('--version')).toEqual([]);
  for (const line of ['', 'help', 'help key', 'keys list', '--help', '--at 5'])
    expect([line, await names(line)]).toEqual([line, all]);
});

test('starting a process registers no admin commands', async () => {
  const verbs = async (line: string) => {
    const program = await buildProgram(io, processCommands, line.split(' '));
    return program.commands.some((command) => command.commands.length > 0);
  };
  for (const line of ['gateway', 'gateway --port 1 --name=list --insecure-snapshots', 'dev --no-demo -q'])
    expect([line, await verbs(line)]).toEqual([line, false]);
  for (const line of ['org list', 'gateway list', 'gateway --help', 'gateway --port 1 forget x', 'help', ''])
    expect([line, await verbs(line)]).toEqual([line, true]);
});
