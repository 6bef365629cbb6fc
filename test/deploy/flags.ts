/** Checks that the CLI reads the flags and variables of a deployment file and accepts their values. */
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { controlPlaneCommand } from '../../cli/processes/control-plane.ts';
import { gatewayCommand } from '../../cli/processes/gateway.ts';
import { nodeAgentCommand } from '../../cli/processes/node-agent.ts';
import { simNodeCommand } from '../../cli/processes/sim-node.ts';

const registers: Readonly<Record<string, (program: Command) => void>> = {
  'control-plane': controlPlaneCommand,
  gateway: gatewayCommand,
  'node-agent': nodeAgentCommand,
  'sim-node': simNodeCommand,
};

const root = resolve(import.meta.dirname, '../..');

/** Variables that the source files read by name instead of as an option. */
const read = new Set(
  ['cli/processes', 'shared', 'data-plane', 'control-plane', 'agent'].flatMap((room) =>
    readdirSync(join(root, room), { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
      .flatMap((path) => readFileSync(join(root, room, path), 'utf8').match(/HEADGATE_[A-Z_]+/g) ?? []),
  ),
);
/** Variables that Node.js reads, not Headgate. */
const foreign = new Set(['NODE_EXTRA_CA_CERTS', 'NODE_OPTIONS']);

/** Returns the variables of a command's options. An option without `envVar` names its variable in its description. */
const variablesOf = (command: Command): string[] =>
  command.options.flatMap(({ envVar, description }) => envVar ?? /env: (\w+)=/.exec(description)?.[1] ?? []);

/**
 * Returns the options with which the process would start. Throws if it would refuse to start, or if it would ignore a
 * variable.
 */
export function checkFlags(
  [kind = '', ...words]: readonly string[],
  env: Readonly<Record<string, string>>,
): Readonly<Record<string, unknown>> {
  const before = { ...process.env };
  for (const name of Object.keys(process.env)) if (name.startsWith('HEADGATE_')) delete process.env[name];
  Object.assign(process.env, env);
  try {
    const program = new Command().exitOverride();
    const register = registers[kind];
    if (!register) throw new Error(`headgate has no process ${kind}`);
    register(program);
    const command = program.commands.find((one) => one.name() === kind);
    if (!command) throw new Error(`${kind} is not registered`);
    command.exitOverride().configureOutput({ writeErr: () => undefined });
    command.action(() => undefined);
    program.parse(['node', 'headgate', kind, ...words]);
    const own = new Set(variablesOf(command));
    const anyOption = new Set(
      Object.values(registers).flatMap((each) => {
        const other = new Command();
        each(other);
        return other.commands.flatMap(variablesOf);
      }),
    );
    // A secret may also be provided in a file that a `…_FILE` variable names.
    const given = Object.keys(env).map((name) => name.replace(/_(TOKEN|PASSWORD)_FILE$/, '_$1'));
    const unread = given.filter(
      (name) => !own.has(name) && !foreign.has(name) && (anyOption.has(name) || !read.has(name)),
    );
    if (unread.length > 0) throw new Error(`${kind} does not read ${unread.join(', ')}`);
    return command.opts();
  } finally {
    for (const name of Object.keys(process.env)) delete process.env[name];
    Object.assign(process.env, before);
  }
}
