/**
 * Runs one command line: builds the program, parses the arguments and maps every outcome to an exit code. A failure
 * prints four lines on stderr. Never ends the process itself: a command that started a server leaves it running.
 */
import { Command, CommanderError, Option } from 'commander';
import { version } from '../shared/runtime/version.ts';
import { registerAdminCommands } from './admin.ts';
import {
  CliError,
  Exit,
  type ExitCode,
  errorText,
  exitCodes,
  toCliError,
  usageError,
} from './terminal/errors.ts';
import { type Io, processIo } from './terminal/io.ts';
import { commandId, moment, position } from './terminal/options.ts';
import { formats } from './terminal/render.ts';
import { withExamples } from './terminal/verbs.ts';

/**
 * Parses and runs `argv` (without the interpreter and the script) and returns the exit code. `extras` registers further
 * commands before the admin commands.
 */
export async function main(
  argv: readonly string[],
  extras: (program: Command) => void = () => undefined,
  io: Io = processIo(),
): Promise<ExitCode> {
  try {
    const program = buildProgram(io);
    extras(program);
    registerAdminCommands(program, io);
    await program.parseAsync(normaliseWaitFlag(argv), { from: 'user' });
    return 0;
  } catch (thrown) {
    return report(io, thrown);
  }
}

function buildProgram(io: Io): Command {
  const program = new Command('headgate')
    .description('A multi-tenant inference gateway: its processes and its admin commands.')
    .version(version(), '-V, --version', 'print the version')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      // Failures are printed once, in four lines, by report().
      outputError: () => undefined,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .addOption(new Option('-o, --output <format>', 'output format').choices([...formats]))
    .option('--at <moment>', 'read the state as of a log position, a time, or a time ago such as 10m', moment)
    .option('--if-at <position>', 'fail unless the log is at this position', position)
    .option('-y, --yes', 'do not ask for confirmation')
    .option('--dry-run', 'validate a command and print its result without changing anything')
    .option('--command-id <id>', 'repeat the command of this id, whose outcome was unknown', commandId)
    .option('--why <text>', 'reason for the change, recorded in the log')
    .option('--as <person>', 'act as this member, with the rights of their role')
    .option('--force', 'override a safety check (a guard)')
    .option('-q, --quiet', 'no hints or progress on stderr')
    .option('--no-color', 'no colour (also: NO_COLOR)')
    .option('--admin <url>', 'address of the control plane (env: HEADGATE_ADMIN)')
    .option('--token-file <file>', 'file with the operator token, - for stdin (env: HEADGATE_TOKEN)');
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
        if (!found) throw usageError(`there is no command ${names.join(' ')}`);
        command = found;
      }
      command.outputHelp();
    });
}

/** In `--wait KEY` commander would take the key as the duration: only a duration may follow `--wait` as an argument. */
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

function report(io: Io, thrown: unknown): ExitCode {
  if (thrown instanceof Exit) return thrown.exitCode;
  // A noun without a verb: commander has printed its help on stderr.
  if (thrown instanceof CommanderError && thrown.code === 'commander.help')
    return thrown.exitCode === 0 ? 0 : 2;
  const error = thrown instanceof CommanderError ? usageOf(thrown) : toCliError(thrown);
  if (!error) return 0;
  io.stderr.write(errorText(error));
  return error.exitCode;
}

/** Commander's failures are usage errors; help and version end it with exit code 0 and are no failure. */
function usageOf(error: CommanderError): CliError | undefined {
  if (error.exitCode === 0) return undefined;
  const [message = '', ...rest] = error.message.replace(/^error: /, '').split('\n');
  const hint = rest.join(' ').trim();
  return new CliError(message, {
    type: 'Usage',
    exitCode: 2,
    why: hint === '' ? [] : [hint],
    next: 'headgate help, or the command with --help',
  });
}
