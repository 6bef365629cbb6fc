/**
 * Runs one command line: builds the program, parses, and turns every outcome into an exit code and, where it failed, four
 * lines on stderr. Never ends the process itself: a command that started something leaves it running.
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
import { position } from './terminal/options.ts';
import { formats } from './terminal/render.ts';
import { withExamples } from './terminal/verbs.ts';

/**
 * Parses and runs; gives the exit code. `argv` is without the interpreter and the script. `extras` adds commands of its
 * own before the admin commands are added.
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
    .description('A multi-tenant inference gateway: its processes, and the commands to run it.')
    .version(version(), '-V, --version', 'print the version')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      // Said again, in four lines, where all failures are.
      outputError: () => undefined,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .addOption(new Option('-o, --output <format>', 'how results are shown').choices([...formats]))
    .option('--at <position>', 'read the state as of this position', position)
    .option('--if-at <position>', 'refuse where the log is not at this position', position)
    .option('-y, --yes', 'do not ask before something is destroyed')
    .option('--dry-run', 'check a command and show its outcome, without changing anything')
    .option('--why <text>', 'the reason, kept in the log')
    .option('--as <person>', 'act as this member, within the role')
    .option('--force', 'pass a guard')
    .option('-q, --quiet', 'no hints or progress on stderr')
    .option('--no-color', 'no colour, as with NO_COLOR')
    .option('--admin <url>', 'address of the control plane, as HEADGATE_ADMIN')
    .option('--token-file <file>', 'file with the operator token, - for stdin; or set HEADGATE_TOKEN');
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
    .command('help [words...]')
    .description('help on a command, or on exit-codes')
    .action((words: string[]) => {
      if (words[0] === 'exit-codes') {
        const lines = Object.entries(exitCodes).map(([code, meaning]) => `${code.padEnd(5)}${meaning}\n`);
        io.stdout.write(`CODE MEANING\n${lines.join('')}`);
        return;
      }
      let command = program;
      for (const word of words) {
        const found = command.commands.find((known) => known.name() === word);
        if (!found) throw usageError(`there is no command ${words.join(' ')}`);
        command = found;
      }
      command.outputHelp();
    });
}

/** `--wait KEY` must not take the key for its duration: only a duration may follow it in a word of its own. */
function normaliseWaitFlag(argv: readonly string[]): string[] {
  return argv.flatMap((word, at) => {
    if (argv[at - 1] === '--wait' && isDuration(word)) return [];
    if (word !== '--wait') return [word];
    const next = argv[at + 1];
    return [`--wait=${next !== undefined && isDuration(next) ? next : '75s'}`];
  });
}

function isDuration(word: string): boolean {
  return /^\d+(?:\.\d+)?(?:ms|s|m)?$/.test(word);
}

function report(io: Io, thrown: unknown): ExitCode {
  if (thrown instanceof Exit) return thrown.exitCode;
  // A noun without its verb: its help is on stderr by now.
  if (thrown instanceof CommanderError && thrown.code === 'commander.help')
    return thrown.exitCode === 0 ? 0 : 2;
  const error = thrown instanceof CommanderError ? usageOf(thrown) : toCliError(thrown);
  if (!error) return 0;
  io.stderr.write(errorText(error));
  return error.exitCode;
}

/** Commander's failures are wrong uses; what only ended it (help, version) is none. */
function usageOf(error: CommanderError): CliError | undefined {
  if (error.exitCode === 0) return undefined;
  const [message = '', ...rest] = error.message.replace(/^error: /, '').split('\n');
  const hint = rest.join(' ').trim();
  return new CliError(message, {
    type: 'Usage',
    exitCode: 2,
    why: hint === '' ? [] : [hint],
    next: 'headgate help, or --help behind the command',
  });
}
