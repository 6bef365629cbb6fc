/** `headgate effect` shows which requests would be answered differently if a fleet file were applied. */
import type { Command } from 'commander';
import { showEffect } from '../terminal/effect-lines.ts';
import { Exit } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import { groups, verb } from '../terminal/verbs.ts';
import { avoidExitOne, type FleetFileOptions, readFleet } from './fleet.ts';

export function registerEffect(program: Command, io: Io): void {
  const command = verb(
    program,
    io,
    'effect',
    'show which requests would have a different outcome after apply; exit 1 if there are any. Other commands have the option --effect',
    ['headgate effect -f fleet.yaml', 'headgate tier set Starter --models echo-large --effect'],
  )
    .required('-f, --file <file>', 'fleet file, or - for stdin')
    .option('--prune', 'show the effect of apply --prune');
  command.command.helpGroup(groups.deployed);
  command.action<FleetFileOptions>(async (session, { file, prune }) => {
    try {
      const fleet = await readFleet(session, file);
      const api = await session.api();
      const answer = await api.run('effect.get', { fleet, ...(prune && { prune }) }, 60_000);
      if (!(await showEffect(session.out, answer))) return;
    } catch (error) {
      throw avoidExitOne(error);
    }
    throw new Exit(1);
  });
}
