/** Function that registers a module's commands. */
import type { Command } from 'commander';
import type { Io } from './terminal/io.ts';

type Register = (program: Command, io: Io) => void;

export interface CommandModule {
  readonly names: readonly string[];
  load(): Promise<Register>;
}
