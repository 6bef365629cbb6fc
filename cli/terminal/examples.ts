/** What help begins with. */
import type { Command } from 'commander';

/** Adds examples at the top of a command's help. */
export function withExamples(command: Command, examples: readonly string[]): Command {
  return command.addHelpText('before', `Examples:\n${examples.map((line) => `  ${line}\n`).join('')}`);
}
