/** Definitions of the events of tiers, visitors, members' bounds, models, organisations, members and keys. */
import { type EventFieldTexts, event, fieldText, phrase, type SampleDraw } from './event-definition.ts';

function describeTier(fields: EventFieldTexts): string {
  if (fields['tier'] === null) return 'on no tier';
  return phrase(fields, 'on the tier', 'tier');
}

function sampleLimits(draw: SampleDraw) {
  return draw.chance(0.3) ? {} : { requestsPerMinute: draw.upTo(600), concurrency: draw.upTo(64) };
}

function sampleModels(draw: SampleDraw): '*' | string[] {
  return draw.chance(0.3) ? '*' : draw.names('model');
}

export const tenantEvents = {
  'tier.set': event({
    data: ({ z, tierId, limits, limit, modelSelection }) => ({
      id: tierId,
      /** Position of the tier in the order of tiers. The tier with the highest rank is the top tier. */
      rank: z.int().min(0).max(1000),
      ...limits,
      monthlyTokens: limit.optional(),
      models: modelSelection,
    }),
    sentence: (of) => ['defined the tier', fieldText(of, 'id')],
    sample: (draw) => ({
      id: draw.name('tier'),
      rank: draw.upTo(4),
      ...sampleLimits(draw),
      models: sampleModels(draw),
    }),
  }),
  'tier.removed': event({
    data: ({ tierId }) => ({ id: tierId }),
    sentence: (of) => ['removed the tier', fieldText(of, 'id')],
    sample: (draw) => ({ id: draw.name('tier') }),
  }),
  'anonymous.set': event({
    data: ({ z, limit, limits, modelSelection }) => ({
      freeTurns: limit,
      /** Daily limit on the free turns of one network, as a multiple of the free turns of one visitor. */
      networkFactor: z.int().min(1).max(1_000_000).optional(),
      ...limits,
      models: modelSelection,
      /** Limits on all visitors together. */
      total: z
        .object({
          requestsPerMinute: limit.optional(),
          concurrency: limit.optional(),
          tokensPerDay: limit.optional(),
        })
        .optional(),
    }),
    sentence: () => ['changed the limits for', 'visitors'],
    sample: (draw) => ({
      freeTurns: draw.upTo(20),
      ...sampleLimits(draw),
      models: sampleModels(draw),
      ...(draw.chance(0.5) && { networkFactor: draw.upTo(5), total: { tokensPerDay: draw.upTo(100) } }),
    }),
  }),
  'anonymous.removed': event({
    foldVersion: 9,
    data: () => ({}),
    sentence: () => ['closed the service to', 'visitors'],
    sample: () => ({}),
  }),
  /** Replaces all bounds on members. Omitted bounds take defaults. Not critical, because only control planes use bounds. */
  'bounds.set': event({
    critical: false,
    foldVersion: 5,
    data: ({ bound }) => ({
      activeKeysPerOrganisation: bound,
      keysPerOrganisation: bound,
      commandsPerPersonPerMinute: bound,
      commandsPerOrganisationPerMinute: bound,
    }),
    sentence: () => ['changed the bounds for', 'members'],
    sample: (draw) => ({
      activeKeysPerOrganisation: draw.upTo(100),
      ...(draw.chance(0.5) && { commandsPerPersonPerMinute: draw.upTo(100) }),
    }),
  }),
  'model.set': event({
    data: ({ z, modelId, name, moment, affinity }) => ({
      id: modelId,
      family: name,
      added: moment,
      /** Number of concurrency slots that one request for the model takes. */
      weight: z.int().min(1).max(1000),
      /** Whether prompts with a common prefix are sent to one node. Defaults to `prefix`. */
      affinity: affinity.optional(),
    }),
    sentence: (of) => ['put', fieldText(of, 'id'), 'into the catalog'],
    sample: (draw) => ({
      id: draw.name('model'),
      family: draw.oneOf(['echo', 'embed']),
      added: `2026-01-0${draw.upTo(9)}T00:00:00Z`,
      weight: draw.upTo(4),
    }),
  }),
  'model.removed': event({
    data: ({ modelId }) => ({ id: modelId }),
    sentence: (of) => ['removed', fieldText(of, 'id'), 'from the catalog'],
    sample: (draw) => ({ id: draw.name('model') }),
  }),
  'organisation.set': event({
    data: ({ id, name, tierId, day }) => ({
      id,
      name,
      /** Tier of the organisation. If it is null, the organisation may not use inference. */
      tier: tierId.nullable(),
      /** First day of a billing period. Later periods begin on the same day of the month. */
      anchor: day,
    }),
    sentence: (of) => ['put the organisation', fieldText(of, 'id'), describeTier(of)],
    sample: (draw) => ({
      id: draw.name('organisation'),
      name: draw.oneOf(['Acme', 'Bergen & Söhne', '株式会社']),
      tier: draw.chance(0.2) ? null : draw.name('tier'),
      anchor: draw.name('period'),
    }),
  }),
  'organisation.suspended': event({
    data: ({ z, id }) => ({ id, suspended: z.boolean() }),
    sentence: (of) => [
      of['suspended'] === false ? 'resumed the organisation' : 'suspended the organisation',
      fieldText(of, 'id'),
    ],
    sample: (draw) => ({ id: draw.name('organisation'), suspended: draw.chance(0.5) }),
  }),
  'organisation.removed': event({
    data: ({ id }) => ({ id }),
    sentence: (of) => ['removed the organisation', fieldText(of, 'id')],
    sample: (draw) => ({ id: draw.name('organisation') }),
  }),
  'member.set': event({
    data: ({ id, role }) => ({ organisation: id, person: id, role }),
    sentence: (of) => [
      'made',
      fieldText(of, 'person'),
      [fieldText(of, 'role'), phrase(of, 'of', 'organisation')].filter((part) => part !== '').join(' '),
    ],
    sample: (draw) => ({
      organisation: draw.name('organisation'),
      person: draw.name('person'),
      role: draw.oneOf(['owner', 'member', 'viewer'] as const),
    }),
  }),
  'member.removed': event({
    data: ({ id }) => ({ organisation: id, person: id }),
    sentence: (of) => ['removed', fieldText(of, 'person'), phrase(of, 'from', 'organisation')],
    sample: (draw) => ({ organisation: draw.name('organisation'), person: draw.name('person') }),
  }),
  'key.created': event({
    data: ({ id, name, sha256, expires, moment }) => ({
      id,
      organisation: id,
      name,
      /** SHA-256 of the key's text. */
      hash: sha256,
      expires,
      expiresAt: moment.nullable(),
    }),
    sentence: (of) => [
      'created the key',
      fieldText(of, 'name') || fieldText(of, 'id'),
      phrase(of, 'for', 'organisation'),
    ],
    sample: (draw) => {
      const id = `key-${draw.upTo(30)}`;
      const expires = draw.chance(0.5) ? ('never' as const) : ('30d' as const);
      const expiresAt = expires === 'never' ? null : '2026-02-01T00:00:00Z';
      const organisation = draw.name('organisation');
      return { id, organisation, name: 'a key', hash: draw.sha256(id), expires, expiresAt };
    },
  }),
  'key.revoked': event({
    data: ({ id }) => ({ id }),
    sentence: (of) => ['revoked the key', fieldText(of, 'id')],
    sample: (draw) => ({ id: `key-${draw.upTo(30)}` }),
  }),
  /** Removes a key that ended long ago. Not critical, because readers refuse ended and unknown keys alike. */
  'key.forgotten': event({
    critical: false,
    foldVersion: 8,
    data: ({ id, name }) => ({ id, organisation: id, name }),
    sentence: (of) => [
      'forgot the ended key',
      fieldText(of, 'name') || fieldText(of, 'id'),
      phrase(of, 'of', 'organisation'),
    ],
    sample: (draw) => ({
      id: `key-${draw.upTo(30)}`,
      organisation: draw.name('organisation'),
      name: 'a key',
    }),
  }),
};
