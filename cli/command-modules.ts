/** A module that registers commands, by the first words of the command lines that need it. */
import type { Command } from 'commander';
import type { Io } from './terminal/io.ts';

type Register = (program: Command, io: Io) => void;

export interface CommandModule {
  readonly names: readonly string[];
  load(): Promise<Register>;
}
