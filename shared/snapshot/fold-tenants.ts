/**
 * What events of tiers, models, organisations, members, keys and usage adjustments do to the rows.
 * Part of the fold: pure, total, see fold.ts.
 */
import { removeNode, removeStack } from './fold-capacity.ts';
import { anonymousTier, type Handlers, removeAll } from './fold-types.ts';
import type { TableViews } from './table.ts';
import type { RowOf } from './tables.ts';

function setTierModels(tables: TableViews, tier: string, models: '*' | readonly string[]): void {
  removeAll(tables.tier_model.where('tier', tier), (row) => tables.tier_model.remove(row));
  for (const model of models === '*' ? ['*'] : models) tables.tier_model.put({ tier, model });
}

/** Removes all that belongs to an organisation, so that a new one with its id does not inherit its keys. */
function removeOrganisation(tables: TableViews, organisation: RowOf<'organisation'>): void {
  const { id } = organisation;
  removeAll(tables.member.where('organisation', id), (row) => tables.member.remove(row));
  removeAll(tables.api_key.where('organisation', id), (row) => tables.api_key.remove(row));
  removeAll(tables.stack.where('organisation', id), (row) => removeStack(tables, row));
  removeAll(tables.node.where('place', `organisation:${id}`), (row) => removeNode(tables, row));
  removeAll(tables.usage_adjustment.where('organisation', id), (row) => tables.usage_adjustment.remove(row));
  tables.organisation.remove(organisation);
}

export const tenantHandlers: Pick<
  Handlers,
  | 'tier.set'
  | 'tier.removed'
  | 'anonymous.set'
  | 'bounds.set'
  | 'model.set'
  | 'model.removed'
  | 'organisation.set'
  | 'organisation.suspended'
  | 'organisation.removed'
  | 'member.set'
  | 'member.removed'
  | 'key.created'
  | 'key.revoked'
  | 'usage.adjusted'
> = {
  'tier.set': (tables, data) => {
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
    setTierModels(tables, data.id, data.models);
    return undefined;
  },
  'tier.removed': (tables, { id }) => {
    const tier = tables.tier.get(id);
    if (!tier || id === anonymousTier) return 'no such tier';
    setTierModels(tables, id, []);
    tables.tier.remove(tier);
    return undefined;
  },
  'anonymous.set': (tables, data) => {
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
    setTierModels(tables, anonymousTier, data.models);
    return undefined;
  },
  'bounds.set': (tables, data) => {
    tables.bounds.put({
      id: 'fleet',
      active_keys_per_organisation: data.activeKeysPerOrganisation ?? null,
      keys_per_organisation: data.keysPerOrganisation ?? null,
      commands_per_person_per_minute: data.commandsPerPersonPerMinute ?? null,
      commands_per_organisation_per_minute: data.commandsPerOrganisationPerMinute ?? null,
    });
    return undefined;
  },
  'model.set': (tables, data) => {
    tables.model.put({
      id: data.id,
      family: data.family,
      added: Date.parse(data.added),
      weight: data.weight,
      affinity: data.affinity ?? 'prefix',
    });
    return undefined;
  },
  'model.removed': (tables, { id }) => {
    const model = tables.model.get(id);
    if (!model) return 'no such model';
    tables.model.remove(model);
    return undefined;
  },
  'organisation.set': (tables, data) => {
    const suspended = tables.organisation.get(data.id)?.suspended ?? 0;
    tables.organisation.put({
      id: data.id,
      name: data.name,
      tier: data.tier,
      anchor: data.anchor,
      suspended,
    });
    return undefined;
  },
  'organisation.suspended': (tables, { id, suspended }) => {
    const organisation = tables.organisation.get(id);
    if (!organisation) return 'no such organisation';
    tables.organisation.update(organisation, { suspended: suspended ? 1 : 0 });
    return undefined;
  },
  'organisation.removed': (tables, { id }) => {
    const organisation = tables.organisation.get(id);
    if (!organisation) return 'no such organisation';
    removeOrganisation(tables, organisation);
    return undefined;
  },
  'member.set': (tables, { organisation, person, role }) => {
    tables.member.put({ organisation, person, role });
    return undefined;
  },
  'member.removed': (tables, { organisation, person }) => {
    const member = tables.member.get(organisation, person);
    if (!member) return 'no such member';
    tables.member.remove(member);
    return undefined;
  },
  'key.created': (tables, data, { atMs, by }) => {
    const hash = Buffer.from(data.hash, 'hex');
    const there = tables.api_key.get(data.id);
    if (there?.hash || tables.api_key.where('hash', hash).length > 0) return 'the key is there already';
    tables.api_key.replace(there, {
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
    return undefined;
  },
  // A revocation that precedes its key is kept, so that no order of events can lose it.
  'key.revoked': (tables, { id }, { atMs, by }) => {
    const key = tables.api_key.get(id);
    if (key && key.revoked_at !== null) return 'revoked already';
    const unknown = { hash: null, organisation: null, name: null, expires: null, expires_at: null };
    const row = key ?? {
      id,
      ...unknown,
      created_at: null,
      created_by: null,
      revoked_at: null,
      revoked_by: null,
    };
    tables.api_key.replace(key, { ...row, revoked_at: atMs, revoked_by: by });
    return undefined;
  },
  'usage.adjusted': (tables, { organisation, period, tokens }) => {
    const before = tables.usage_adjustment.get(organisation, period)?.tokens ?? 0;
    // Clamped, because a sum beyond the integers that both JavaScript and SQLite hold would not be a function of the rows.
    const sum = Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, before + tokens));
    tables.usage_adjustment.put({ organisation, period, tokens: sum });
    return undefined;
  },
};
