/** Decides commands on organisations and members. Removing a person does not revoke the person's keys (Authentication 6). */
import type { KnownEvent } from '../../schemas/events/events.ts';
import { CommandError } from '../core/command-error.ts';
import { findMember, findOrganisation } from '../state/tenants.ts';
import { defineCommands } from './definition.ts';
import { needFree, needOrganisation, needTier, sameData } from './preconditions.ts';

/** Formats the UTC day of a time as `YYYY-MM-DD`. */
export function formatDay(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

export const organisationCommands = defineCommands({
  'organisation.create': {
    decide: (db, { body: { id, name, tier = null, anchor } }, { nowMs }) => {
      needFree(findOrganisation(db, id), 'organisation', id);
      if (tier !== null) needTier(db, tier);
      return {
        events: [{ type: 'organisation.set', data: { id, name, tier, anchor: anchor ?? formatDay(nowMs) } }],
      };
    },
    show: (db, { body: { id } }) => findOrganisation(db, id) ?? { id },
  },
  'organisation.update': {
    decide: (db, { params: { id }, body }) => {
      const { suspended, ...before } = needOrganisation(db, id);
      const { name = before.name, tier = before.tier, anchor = before.anchor } = body;
      if (tier !== null && tier !== before.tier) needTier(db, tier);
      const after = { id, name, tier, anchor };
      const events: KnownEvent[] = [];
      if (!sameData(before, after)) events.push({ type: 'organisation.set', data: after });
      if (body.suspended !== undefined && body.suspended !== suspended)
        events.push({ type: 'organisation.suspended', data: { id, suspended: body.suspended } });
      return { events };
    },
    show: (db, { params: { id } }) => findOrganisation(db, id) ?? { id },
  },
  'organisation.delete': {
    decide: (db, { params: { id } }) => {
      needOrganisation(db, id);
      return { events: [{ type: 'organisation.removed', data: { id } }] };
    },
    show: (_db, { params: { id } }) => ({ id }),
  },
  'member.set': {
    findOrganisation: (db, { params: { id } }) => findOrganisation(db, id)?.id,
    decide: (db, { params: { id: organisation, person }, body: { role } }) => {
      needOrganisation(db, organisation);
      if (findMember(db, organisation, person)?.role === role) return { events: [] };
      return { events: [{ type: 'member.set', data: { organisation, person, role } }] };
    },
    show: (db, { params: { id: organisation, person } }) =>
      findMember(db, organisation, person) ?? { organisation, person },
  },
  'member.remove': {
    findOrganisation: (db, { params: { id } }) => findOrganisation(db, id)?.id,
    decide: (db, { params: { id: organisation, person } }) => {
      needOrganisation(db, organisation);
      if (!findMember(db, organisation, person))
        throw new CommandError('NotFound', `${person} is not a member of ${organisation}`);
      return { events: [{ type: 'member.removed', data: { organisation, person } }] };
    },
    show: (_db, { params: { id: organisation, person } }) => ({ organisation, person }),
  },
});
