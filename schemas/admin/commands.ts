/**
 * Schemas for the bodies and path parameters of the admin API's commands. They refuse unknown fields, but they check only
 * formats. Whether the named things exist is checked against the state.
 */
import { z } from 'zod';
import { daySeconds } from '../durations.ts';
import { declaredFleetSchema } from '../events/fleet.ts';
import {
  affinitySchema,
  daySchema,
  expiryChoiceSchema,
  idSchema,
  modelIdSchema,
  momentSchema,
  nameSchema,
  roleSchema,
  sha256HexSchema,
  stackIdSchema,
  surfaceSchema,
  tierIdSchema,
} from '../names.ts';
import {
  boundsShape,
  limitSchema,
  limitsShape,
  modelSelectionSchema,
  nodeShape,
  personSchema,
  tierNameSchema,
  visitorsShape,
  weightSchema,
} from '../shapes.ts';

const strictPlaceSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('pool') }),
  z.strictObject({ kind: z.literal('stack'), id: stackIdSchema }),
  z.strictObject({ kind: z.literal('organisation'), id: idSchema }),
]);

export const pathSchemas = {
  none: z.strictObject({}),
  id: z.strictObject({ id: idSchema }),
  tier: z.strictObject({ id: tierNameSchema }),
  /** Id of a tier, or `anonymous` for the limits on visitors. */
  tierOrVisitors: z.strictObject({ id: tierIdSchema }),
  model: z.strictObject({ id: modelIdSchema }),
  member: z.strictObject({ id: idSchema, person: personSchema }),
  stack: z.strictObject({ id: stackIdSchema }),
  stackModel: z.strictObject({ id: stackIdSchema, model: modelIdSchema }),
  poolModel: z.strictObject({ model: modelIdSchema }),
  signer: z.strictObject({ fingerprint: sha256HexSchema }),
};

/** Maximum number of keys or tokens that one command may create. */
export const madeAtOnceMax = 1000;

export const bodySchemas = {
  createOrganisation: z.strictObject({
    id: idSchema,
    name: nameSchema,
    tier: tierNameSchema.nullable().optional(),
    anchor: daySchema.optional(),
  }),
  updateOrganisation: z.strictObject({
    name: nameSchema.optional(),
    tier: tierNameSchema.nullable().optional(),
    anchor: daySchema.optional(),
    suspended: z.boolean().optional(),
  }),
  memberLink: z.strictObject({
    seconds: z
      .int()
      .min(60)
      .max(30 * daySeconds)
      .optional(),
  }),
  invitation: z.strictObject({
    role: roleSchema,
    seconds: z
      .int()
      .min(60)
      .max(30 * daySeconds)
      .optional(),
  }),
  setMember: z.strictObject({ role: roleSchema }),
  adjustUsage: z.strictObject({
    /** Number of tokens to add to the usage in the current period. A negative number gives allowance back. */
    tokens: z.int().min(-1_000_000_000_000).max(1_000_000_000_000),
  }),
  /** Ed25519 public key in SPKI format, either as PEM or as DER in base64. */
  addSigner: z.strictObject({ publicKey: z.string().min(1).max(1000) }),
  setTier: z.strictObject({
    /** Rank of the tier. If omitted, an existing tier keeps its rank, and a new tier is ranked above all others. */
    rank: z.int().min(0).max(1000).optional(),
    ...limitsShape,
    monthlyTokens: limitSchema.optional(),
    models: modelSelectionSchema,
  }),
  setAnonymous: z.strictObject(visitorsShape),
  setBounds: z.strictObject(boundsShape),
  setModel: z.strictObject({
    family: nameSchema,
    weight: weightSchema.optional(),
    /** How prompts that begin alike share nodes. If omitted, an existing model keeps it, and a new model gets `prefix`. */
    affinity: affinitySchema.optional(),
    added: momentSchema.optional(),
  }),
  createToken: z.strictObject({ node: idSchema }),
  createKey: z.strictObject({ organisation: idSchema, name: nameSchema, expires: expiryChoiceSchema }),
  createStack: z.strictObject({
    organisation: idSchema,
    id: stackIdSchema.optional(),
    surface: surfaceSchema.optional(),
  }),
  setSurface: z.strictObject({ surface: surfaceSchema }),
  registerNode: z.strictObject({ ...nodeShape, place: strictPlaceSchema }),
  /** Current wave of the change, as the caller knows it. The command fails if the change is already in another wave. */
  advanceChange: z.strictObject({ inWave: z.int().min(1).optional() }),
  withdrawChange: z.strictObject({ reason: nameSchema.optional() }),
  applyFleet: z.strictObject({
    fleet: declaredFleetSchema,
    /** Whether to remove what the file omits. Keys are not in files, so they are removed only with their organisation. */
    prune: z.boolean().optional(),
  }),
};
