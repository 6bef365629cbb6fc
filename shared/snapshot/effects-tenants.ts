/** Effects of events about tiers, visitors, fleet bounds, models, organisations, members, keys and usage adjustments. */
import type { Database } from '../runtime/sqlite.ts';
import { moment, present, readColumn } from '../runtime/statements.ts';
import {
  anonymousTier,
  type EventEffects,
  formatMoment,
  type Inverse,
  inverse,
  removeAll,
  rowSource,
  undo,
} from './effect.ts';
import { removeNode, removeStack } from './effects-capacity.ts';
import type { TableViews } from './table.ts';
import type { RowOf } from './tables.ts';

function setTierModels(tables: TableViews, tier: string, models: '*' | readonly string[]): undefined {
  removeAll(tables.tier_model.where('tier', tier), (row) => tables.tier_model.remove(row));
  for (const model of models === '*' ? ['*'] : models) tables.tier_model.put({ tier, model });
}

/** Removes an organisation and all its rows, so that a later organisation with the same id does not inherit its keys. */
function removeOrganisation(tables: TableViews, organisation: RowOf<'organisation'>): undefined {
  const { id } = organisation;
  removeAll(tables.member.where('organisation', id), (row) => tables.member.remove(row));
  removeAll(tables.api_key.where('organisation', id), (row) => tables.api_key.remove(row));
  removeAll(tables.stack.where('organisation', id), (row) => removeStack(tables, row));
  removeAll(tables.node.where('place', `organisation:${id}`), (row) => removeNode(tables, row));
  removeAll(tables.usage_adjustment.where('organisation', id), (row) => tables.usage_adjustment.remove(row));
  tables.organisation.remove(organisation);
}

function listTierModels(db: Database, tier: string): '*' | string[] {
  const models = readColumn(db, 'SELECT model FROM tier_model WHERE tier = ? ORDER BY model', tier);
  return models.includes('*') ? '*' : models;
}

function toTierLimits(row: RowOf<'tier'>) {
  return present({
    requestsPerMinute: row.requests_per_minute,
    concurrency: row.concurrency,
    contextTokens: row.context_tokens,
  });
}

/** Row of a real tier, which always has a rank. Only the row for visitors has none. */
export interface TierRow extends RowOf<'tier'> {
  readonly rank: number;
}

export function toTier(db: Database, row: TierRow) {
  const { id, rank, monthly_tokens: monthlyTokens } = row;
  return { id, rank, ...toTierLimits(row), ...present({ monthlyTokens }), models: listTierModels(db, id) };
}

export const tiers = rowSource('tier', (row, db) => {
  const { id, rank } = row;
  return id === anonymousTier || rank === null ? undefined : toTier(db, { ...row, rank });
});

export const visitors = rowSource('tier', (row, db) => {
  const { id, free_turns: freeTurns, network_factor: networkFactor } = row;
  if (id !== anonymousTier || freeTurns === null) return undefined;
  const total = present({
    requestsPerMinute: row.total_requests_per_minute,
    concurrency: row.total_concurrency,
    tokensPerDay: row.total_tokens_per_day,
  });
  return {
    freeTurns,
    ...present({ networkFactor }),
    ...toTierLimits(row),
    models: listTierModels(db, id),
    ...(Object.keys(total).length > 0 && { total }),
  };
});

export const bounds = rowSource('bounds', (row) =>
  present({
    activeKeysPerOrganisation: row.active_keys_per_organisation,
    keysPerOrganisation: row.keys_per_organisation,
    commandsPerPersonPerMinute: row.commands_per_person_per_minute,
    commandsPerOrganisationPerMinute: row.commands_per_organisation_per_minute,
  }),
);

export function toModel({ id, family, added, weight, affinity }: RowOf<'model'>) {
  return { id, family, added: moment(added) ?? '', weight, affinity };
}
export const models = rowSource('model', toModel);

const organisations = rowSource('organisation', ({ id, name, tier, anchor }) => ({ id, name, tier, anchor }));
const suspensions = rowSource('organisation', ({ id, suspended }) =>
  suspended === 1 ? { id, suspended: true } : undefined,
);
const members = rowSource('member', ({ organisation, person, role }) => ({ organisation, person, role }));

const createdKeys = rowSource(
  'api_key',
  ({ id, hash, organisation, name, expires, expires_at: expiresAtMs }) => {
    // A key's row lacks these columns if only a revocation of the key has been folded so far.
    if (hash === null || organisation === null || name === null || expires === null) return undefined;
    const expiresAt = expiresAtMs === null ? null : formatMoment(expiresAtMs);
    return { id, organisation, name, hash: hash.toString('hex'), expires, expiresAt };
  },
);

const revokedKeys = rowSource('api_key', ({ id, revoked_at: revokedAt }) =>
  revokedAt === null ? undefined : { id },
);

const putTierBack: Inverse<{ readonly id: string }> = inverse(
  (db, { id }) => tiers.at(db, id),
  (was, { id }) => (was ? undo('tier.set', was) : undo('tier.delete', { id })),
);
const putVisitorsBack: Inverse<object> = inverse(
  (db) => visitors.at(db, anonymousTier),
  (was) => (was ? undo('anonymous.set', was) : undo('tier.delete', { id: anonymousTier })),
);
const putModelBack: Inverse<{ readonly id: string }> = inverse(
  (db, { id }) => models.at(db, id),
  (was, { id }) => (was ? undo('model.set', was) : undo('model.delete', { id })),
);
const putMemberBack: Inverse<{ readonly organisation: string; readonly person: string }> = inverse(
  (db, { organisation, person }) => members.at(db, organisation, person),
  (was, { organisation: id, person }) =>
    was ? undo('member.set', { id, person, role: was.role }) : undo('member.remove', { id, person }),
);

export const tenantEffects = {
  'tier.set': {
    fold: (tables, data) => {
      if (data.id === anonymousTier) return 'the id is reserved';
      tables.tier.put({
        id: data.id,
        rank: data.rank,
        requests_per_minute: data.requestsPerMinute ?? null,
        concurrency: data.concurrency ?? null,
        context_tokens: data.contextTokens ?? null,
        monthly_tokens: data.monthlyTokens ?? null,
        free_turns: null,
        network_factor: null,
        total_requests_per_minute: null,
        total_concurrency: null,
        total_tokens_per_day: null,
      });
      return setTierModels(tables, data.id, data.models);
    },
    inverse: putTierBack,
    explains: ['tier'],
  },
  'tier.removed': {
    fold: (tables, { id }) => {
      const tier = tables.tier.get(id);
      if (!tier || id === anonymousTier) return 'no such tier';
      setTierModels(tables, id, []);
      return tables.tier.remove(tier);
    },
    inverse: putTierBack,
    explains: ['tier'],
  },
  'anonymous.set': {
    fold: (tables, data) => {
      tables.tier.put({
        id: anonymousTier,
        rank: null,
        requests_per_minute: data.requestsPerMinute ?? null,
        concurrency: data.concurrency ?? null,
        context_tokens: data.contextTokens ?? null,
        monthly_tokens: null,
        free_turns: data.freeTurns,
        network_factor: data.networkFactor ?? null,
        total_requests_per_minute: data.total?.requestsPerMinute ?? null,
        total_concurrency: data.total?.concurrency ?? null,
        total_tokens_per_day: data.total?.tokensPerDay ?? null,
      });
      return setTierModels(tables, anonymousTier, data.models);
    },
    inverse: putVisitorsBack,
    explains: ['tier'],
  },
  'anonymous.removed': {
    fold: (tables) => {
      const tier = tables.tier.get(anonymousTier);
      if (!tier) return 'visitors are not served';
      setTierModels(tables, anonymousTier, []);
      return tables.tier.remove(tier);
    },
    inverse: putVisitorsBack,
    explains: ['tier'],
  },
  'bounds.set': {
    fold: (tables, data) =>
      tables.bounds.put({
        id: 'fleet',
        active_keys_per_organisation: data.activeKeysPerOrganisation ?? null,
        keys_per_organisation: data.keysPerOrganisation ?? null,
        commands_per_person_per_minute: data.commandsPerPersonPerMinute ?? null,
        commands_per_organisation_per_minute: data.commandsPerOrganisationPerMinute ?? null,
      }),
    inverse: inverse(
      (db) => bounds.at(db, 'fleet'),
      (was) => undo('bounds.set', { ...was }),
    ),
    explains: ['bounds'],
  },
  'model.set': {
    fold: (tables, { id, family, added, weight, affinity = 'prefix' }) =>
      tables.model.put({ id, family, added: Date.parse(added), weight, affinity }),
    inverse: putModelBack,
    explains: ['model'],
  },
  'model.removed': {
    fold: (tables, { id }) => {
      const model = tables.model.get(id);
      if (!model) return 'no such model';
      return tables.model.remove(model);
    },
    inverse: putModelBack,
    explains: ['model'],
  },
  'organisation.set': {
    fold: (tables, { id, name, tier, anchor }) => {
      const suspended = tables.organisation.get(id)?.suspended ?? 0;
      return tables.organisation.put({ id, name, tier, anchor, suspended });
    },
    inverse: inverse(
      (db, { id }) => organisations.at(db, id),
      (was, { id }) => (was ? undo('organisation.update', was) : undo('organisation.delete', { id })),
    ),
    explains: ['organisation', 'tier_set_at'],
  },
  'organisation.suspended': {
    fold: (tables, { id, suspended }) => {
      const organisation = tables.organisation.get(id);
      if (!organisation) return 'no such organisation';
      return tables.organisation.update(organisation, { suspended: suspended ? 1 : 0 });
    },
    inverse: inverse(
      (db, { id }) => organisations.at(db, id) && [suspensions.at(db, id)],
      (was, { id }) => undo('organisation.update', { id, suspended: was?.[0] !== undefined }),
    ),
    explains: ['organisation', 'suspended_set_at'],
  },
  'organisation.removed': {
    fold: (tables, { id }) => {
      const organisation = tables.organisation.get(id);
      if (!organisation) return 'no such organisation';
      return removeOrganisation(tables, organisation);
    },
    inverse: 'its keys, stacks and nodes were removed with it',
    explains: ['organisation'],
  },
  'member.set': {
    fold: (tables, { organisation, person, role }) => tables.member.put({ organisation, person, role }),
    inverse: putMemberBack,
    explains: ['member'],
  },
  'member.removed': {
    fold: (tables, { organisation, person }) => {
      const member = tables.member.get(organisation, person);
      if (!member) return 'no such member';
      return tables.member.remove(member);
    },
    inverse: putMemberBack,
    explains: ['member'],
  },
  'key.created': {
    fold: (tables, data, { atMs, by }) => {
      const hash = Buffer.from(data.hash, 'hex');
      const there = tables.api_key.get(data.id);
      if (there?.hash || tables.api_key.where('hash', hash).length > 0) return 'the key is there already';
      return tables.api_key.replace(there, {
        id: data.id,
        hash,
        organisation: data.organisation,
        name: data.name,
        expires: data.expires,
        expires_at: data.expiresAt === null ? null : Date.parse(data.expiresAt),
        created_at: atMs,
        created_by: by,
        revoked_at: there?.revoked_at ?? null,
        revoked_by: there?.revoked_by ?? null,
      });
    },
    inverse: inverse(
      (db, { id }) => createdKeys.at(db, id) && [revokedKeys.at(db, id)],
      (_was, { id }) => undo('key.revoke', { id }),
    ),
    explains: ['api_key'],
  },
  'key.revoked': {
    // A revocation may precede its key in the log. Keep the revocation, so that the key ends revoked whatever the order.
    fold: (tables, { id }, { atMs, by }) => {
      const key = tables.api_key.get(id);
      if (key && key.revoked_at !== null) return 'revoked already';
      const unknown = { hash: null, organisation: null, name: null, expires: null, expires_at: null };
      const row = key ?? { id, ...unknown, created_at: null, created_by: null };
      return tables.api_key.replace(key, { ...row, revoked_at: atMs, revoked_by: by });
    },
    inverse: 'a revoked key stays revoked; create a new one',
    explains: ['api_key'],
  },
  'key.forgotten': {
    // Do not remove a key that was still valid at the commit's time, no matter who wrote the event and by which clock.
    fold: (tables, { id }, { atMs }) => {
      const key = tables.api_key.get(id);
      if (!key) return 'no such key';
      if (key.revoked_at === null && !(key.expires_at !== null && key.expires_at <= atMs))
        return 'the key has not ended';
      return tables.api_key.remove(key);
    },
    inverse: 'the key had already ended; create a new one',
    explains: ['api_key'],
  },
  'usage.adjusted': {
    fold: (tables, { organisation, period, tokens }) => {
      const before = tables.usage_adjustment.get(organisation, period)?.tokens ?? 0;
      // Clamp the sum to integers that JavaScript and SQLite store exactly, so that verification can recompute its digest.
      const sum = Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, before + tokens));
      return tables.usage_adjustment.put({ organisation, period, tokens: sum });
    },
    inverse: 'adjust the usage again, by the opposite amount',
    explains: ['usage_adjustment'],
  },
} as const satisfies Partial<EventEffects>;
