/**
 * Field schemas for event data. Event definitions receive them as an argument, so that the console can load the definitions
 * for their sentences without loading a schema library.
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
  placeSchema,
  recordedNodeUrlSchema,
  roleSchema,
  sha256HexSchema,
  stackIdSchema,
  storedNameSchema,
  surfaceSchema,
  tierIdSchema,
} from '../names.ts';
import { changeWatchSchema, stagedEventSchema, waveSchema, wavesMax } from './changes.ts';
import { holdSecondsMax } from './release.ts';

const limit = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

export const eventFields = {
  z,
  affinity: affinitySchema,
  credential: credentialNameSchema,
  day: daySchema,
  dialect: dialectSchema,
  expires: expiryChoiceSchema,
  id: idSchema,
  modelId: modelIdSchema,
  moment: momentSchema,
  name: storedNameSchema,
  place: placeSchema,
  role: roleSchema,
  sha256: sha256HexSchema,
  stackId: stackIdSchema,
  surface: surfaceSchema,
  tierId: tierIdSchema,
  url: recordedNodeUrlSchema,
  limit,
  /** Limits of a tier or on visitors. A limit that is left out does not apply. */
  limits: {
    requestsPerMinute: limit.optional(),
    concurrency: limit.optional(),
    contextTokens: limit.optional(),
  },
  bound: z.int().min(1).max(Number.MAX_SAFE_INTEGER).optional(),
  modelSelection: z.union([z.literal('*'), z.array(modelIdSchema).max(10_000)]),
  /** Model name as an engine reports it. */
  served: z.string().min(1).max(200),
  /** Ed25519 public keys in SPKI format, as DER in base64. */
  signers: z.array(z.string().max(200)).max(16),
  wave: waveSchema,
  wavesMax,
  holdSecondsMax,
  changeWatch: changeWatchSchema,
  stagedEvent: stagedEventSchema,
};

export type EventFields = typeof eventFields;
