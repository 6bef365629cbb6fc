/** The decider that applies a fleet document: all its changes in one commit, or none. */
import { bodySchemas, pathSchemas } from '../../schemas/commands.ts';
import { defineCommand } from './definition.ts';
import { diffFleet } from './fleet-diff.ts';

export const applyFleet = defineCommand({
  name: 'fleet.apply',
  method: 'POST',
  path: '/fleet/apply',
  summary: 'Make the fleet as a fleet file says; removes nothing unless pruning is asked for',
  params: pathSchemas.none,
  body: bodySchemas.applyFleet,
  roles: 'operator',
  decide: (db, { body: { fleet, prune } }, { nowMs }) => {
    const { events, changes } = diffFleet(db, fleet, { prune, nowMs });
    return { events, extra: { changes } };
  },
  show: () => ({ changes: [] }),
});
