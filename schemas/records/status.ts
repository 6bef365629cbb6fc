/**
 * What each process reports of itself on `headgate.status`: how far it is, what its state's digest is, how fresh it can
 * prove to be. The reader judges; a process never says of itself that it is well.
 */
import { z } from 'zod';
import { nameSchema } from '../names.ts';
import {
  type GatewayMember,
  type GatewayMemberRow,
  gatewayMemberNames,
  gatewayMembers,
  type MemberValue,
} from './gateway-members.ts';
import { liveNodeSchema } from './node-messages.ts';

/** The topic of all status reports. */
export const statusTopic = 'headgate.status';

/** A record of the topic has at most so many bytes; Kafka takes no more than 1 MB. */
export const statusBytesMax = 200_000;

const incarnationSchema = z.string().regex(/^[A-Za-z0-9-]{8,64}$/);

function memberSchema(row: GatewayMemberRow): z.ZodType {
  switch (row.kind) {
    case 'text':
      return z.string().max(row.charactersMax);
    case 'texts':
      return z.array(z.string().max(row.charactersMax)).max(row.countMax);
    case 'choice':
      return z.enum(row.values);
    case 'yes':
      return z.literal(true);
  }
}

/** Of members of a gateway's report, each of which may be absent. */
export function memberSchemas<Name extends GatewayMember>(names: readonly Name[]) {
  const schemas = names.map((name) => [name, memberSchema(gatewayMembers[name]).optional()]);
  return Object.fromEntries(schemas) as { [Each in Name]: z.ZodOptional<z.ZodType<MemberValue<Each>>> };
}

export const statusSchema = z.object({
  v: z.literal(1),
  name: nameSchema,
  kind: z.enum(['gateway', 'control-plane']),
  /** Random, one a start of a process: two processes of one name differ in it. */
  incarnation: incarnationSchema,
  /** Numbers the reports of an incarnation from 1 on, so that an old one that is sent again counts for nothing. */
  n: z.int().min(1),
  /** Which data folder the process holds locked, and how often it was opened: a later start proves that the earlier ended. */
  folder: z.object({ id: z.string().min(1).max(64), start: z.int().min(1) }).optional(),
  /** Wall clock of the reporter, for people only: no two clocks are compared. */
  at: z.string().max(40),
  log: z.string().nullable(),
  /** `seq` of the last commit folded. */
  applied: z.int().min(0),
  digest: z.string().max(64),
  foldVersion: z.int(),
  /** Age of the last proof of freshness when this was written, seconds; null before the first. */
  freshSeconds: z.number().nullable(),
  /** Of a gateway; `halted` of a control plane, too. */
  ...memberSchemas(gatewayMemberNames),
  /** Of a control plane: fingerprint of the key with which it signs. */
  signer: z.string().max(64).optional(),
  /** Of a control plane: the nodes whose agents report to it. */
  nodes: z.record(z.string().max(64), liveNodeSchema).optional(),
  /** So many nodes are left out, because the record would be too large. */
  nodesOmitted: z.int().min(1).optional(),
  /** What a gateway has counted since an earlier report, as `schemas/records/traffic.ts` reads it: what is wrong there does not make a report unreadable. */
  traffic: z.unknown().optional(),
  /** Its rows are not what their digest says: no key is accepted from them. */
  diverged: z.boolean().optional(),
  /** The process ended in good order and is not to be waited for. */
  stopped: z.boolean().optional(),
});

/** As a process of an earlier build may have named itself: one that is forgotten for its name would not be waited for. */
export const rememberedStatusSchema = statusSchema.extend({ name: z.string().min(1).max(200) });

/**
 * What a control plane remembers of gateways that are silent, published again so that the topic never forgets them, and
 * which gateways an operator forgot, up to their report `n`.
 */
const fleetMemorySchema = z.object({
  v: z.literal(1),
  name: nameSchema,
  kind: z.literal('memory'),
  gateways: z.array(rememberedStatusSchema).max(10_000),
  forgotten: z.array(z.object({ incarnation: incarnationSchema, n: z.int().min(1) })).max(10_000),
});

export const statusRecordSchema = z.discriminatedUnion('kind', [statusSchema, fleetMemorySchema]);

export type StatusReport = z.infer<typeof statusSchema>;
export type FleetMemoryRecord = z.infer<typeof fleetMemorySchema>;
export type Forgotten = FleetMemoryRecord['forgotten'][number];
export type StalePolicy = NonNullable<StatusReport['stalePolicy']>;
