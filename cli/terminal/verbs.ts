/** Builds nouns and verbs, so that the help of each one starts with examples and all actions are declared in the same way. */
import { type Command, Option } from 'commander';
import { withExamples } from './examples.ts';
import type { Io } from './io.ts';
import { action, type Work } from './session.ts';

/** Headings of the groups of commands in `headgate help`. Each is a question that the commands of its group answer. */
export const groups = {
  deployed: 'What is deployed?',
  healthy: 'Is it healthy?',
  past: 'What happened?',
} as const;

/** A noun, such as `key`, which groups verbs and does nothing by itself. */
export interface Noun {
  readonly command: Command;
  verb(signature: string, summary: string, ...examples: string[]): Verb;
}
/** A verb of a noun. Declare its options first, and its `action` last. */
export interface Verb {
  readonly command: Command;
  option(flags: string, summary: string, parse?: (text: string) => unknown): Verb;
  required(flags: string, summary: string, parse?: (text: string) => unknown): Verb;
  /** Adds an option with a fixed set of values. Any other value is refused with a list of the allowed ones. */
  choice(flags: string, summary: string, values: readonly string[], isRequired?: boolean): Verb;
  /** Restricts an operand to these values, or to texts that the function can parse. The text is passed on unchanged. */
  operand(name: string, allowed: readonly string[] | ((text: string) => unknown)): Verb;
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
  return { command, verb: (signature, text, ...examples) => verb(command, io, signature, text, examples) };
}

/** Lets a process and a noun share a name (`gateway`). The process's mandatory options do not apply to the noun's verbs. */
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
    required: (flags, text, parse) => {
      if (parse) command.requiredOption(flags, text, parse);
      else command.requiredOption(flags, text);
      return self;
    },
    choice: (flags, text, values, isRequired = false) => {
      command.addOption(new Option(flags, text).choices(values).makeOptionMandatory(isRequired));
      return self;
    },
    operand: (name, allowed) => {
      const found = command.registeredArguments.find((argument) => argument.name() === name);
      if (typeof allowed !== 'function') found?.choices(allowed);
      else
        found?.argParser((text) => {
          allowed(text);
          return text;
        });
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
