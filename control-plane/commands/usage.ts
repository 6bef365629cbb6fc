/**
 * Decides manual adjustments of an organisation's usage. They count against its allowance and are shown next to its usage.
 */
import { billingPeriod } from '../../shared/usage/period.ts';
import { findAdjustment } from '../state/tenants.ts';
import { defineCommands } from './definition.ts';
import { needOrganisation } from './preconditions.ts';

export const usageCommands = defineCommands({
  'usage.adjust': {
    decide: (db, { params: { id }, body: { tokens } }, { nowMs }) => {
      const { anchor } = needOrganisation(db, id);
      const period = billingPeriod(anchor, nowMs).start;
      if (tokens === 0) return { events: [] };
      return { events: [{ type: 'usage.adjusted', data: { organisation: id, period, tokens } }] };
    },
    show: (db, { params: { id } }, _subject, nowMs) => {
      const { anchor } = needOrganisation(db, id);
      const period = billingPeriod(anchor, nowMs).start;
      return { organisation: id, period, adjustedTokens: findAdjustment(db, id, period) };
    },
  },
});
