/** Table of the admin commands. Only the module that contains the requested command is imported. */
import type { CommandModule } from './command-modules.ts';
import type { NounRow } from './commands/operation-verbs.ts';

async function nouns(...rows: readonly NounRow[]): ReturnType<CommandModule['load']> {
  const { addNoun } = await import('./commands/operation-verbs.ts');
  return (program, io) => {
    for (const row of rows) addNoun(program, io, row);
  };
}

/** Admin commands in the order in which help lists them. */
export const adminCommands: readonly CommandModule[] = [
  {
    names: ['apply', 'diff', 'undo', 'export', 'validate'],
    load: async () => (await import('./commands/fleet.ts')).registerFleet,
  },
  { names: ['effect'], load: async () => (await import('./commands/effect.ts')).registerEffect },
  {
    names: ['org', 'member'],
    load: async () => {
      const { organisations, members } = await import('./commands/tenants.ts');
      return nouns(organisations, members);
    },
  },
  {
    names: ['tier', 'model'],
    load: async () => {
      const { tiers, models } = await import('./commands/catalog.ts');
      return nouns(tiers, models);
    },
  },
  { names: ['key'], load: async () => nouns((await import('./commands/keys.ts')).keys) },
  {
    names: ['stack', 'pool'],
    load: async () => {
      const { stacks, pool } = await import('./commands/capacity.ts');
      return nouns(stacks, pool);
    },
  },
  { names: ['node'], load: async () => (await import('./commands/nodes.ts')).registerNodes },
  { names: ['change'], load: async () => nouns((await import('./commands/changes.ts')).changes) },
  { names: ['gateway'], load: async () => nouns((await import('./commands/gateways.ts')).gateways) },
  { names: ['status'], load: async () => (await import('./commands/status.ts')).registerStatus },
  { names: ['doctor'], load: async () => (await import('./commands/doctor.ts')).registerDoctor },
  { names: ['console'], load: async () => (await import('./commands/console.ts')).registerConsole },
  { names: ['events'], load: async () => (await import('./commands/events.ts')).registerEvents },
  { names: ['signer'], load: async () => nouns((await import('./commands/signers.ts')).signers) },
  { names: ['snapshot'], load: async () => (await import('./commands/snapshots.ts')).registerSnapshots },
  { names: ['backup'], load: async () => (await import('./commands/backups.ts')).registerBackups },
  { names: ['usage'], load: async () => nouns((await import('./commands/usage.ts')).usage) },
  { names: ['limits'], load: async () => nouns((await import('./commands/limits.ts')).limits) },
  { names: ['replay'], load: async () => (await import('./commands/replay.ts')).registerReplay },
  { names: ['explain'], load: async () => (await import('./commands/explain.ts')).registerExplain },
  { names: ['requests'], load: async () => (await import('./commands/requests.ts')).registerRequests },
  { names: ['decisions'], load: async () => (await import('./commands/decisions.ts')).registerDecisions },
];
