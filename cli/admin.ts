/** All admin commands: those that call a control plane, and those that read its files. */
import type { Command } from 'commander';
import { registerBackups } from './commands/backups.ts';
import { pool, stacks } from './commands/capacity.ts';
import { models, tiers } from './commands/catalog.ts';
import { changes } from './commands/changes.ts';
import { registerConsole } from './commands/console.ts';
import { registerDecisions } from './commands/decisions.ts';
import { registerDoctor } from './commands/doctor.ts';
import { registerEffect } from './commands/effect.ts';
import { registerEvents } from './commands/events.ts';
import { registerExplain } from './commands/explain.ts';
import { registerFleet } from './commands/fleet.ts';
import { gateways } from './commands/gateways.ts';
import { keys } from './commands/keys.ts';
import { limits } from './commands/limits.ts';
import { registerLog } from './commands/log.ts';
import { nodes, registerTokens } from './commands/nodes.ts';
import { addNoun, type NounRow } from './commands/operation-verbs.ts';
import { registerReplay } from './commands/replay.ts';
import { registerRequests } from './commands/requests.ts';
import { signers } from './commands/signers.ts';
import { registerSnapshots } from './commands/snapshots.ts';
import { registerStatus } from './commands/status.ts';
import { members, organisations } from './commands/tenants.ts';
import { usage } from './commands/usage.ts';
import { type Io, processIo } from './terminal/io.ts';

type Family = (program: Command, io: Io) => void;
const all =
  (...rows: readonly NounRow[]): Family =>
  (program, io) => {
    for (const row of rows) addNoun(program, io, row);
  };

/** In the order of help. */
const families: readonly Family[] = [
  registerFleet,
  registerEffect,
  all(organisations, members, tiers, models, keys, stacks, pool, nodes, changes),
  registerTokens,
  all(gateways),
  registerStatus,
  registerDoctor,
  registerConsole,
  registerEvents,
  all(signers),
  registerSnapshots,
  registerBackups,
  registerLog,
  all(usage, limits),
  registerReplay,
  registerExplain,
  registerRequests,
  registerDecisions,
];

/** Registers the admin commands. A command that already exists under a noun's name gets that noun's verbs. */
export function registerAdminCommands(program: Command, io: Io = processIo()): void {
  for (const register of families) register(program, io);
}
