/** A module of the CLI, with the names of its commands and a function that loads it. */
import type { Command } from 'commander';
import type { Io } from './terminal/io.ts';

type Register = (program: Command, io: Io) => void;

export interface CommandModule {
  readonly names: readonly string[];
  load(): Promise<Register>;
}
