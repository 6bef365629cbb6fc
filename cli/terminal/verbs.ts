/**
 * Builds nouns and verbs that all look alike: help that starts with examples, and one way to declare an action.
 */
import type { Command } from 'commander';
import type { Io } from './io.ts';
import { action, type Work } from './session.ts';

/** Under which question of its reader a command stands in `headgate help`. */
export const groups = {
  deployed: 'What is deployed?',
  healthy: 'Is it healthy?',
  past: 'What happened, and can it be proved?',
} as const;

/** A command whose help begins with these lines. */
export function withExamples(command: Command, examples: readonly string[]): Command {
  return command.addHelpText('before', `Examples:\n${examples.map((line) => `  ${line}\n`).join('')}`);
}

/** A noun under the program: it does nothing by itself. */
export interface Noun {
  verb(signature: string, summary: string, ...examples: string[]): Verb;
}
/** A verb: options are added as to any command, `does` comes last. */
export interface Verb {
  readonly command: Command;
  option(flags: string, summary: string, parse?: (text: string) => unknown): Verb;
  required(flags: string, summary: string): Verb;
  repeated(flags: string, summary: string): Verb;
  action<Options>(work: Work<Options>): void;
}

export function noun(
  program: Command,
  io: Io,
  name: string,
  summary: string,
  group: keyof typeof groups,
  example: string,
): Noun {
  const process = program.commands.find((known) => known.name() === name);
  const command = process
    ? withVerbs(process)
    : withExamples(program.command(name).description(summary), [example]).helpGroup(groups[group]);
  return { verb: (signature, text, ...examples) => verb(command, io, signature, text, examples) };
}

/**
 * A process and a noun may share a name (`gateway`). What the process must be given is then asked of the process alone:
 * commander would ask its verbs for it, too.
 */
function withVerbs(process: Command): Command {
  const needed = process.options.filter(({ mandatory }) => mandatory);
  for (const option of needed) option.mandatory = false;
  return process.hook('preAction', (self, acting) => {
    const missing = needed.find((option) => self.getOptionValue(option.attributeName()) === undefined);
    if (self === acting && missing) self.error(`error: required option '${missing.flags}' not specified`);
  });
}

export function verb(
  parent: Command,
  io: Io,
  signature: string,
  summary: string,
  examples: readonly string[],
): Verb {
  const command = withExamples(parent.command(signature).description(summary), examples);
  const self: Verb = {
    command,
    option: (flags, text, parse) => {
      if (parse) command.option(flags, text, parse);
      else command.option(flags, text);
      return self;
    },
    required: (flags, text) => {
      command.requiredOption(flags, text);
      return self;
    },
    repeated: (flags, text) => {
      command.option(flags, text, (value: string, before: string[] = []) => [...before, value]);
      return self;
    },
    action: (work) => {
      command.action(action(io, work));
    },
  };
  return self;
}
