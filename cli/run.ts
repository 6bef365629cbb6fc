/** Runs one command line and returns its exit code. Never exits the process, because a server may be running in it. */
import { Command, CommanderError, Option } from 'commander';
import { version } from '../shared/runtime/version.ts';
import { adminCommands } from './admin.ts';
import type { CommandModule } from './command-modules.ts';
import { Exit, type ExitCode, errorText, exitCodes, toCliError, usageError } from './terminal/errors.ts';
import { withExamples } from './terminal/examples.ts';
import { type Io, processIo } from './terminal/io.ts';
import { formats, parseCommandId, parseMomentOption, parsePosition } from './terminal/options.ts';
import { findCommand, helpCommand, toUsageError, withNext } from './terminal/usage-errors.ts';

/** Parses and runs `argv`, which excludes the interpreter and the script. Resolves to the exit code. */
export async function main(
  argv: readonly string[],
  processes: readonly CommandModule[] = [],
  io: Io = processIo(),
): Promise<ExitCode> {
  const program = await buildProgram(io, processes, argv);
  try {
    await program.parseAsync(normaliseWaitFlag(argv), { from: 'user' });
    return 0;
  } catch (thrown) {
    if (thrown instanceof Exit) return thrown.exitCode;
    // The command line contains a noun without a verb, and commander has already printed the help.
    if (thrown instanceof CommanderError && thrown.code === 'commander.help')
      return thrown.exitCode === 0 ? 0 : 2;
    if (thrown instanceof CommanderError && thrown.exitCode === 0) return 0;
    const isUsage = thrown instanceof CommanderError;
    const error = isUsage ? toUsageError(thrown, program, argv) : withNext(toCliError(thrown), program, argv);
    io.stderr.write(errorText(error));
    return error.exitCode;
  }
}

/** Builds the program with only the commands that the command line needs. Help and the reference page need all commands. */
export async function buildProgram(
  io: Io,
  processes: readonly CommandModule[] = [],
  argv: readonly string[] = [],
): Promise<Command> {
  const program = emptyProgram(io);
  const isNeeded = neededModules(argv, program, [...processes, ...adminCommands]);
  for (const { load } of processes.filter(isNeeded)) (await load())(program, io);
  // Do not load the admin commands for a process, because they would occupy about ten megabytes while it runs.
  if (startsProcess(program, argv)) return program;
  for (const { load } of adminCommands.filter(isNeeded)) (await load())(program, io);
  return program;
}

/** Returns a filter for the modules that a command line needs: all for help and unknown names, none for --version. */
function neededModules(
  argv: readonly string[],
  program: Command,
  modules: readonly CommandModule[],
): (module: CommandModule) => boolean {
  // The program takes no operands, so the first excess word is a command's name.
  const { command, excess: name } = findCommand(program, argv);
  const isNamed = ({ names }: CommandModule): boolean =>
    command === program && names.some((each) => each === name);
  if (modules.some(isNamed)) return isNamed;
  const isVersion = name === undefined && argv.some((word) => word === '-V' || word === '--version');
  return () => !isVersion;
}

/** Whether the line starts a process, which is the case if it contains only a process's name and options. */
function startsProcess(program: Command, [name, ...words]: readonly string[]): boolean {
  const command = program.commands.find((known) => known.name() === name);
  if (command === undefined || command.options.every(({ envVar }) => envVar === undefined)) return false;
  const options = [...command.options, ...program.options];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? '';
    const option = options.find(({ long, short }) => word === long || word === short);
    if (option === undefined && !/^--[^=]+=/.test(word)) return false;
    if (option?.required) at++;
  }
  return true;
}

function emptyProgram(io: Io): Command {
  const program = new Command('headgate')
    .description('Runs the processes of a multi-tenant inference gateway, and administers them.')
    .version(version(), '-V, --version', 'print the version')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      // Print nothing here, because main() prints each failure once in the format of the CLI.
      outputError: () => undefined,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .addOption(new Option('-o, --output <format>', 'output format').choices([...formats]))
    .option(
      '--at <moment>',
      'show the state at a log position, at a time, or some time ago, such as 10m',
      parseMomentOption,
    )
    .option('--if-at <position>', 'fail unless the log is at this position', parsePosition)
    .option('-y, --yes', 'do not ask for confirmation')
    .option('--dry-run', 'check the command and print its result, but change nothing')
    .option(
      '--effect',
      'show which requests would have a different outcome, but change nothing; exit 1 if there are any',
    )
    .option('--command-id <id>', 'retry the command with this id, whose outcome is unknown', parseCommandId)
    .option('--why <text>', 'reason for the change, recorded in the log')
    .option('--as <person>', 'act as this member, with the rights of their role')
    .option('--force', 'override a guard (a safety check)')
    .option('-q, --quiet', 'print no hints or progress on stderr')
    .option('--no-color', 'print without colour (also: NO_COLOR)')
    .option('--admin <url>', 'address of the control plane (env: HEADGATE_ADMIN)')
    .option(
      '--token-file <file>',
      'file with the operator token, or - for stdin (HEADGATE_TOKEN contains the token itself)',
    );
  withExamples(program, [
    'headgate dev',
    'headgate key list',
    'headgate apply -f fleet.yaml',
    'headgate help key',
  ]);
  registerHelp(program, io);
  return program;
}

function registerHelp(program: Command, io: Io): void {
  program.helpCommand(false);
  program
    .command('help [command...]')
    .description('show help for a command, or for exit-codes')
    .action((names: string[]) => {
      if (names[0] === 'exit-codes') {
        const lines = Object.entries(exitCodes).map(([code, meaning]) => `${code.padEnd(5)}${meaning}\n`);
        io.stdout.write(`CODE MEANING\n${lines.join('')}`);
        return;
      }
      let command = program;
      for (const name of names) {
        const found = command.commands.find((known) => known.name() === name);
        if (!found)
          throw usageError(
            `there is no command ${names.join(' ')}`,
            command === program ? 'headgate help' : helpCommand(command),
          );
        command = found;
      }
      command.outputHelp();
    });
}

/** Rewrites `--wait KEY`, because commander would take KEY as the duration. Only a duration may follow `--wait`. */
function normaliseWaitFlag(argv: readonly string[]): string[] {
  return argv.flatMap((argument, at) => {
    if (argv[at - 1] === '--wait' && isDuration(argument)) return [];
    if (argument !== '--wait') return [argument];
    const next = argv[at + 1];
    return [`--wait=${next !== undefined && isDuration(next) ? next : '75s'}`];
  });
}

function isDuration(argument: string): boolean {
  return /^\d+(?:\.\d+)?(?:ms|s|m)?$/.test(argument);
}
