/**
 * Every event of the control log: its data, its version, and whether a reader that does not know it must halt.
 * Writers are strict (unknown fields refused), readers are loose (unknown fields ignored).
 * To change an event: raise its version and add an up-caster from the version before; never change a meaning in place.
 * A new type or version names the version of the fold that knows it first, which is raised with it.
 */
import { z } from 'zod';
import {
  affinitySchema,
  credentialNameSchema,
  daySchema,
  dialectSchema,
  expiryChoiceSchema,
  idSchema,
  modelIdSchema,
  momentSchema,
  nodeUrlSchema,
  placeSchema,
  roleSchema,
  sha256HexSchema,
  stackIdSchema,
  storedNameSchema,
  surfaceSchema,
  tierIdSchema,
} from './names.ts';

const limit = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const modelSelection = z.union([z.literal('*'), z.array(modelIdSchema).max(10_000)]);
/** Limits left out are unlimited. */
const limits = {
  requestsPerMinute: limit.optional(),
  concurrency: limit.optional(),
  contextTokens: limit.optional(),
};
const bound = z.int().min(1).max(Number.MAX_SAFE_INTEGER).optional();
const byId = { id: idSchema };
/** Ed25519 public keys, SPKI DER in base64. */
const signers = z.array(z.string().max(200)).max(16);
const noFields = {};

type Upcaster = (data: Record<string, unknown>) => Record<string, unknown>;
interface EventType<Shape extends z.core.$ZodLooseShape> {
  readonly version: number;
  readonly critical: boolean;
  /** The first version of the fold that knows this version of the event. */
  readonly foldVersion: number;
  readonly shape: Shape;
  /** `upcasters[n]` turns data of version n into data of version n + 1. Pure. */
  readonly upcasters?: Readonly<Record<number, Upcaster>>;
}
function event<Shape extends z.core.$ZodLooseShape>(shape: Shape, critical = true): EventType<Shape> {
  return { version: 1, critical, foldVersion: 1, shape };
}

export const eventTypes = {
  'log.created': event({
    log: idSchema,
    /** Where present, every record must be signed by one. */
    signers: signers.optional(),
    /** Where the log was begun from a snapshot of another: which one, up to where, and how many commits bring its state back. */
    continues: z
      .object({ log: idSchema, seq: z.int().min(1), hash: sha256HexSchema, commits: z.int().min(1) })
      .optional(),
  }),
  /**
   * From the next record on, these sign, and nobody else. It stands alone in its commit, which one of the signers before
   * it must sign; where the log has none, one of those named. The accept rule reads it (shared/log/core/chain.ts).
   */
  'log.signers_set': { ...event({ signers: signers.min(1) }), foldVersion: 2 },
  'tier.set': event({
    id: tierIdSchema,
    /** Order of the tiers, lowest first; the highest rank is the top tier. */
    rank: z.int().min(0).max(1000),
    ...limits,
    monthlyTokens: limit.optional(),
    models: modelSelection,
  }),
  'tier.removed': event({ id: tierIdSchema }),
  'anonymous.set': event({
    freeTurns: limit,
    /** Times the free turns, for a network and day. */
    networkFactor: z.int().min(1).max(1_000_000).optional(),
    ...limits,
    models: modelSelection,
    /** Of all visitors together. */
    total: z
      .object({
        requestsPerMinute: limit.optional(),
        concurrency: limit.optional(),
        tokensPerDay: limit.optional(),
      })
      .optional(),
  }),
  'model.set': event({
    id: modelIdSchema,
    family: storedNameSchema,
    added: momentSchema,
    /** What one request counts against the concurrency allowance. */
    weight: z.int().min(1).max(1000),
    /** Whether prompts that begin alike go to one node; `prefix` where it is left out. */
    affinity: affinitySchema.optional(),
  }),
  'model.removed': event({ id: modelIdSchema }),
  'organisation.set': event({
    ...byId,
    name: storedNameSchema,
    /** null: no inference entitlement. */
    tier: tierIdSchema.nullable(),
    /** First day of a billing period; later periods begin on the same day of the month. */
    anchor: daySchema,
  }),
  'organisation.suspended': event({ ...byId, suspended: z.boolean() }),
  'organisation.removed': event(byId),
  'member.set': event({ organisation: idSchema, person: idSchema, role: roleSchema }),
  'member.removed': event({ organisation: idSchema, person: idSchema }),
  'key.created': event({
    ...byId,
    organisation: idSchema,
    name: storedNameSchema,
    /** SHA-256 of the key's text. */
    hash: sha256HexSchema,
    expires: expiryChoiceSchema,
    expiresAt: momentSchema.nullable(),
  }),
  'key.revoked': event(byId),
  'stack.created': event({ id: stackIdSchema, organisation: idSchema, surface: surfaceSchema }),
  'stack.surface_set': event({ id: stackIdSchema, surface: surfaceSchema }),
  'stack.removed': event({ id: stackIdSchema }),
  'stack.model_installed': event({ stack: stackIdSchema, model: modelIdSchema }),
  'stack.model_uninstalled': event({ stack: stackIdSchema, model: modelIdSchema }),
  'pool.model_installed': event({ model: modelIdSchema }),
  'pool.model_uninstalled': event({ model: modelIdSchema }),
  'node.registered': event({
    ...byId,
    place: placeSchema,
    url: nodeUrlSchema,
    dialect: dialectSchema,
    /** Name of the credential a gateway reads from its own environment. */
    credential: credentialNameSchema.optional(),
    /** Catalog id → the name under which the engine serves it, where the two differ. */
    models: z.record(modelIdSchema, z.string().min(1).max(200)).optional(),
    /** true: an agent reports its health. false: its owner probes it. */
    agent: z.boolean(),
  }),
  'node.drained': event(byId),
  'node.undrained': event(byId),
  'node.removed': event(byId),
  'node.token_created': event({ ...byId, node: idSchema, hash: sha256HexSchema }),
  'node.token_revoked': event(byId),
  'node.joined': event({ ...byId, owner: storedNameSchema, generation: z.int().min(1) }),
  'node.health_changed': event({
    ...byId,
    owner: storedNameSchema,
    generation: z.int().min(1),
    up: z.boolean(),
    /** Names as the engine reports them. */
    models: z.array(z.string().min(1).max(200)).max(1000),
    /** Context window by engine's name, tokens, where the engine reports it. */
    windows: z.record(z.string().min(1).max(200), z.int().min(1)).optional(),
    /** Those of the models that are known to take images; none where it is left out. */
    imageModels: z.array(z.string().min(1).max(200)).max(1000).optional(),
    reason: storedNameSchema.optional(),
  }),
  'usage.adjusted': event({
    organisation: idSchema,
    /** First day of the period that is adjusted. */
    period: daySchema,
    /** Added to the period's tokens; negative gives allowance back. */
    tokens: z.int().min(-Number.MAX_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER),
  }),
  /** Digests of the state right before this commit. */
  checkpoint: event(
    { foldVersion: z.int(), digests: z.record(z.string().max(64), z.string().max(64)) },
    false,
  ),
  /**
   * A session of the console, all sessions of a person, or a sign-in link is over. No row of the state: what accepts
   * sessions reads it from the log.
   */
  'session.ended': event(
    {
      kind: z.enum(['session', 'link', 'person']),
      /** SHA-256 of the id of the session or the link; the name of the person. */
      subject: z.string().min(1).max(64),
      /** In whose name many can end: the person, or the organisation whose links they came by. Absent: an operator's link, or of an earlier version. */
      holder: z.string().min(1).max(64).optional(),
      /** After this moment it would not be accepted anyway. */
      until: momentSchema,
    },
    false,
  ),
  /**
   * What members may do, all of it; what is left out is as control planes have it by default. Not critical: what does not
   * know it need not stop, because control planes alone enforce it.
   */
  'bounds.set': {
    ...event(
      {
        activeKeysPerOrganisation: bound,
        keysPerOrganisation: bound,
        commandsPerPersonPerMinute: bound,
        commandsPerOrganisationPerMinute: bound,
      },
      false,
    ),
    foldVersion: 5,
  },
  no_op: event(noFields, false),
} as const;

export type EventTypeName = keyof typeof eventTypes;
type Data<Name extends EventTypeName> = z.infer<z.ZodObject<(typeof eventTypes)[Name]['shape']>>;

/** An event of a known type, with data of its present version. */
export type KnownEvent = {
  [Name in EventTypeName]: { readonly type: Name; readonly data: Data<Name> };
}[EventTypeName];
export type EventData<Name extends EventTypeName> = Data<Name>;

/** An event as it stands in a commit. */
export interface StoredEvent {
  readonly type: string;
  readonly v: number;
  readonly critical: boolean;
  readonly data: unknown;
}

const readers = Object.fromEntries(
  Object.entries(eventTypes).map(([type, definition]) => [type, z.object(definition.shape)]),
);
const writers = Object.fromEntries(
  Object.entries(eventTypes).map(([type, definition]) => [type, z.strictObject(definition.shape)]),
);

/** The strict schema of an event type's data, as writers must obey it. */
export function writerSchema(type: EventTypeName): z.ZodType {
  return writers[type] as z.ZodType;
}

/** Prepares an event for the log. Throws a ZodError on data that breaks its schema: an internal fault. */
export function toStored(known: KnownEvent): StoredEvent {
  const { version, critical } = eventTypes[known.type];
  return { type: known.type, v: version, critical, data: writerSchema(known.type).parse(known.data) };
}

/** The version of the fold that a reader must have at least, so that it does not stand still at this event; 0 where any will do. */
export function foldVersionNeeded({ type }: KnownEvent): number {
  const { critical, foldVersion } = eventTypes[type];
  return critical ? foldVersion : 0;
}

export type ReadEvent =
  | { readonly outcome: 'known'; readonly event: KnownEvent }
  /** A type or version that this build does not know. */
  | { readonly outcome: 'unknown' }
  /** A known type whose data cannot be what its version says. */
  | { readonly outcome: 'malformed' };

/** Reads an event as this build understands it; total: never throws. */
export function readEvent(stored: StoredEvent): ReadEvent {
  if (!Object.hasOwn(eventTypes, stored.type)) return { outcome: 'unknown' };
  const type = stored.type as EventTypeName;
  const definition: EventType<z.core.$ZodLooseShape> = eventTypes[type];
  if (stored.v > definition.version) return { outcome: 'unknown' };
  let data = stored.data;
  for (let v = stored.v; v < definition.version; v++) {
    const upcast = definition.upcasters?.[v];
    if (!upcast || typeof data !== 'object' || data === null) return { outcome: 'malformed' };
    data = upcast(data as Record<string, unknown>);
  }
  const parsed = (readers[type] as z.ZodType).safeParse(data);
  if (!parsed.success) return { outcome: 'malformed' };
  return { outcome: 'known', event: { type, data: parsed.data } as KnownEvent };
}
