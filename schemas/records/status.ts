/**
 * Report that each process publishes about itself on `headgate.status`. It contains the process's position, the digest of its
 * state, and how fresh it can prove its state to be. Readers judge the report; a process never claims to be healthy. The room
 * `schemas/records` defines what processes publish and record, which never includes keys, prompts or completions.
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

/** Maximum size of a status record in bytes. Kafka itself accepts up to 1 MB. */
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

/** Returns the schemas of the named members of a gateway's report, each of them optional. */
export function memberSchemas<Name extends GatewayMember>(names: readonly Name[]) {
  const schemas = names.map((name) => [name, memberSchema(gatewayMembers[name]).optional()]);
  return Object.fromEntries(schemas) as { [Each in Name]: z.ZodOptional<z.ZodType<MemberValue<Each>>> };
}

export const statusSchema = z.object({
  v: z.literal(1),
  name: nameSchema,
  kind: z.enum(['gateway', 'control-plane']),
  /** Random id of this run of the process. It distinguishes two processes with the same name. */
  incarnation: incarnationSchema,
  /** Number of the report within its incarnation, starting at 1. Readers use it to ignore a replayed older report. */
  n: z.int().min(1),
  /** Id of the locked data folder, and number of times it was opened. A higher number proves that earlier users ended. */
  folder: z.object({ id: z.string().min(1).max(64), start: z.int().min(1) }).optional(),
  /** Wall-clock time of the process, for people to read. Programs never compare the clocks of two processes. */
  at: z.string().max(40),
  log: z.string().nullable(),
  /** Number (`seq`) of the last folded commit. */
  applied: z.int().min(0),
  digest: z.string().max(64),
  foldVersion: z.int(),
  /** Age of the last proof of freshness in seconds, when the report was written. It is null before the first proof. */
  freshSeconds: z.number().nullable(),
  /** Members that gateways report. Control planes report `halted`, too. */
  ...memberSchemas(gatewayMemberNames),
  /** Fingerprint of the signing key. Only control planes report it. */
  signer: z.string().max(64).optional(),
  /** Nodes whose agents are connected to this control plane. Only control planes report them. */
  nodes: z.record(z.string().max(64), liveNodeSchema).optional(),
  /** Number of nodes that are left out so that the record does not grow too large. */
  nodesOmitted: z.int().min(1).optional(),
  /** Traffic since an earlier report. Its format is not checked here, because a fault in it must not spoil the report. */
  traffic: z.unknown().optional(),
  /** Whether the state's rows contradict their digest. If so, the process accepts none of the keys in these rows. */
  diverged: z.boolean().optional(),
  /** Whether the process has ended cleanly. If so, nobody needs to wait until it confirms a position. */
  stopped: z.boolean().optional(),
});

/** Status report that also allows names that only earlier versions accept, because revocations wait for such gateways too. */
export const rememberedStatusSchema = statusSchema.extend({ name: z.string().min(1).max(200) });

/** Silent gateways, republished so that the topic never loses them, and forgotten gateways with their last report's `n`. */
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
