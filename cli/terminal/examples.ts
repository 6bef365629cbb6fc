/** Puts examples at the top of a command's help. */
import type { Command } from 'commander';

export function withExamples(command: Command, examples: readonly string[]): Command {
  return command.addHelpText('before', `Examples:\n${examples.map((line) => `  ${line}\n`).join('')}`);
}
