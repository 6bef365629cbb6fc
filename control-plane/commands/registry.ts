/** All commands of the admin API. The server's routes, the API description and the tests are generated from this list. */
import type { CommandName } from '../../schemas/admin/admin.ts';
import { changeCommands } from './changes.ts';
import type { CommandDefinition } from './definition.ts';
import { fleetCommands } from './fleet.ts';
import { keyCommands } from './keys.ts';
import { modelCommands } from './models.ts';
import { nodeCommands } from './nodes.ts';
import { organisationCommands } from './organisations.ts';
import { signerCommands } from './signers.ts';
import { stackCommands } from './stacks.ts';
import { tierCommands } from './tiers.ts';
import { usageCommands } from './usage.ts';

export const commandsByName: Readonly<Record<CommandName, CommandDefinition>> = {
  ...organisationCommands,
  ...tierCommands,
  ...modelCommands,
  ...keyCommands,
  ...stackCommands,
  ...nodeCommands,
  ...signerCommands,
  ...usageCommands,
  ...fleetCommands,
  ...changeCommands,
};

export const commands: readonly CommandDefinition[] = Object.values(commandsByName);
