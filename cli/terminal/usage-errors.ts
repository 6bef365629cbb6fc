/** Improves commander's errors. It adds a correction of the command that was typed, and a next step. */
import type { Command, CommanderError } from 'commander';
import { CliError, type ExitCode } from './errors.ts';

export function toUsageError(error: CommanderError, program: Command, argv: readonly string[]): CliError {
  const [message = '', ...rest] = error.message.replace(/^error: /, '').split('\n');
  const hint = rest.join(' ').trim();
  const { command, excess } = findCommand(program, argv);
  const known = suggestCorrection(error.code, command, excess);
  return new CliError(message, {
    type: 'Usage',
    why: [hint, known].filter((text) => text !== ''),
    next: helpCommand(command),
  });
}

/** Adds a next step to an error that has none: a list of what exists, or the help of the command. */
export function withNext(error: CliError, program: Command, argv: readonly string[]): CliError {
  const { type, exitCode, why, cause } = error;
  if (error.next !== undefined || exitCode === 130) return error;
  const next = nextStep(exitCode, findCommand(program, argv).command);
  return new CliError(error.message, { type, exitCode, why, cause, next });
}

function nextStep(exitCode: ExitCode, command: Command): string {
  const list = command.parent?.commands.find((sibling) => sibling.name() === 'list');
  if (exitCode === 3 && list) return `headgate ${commandWords(list).join(' ')} shows what exists`;
  if (exitCode === 4) return 'use the token of an operator, or with --as a member whose role may do this';
  if (exitCode === 1 && isProcess(command))
    return `headgate doctor --pre checks this machine; ${helpCommand(command)}`;
  if (exitCode === 1 || exitCode === 7)
    return 'try again; headgate doctor finds what is wrong, and the log of the control plane has the cause';
  return helpCommand(command);
}

/** Whether the command starts a process, because only the options of such commands have environment variables. */
function isProcess({ options }: Command): boolean {
  return options.some(({ envVar }) => envVar !== undefined);
}

/** Words of a command as a user types them, such as `node token list`. */
export function commandWords(command: Command): string[] {
  const words: string[] = [];
  for (let up: Command | null = command; up?.parent; up = up.parent) words.unshift(up.name());
  return words;
}

export function helpCommand(command: Command): string {
  return ['headgate', 'help', ...commandWords(command)].join(' ');
}

/** Finds the command that the longest prefix of a command line names, and the first word that does not belong to it. */
export function findCommand(
  program: Command,
  argv: readonly string[],
): { readonly command: Command; readonly excess: string | undefined } {
  let command = program;
  const operands: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const word = argv[at] ?? '';
    if (word.startsWith('-')) {
      if (takesValue(command, word)) at++;
      continue;
    }
    const inner = operands.length === 0 ? command.commands.find((each) => each.name() === word) : undefined;
    if (inner) command = inner;
    else operands.push(word);
  }
  return { command, excess: operands[command.registeredArguments.length] };
}

function takesValue(command: Command, word: string): boolean {
  for (let up: Command | null = command; up; up = up.parent)
    for (const option of up.options)
      if (option.long === word || option.short === word) return option.required;
  return false;
}

function suggestCorrection(code: string, command: Command, excess: string | undefined): string {
  if (code === 'commander.unknownCommand') {
    const names = command.commands.map((inner) => inner.name()).filter((name) => name !== 'help');
    return names.length === 0 ? '' : `there are: ${names.join(', ')}`;
  }
  if (code === 'commander.excessArguments') {
    const line = ['headgate', ...commandWords(command)].join(' ');
    const filter = command.options.find(({ long }) => long === '--org');
    if (filter && excess !== undefined) return `did you mean ${line} --org ${excess}?`;
    const operands = command.registeredArguments.map((argument) => `<${argument.name()}>`);
    return `it is: ${[line, ...operands].join(' ')}${command.options.length > 0 ? ' [options]' : ''}`;
  }
  return '';
}
