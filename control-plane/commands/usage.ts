/** Adjustments of an organisation's usage by hand: they count against its allowance, and are shown next to what was completed. */
import { bodySchemas, pathSchemas } from '../../schemas/commands.ts';
import { periodOf } from '../../shared/usage/period.ts';
import { findAdjustment } from '../state/tenants.ts';
import { defineCommand } from './definition.ts';
import { needOrganisation } from './preconditions.ts';

const adjustUsage = defineCommand({
  name: 'usage.adjust',
  method: 'POST',
  path: '/organisations/:id/usage-adjustments',
  summary: 'Add tokens to the usage of the present period; a negative number gives allowance back',
  params: pathSchemas.id,
  body: bodySchemas.adjustUsage,
  roles: 'operator',
  decide: (db, { params: { id }, body: { tokens } }, { nowMs }) => {
    const { anchor } = needOrganisation(db, id);
    const period = periodOf(anchor, nowMs).start;
    if (tokens === 0) return { events: [] };
    return { events: [{ type: 'usage.adjusted', data: { organisation: id, period, tokens } }] };
  },
  show: (db, { params: { id } }, _subject, nowMs) => {
    const { anchor } = needOrganisation(db, id);
    const period = periodOf(anchor, nowMs).start;
    return { organisation: id, period, adjustedTokens: findAdjustment(db, id, period) };
  },
});

export const usageCommands = [adjustUsage];
