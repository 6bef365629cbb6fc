/**
 * Deciders for organisations and their members. Removing an organisation removes all that hangs on it, which the guard
 * counts; removing a person revokes none of the keys they made (Authentication 6).
 */
import { bodySchemas, pathSchemas } from '../../schemas/commands.ts';
import type { KnownEvent } from '../../schemas/events.ts';
import { CommandError } from '../core/command-error.ts';
import { findMember, findOrganisation } from '../state/tenants.ts';
import { managingRoles } from './authorise.ts';
import { defineCommand } from './definition.ts';
import { needFree, needOrganisation, needTier, sameData } from './preconditions.ts';

/** The UTC day of a moment, `YYYY-MM-DD`. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

const createOrganisation = defineCommand({
  name: 'organisation.create',
  method: 'POST',
  path: '/organisations',
  summary: 'Create an organisation; without a tier it has no inference entitlement',
  params: pathSchemas.none,
  body: bodySchemas.createOrganisation,
  roles: 'operator',
  decide: (db, { body: { id, name, tier = null, anchor } }, { nowMs }) => {
    needFree(findOrganisation(db, id), 'organisation', id);
    if (tier !== null) needTier(db, tier);
    return {
      events: [{ type: 'organisation.set', data: { id, name, tier, anchor: anchor ?? dayOf(nowMs) } }],
    };
  },
  show: (db, { body: { id } }) => findOrganisation(db, id) ?? { id },
});

const updateOrganisation = defineCommand({
  name: 'organisation.update',
  method: 'PATCH',
  path: '/organisations/:id',
  summary: 'Rename an organisation, put it on another tier, move its billing period, suspend or resume it',
  params: pathSchemas.id,
  body: bodySchemas.updateOrganisation,
  roles: 'operator',
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
});

const removeOrganisation = defineCommand({
  name: 'organisation.delete',
  method: 'DELETE',
  path: '/organisations/:id',
  summary: 'Remove an organisation with its members, keys, stacks and nodes',
  params: pathSchemas.id,
  body: undefined,
  roles: 'operator',
  decide: (db, { params: { id } }) => {
    needOrganisation(db, id);
    return { events: [{ type: 'organisation.removed', data: { id } }] };
  },
  show: (_db, { params: { id } }) => ({ id }),
});

const setMember = defineCommand({
  name: 'member.set',
  method: 'PUT',
  path: '/organisations/:id/members/:person',
  summary: 'Give a person a role in an organisation',
  params: pathSchemas.member,
  body: bodySchemas.setMember,
  roles: managingRoles,
  organisationOf: (db, { params: { id } }) => findOrganisation(db, id)?.id,
  decide: (db, { params: { id: organisation, person }, body: { role } }) => {
    needOrganisation(db, organisation);
    if (findMember(db, organisation, person)?.role === role) return { events: [] };
    return { events: [{ type: 'member.set', data: { organisation, person, role } }] };
  },
  show: (db, { params: { id: organisation, person } }) =>
    findMember(db, organisation, person) ?? { organisation, person },
});

const removeMember = defineCommand({
  name: 'member.remove',
  method: 'DELETE',
  path: '/organisations/:id/members/:person',
  summary: 'Take a person out of an organisation; the keys they made stay as they are',
  params: pathSchemas.member,
  body: undefined,
  roles: managingRoles,
  organisationOf: (db, { params: { id } }) => findOrganisation(db, id)?.id,
  decide: (db, { params: { id: organisation, person } }) => {
    needOrganisation(db, organisation);
    if (!findMember(db, organisation, person))
      throw new CommandError('NotFound', `${person} is not a member of ${organisation}`);
    return { events: [{ type: 'member.removed', data: { organisation, person } }] };
  },
  show: (_db, { params: { id: organisation, person } }) => ({ organisation, person }),
});

export const organisationCommands = [
  createOrganisation,
  updateOrganisation,
  removeOrganisation,
  setMember,
  removeMember,
];
