/**
 * Report that each process publishes about itself on `headgate.status`: its position, its state's digest and the freshness
 * that it can prove. Readers judge the report; a process never claims that it is healthy. The room `schemas/records` defines
 * what processes publish and record: never keys, prompts or completions.
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

export const statusTopic = 'headgate.status';

/** Maximum size of a status record, in bytes. Kafka accepts at most 1 MB. */
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

/** Schemas of members of a gateway's report. Each member is optional. */
export function memberSchemas<Name extends GatewayMember>(names: readonly Name[]) {
  const schemas = names.map((name) => [name, memberSchema(gatewayMembers[name]).optional()]);
  return Object.fromEntries(schemas) as { [Each in Name]: z.ZodOptional<z.ZodType<MemberValue<Each>>> };
}

export const statusSchema = z.object({
  v: z.literal(1),
  name: nameSchema,
  kind: z.enum(['gateway', 'control-plane']),
  /** Random id of one process start. It distinguishes two processes with the same name. */
  incarnation: incarnationSchema,
  /** Number of the report within its incarnation, from 1 on. A replayed older report is therefore ignored. */
  n: z.int().min(1),
  /** Locked data folder and number of its openings. A later start proves that the earlier process has ended. */
  folder: z.object({ id: z.string().min(1).max(64), start: z.int().min(1) }).optional(),
  /** Reporter's wall clock, for people only. Clocks of two processes are never compared. */
  at: z.string().max(40),
  log: z.string().nullable(),
  /** `seq` of the last folded commit. */
  applied: z.int().min(0),
  digest: z.string().max(64),
  foldVersion: z.int(),
  /** Age of the last freshness proof when the report was written, in seconds. null before the first proof. */
  freshSeconds: z.number().nullable(),
  /** Members of gateway reports. Control planes report `halted` too. */
  ...memberSchemas(gatewayMemberNames),
  /** From control planes only: fingerprint of the signing key. */
  signer: z.string().max(64).optional(),
  /** From control planes only: nodes whose agents report to this one. */
  nodes: z.record(z.string().max(64), liveNodeSchema).optional(),
  /** Number of nodes left out to bound the record's size. */
  nodesOmitted: z.int().min(1).optional(),
  /** Traffic since an earlier report, untyped, so that a fault in it does not make the report unreadable. */
  traffic: z.unknown().optional(),
  /** Whether the rows contradict their digest. The process then does not accept keys from them. */
  diverged: z.boolean().optional(),
  /** Whether the process ended cleanly, so that nothing waits for its confirmation. */
  stopped: z.boolean().optional(),
});

/** Status report from a build that allowed other names. If it were dropped, nothing would wait for that gateway. */
export const rememberedStatusSchema = statusSchema.extend({ name: z.string().min(1).max(200) });

/** Silent gateways, republished so that the topic never loses them, and forgotten ones, up to their report `n`. */
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
