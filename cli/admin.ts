/** All admin commands: those that call a control plane, and those that read its files. */
import type { Command } from 'commander';
import { registerBackups } from './commands/backups.ts';
import { registerCapacity } from './commands/capacity.ts';
import { registerCatalog } from './commands/catalog.ts';
import { registerConsole } from './commands/console.ts';
import { registerDecisions } from './commands/decisions.ts';
import { registerDoctor } from './commands/doctor.ts';
import { registerEvents } from './commands/events.ts';
import { registerExplain } from './commands/explain.ts';
import { registerFleet } from './commands/fleet.ts';
import { registerGateways } from './commands/gateways.ts';
import { registerKeys } from './commands/keys.ts';
import { registerLimits } from './commands/limits.ts';
import { registerNodes } from './commands/nodes.ts';
import { registerReplay } from './commands/replay.ts';
import { registerSigners } from './commands/signers.ts';
import { registerSnapshots } from './commands/snapshots.ts';
import { registerStatus } from './commands/status.ts';
import { registerTenants } from './commands/tenants.ts';
import { registerUsage } from './commands/usage.ts';
import { type Io, processIo } from './terminal/io.ts';

const families = [
  registerFleet,
  registerTenants,
  registerCatalog,
  registerKeys,
  registerCapacity,
  registerNodes,
  registerGateways,
  registerStatus,
  registerDoctor,
  registerConsole,
  registerEvents,
  registerSigners,
  registerSnapshots,
  registerBackups,
  registerUsage,
  registerLimits,
  registerReplay,
  registerExplain,
  registerDecisions,
];

/** Registers the admin commands. A command that already exists under a noun's name gets that noun's verbs. */
export function registerAdminCommands(program: Command, io: Io = processIo()): void {
  for (const register of families) register(program, io);
}
