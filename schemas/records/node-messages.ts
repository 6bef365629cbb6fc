/**
 * What a node's agent and a control plane send each other over their WebSocket, one JSON text a frame.
 * The token travels in the upgrade's `Authorization`, never in a frame. An agent sends hello once, then a heartbeat each second
 * that holds the whole present, so that a lost frame costs nothing. Strict both ways: anything else ends the session.
 */
import { z } from 'zod';
import { dialectSchema, idSchema, storedNameSchema } from '../names.ts';

export const nodeProtocol = 1;
export const nodeConnectPath = '/nodes/v1/connect';
/** How often an agent sends a heartbeat. */
export const heartbeatIntervalMs = 1000;
/** After so many missed heartbeats in a row a node is down. */
export const heartbeatsMissedMax = 3;
/** A frame of either side has at most so many bytes. */
export const nodeFrameBytesMax = 512 * 1024;
export const modelsPerNodeMax = 1000;
export const installsPerNodeMax = 100;
export const unlistedMax = 20;

/** A model as its engine names it. */
const servedNameSchema = z.string().min(1).max(200);

/** State of a model that the agent was asked to load; removed from the list once the engine serves it. */
const installSchema = z.strictObject({
  model: servedNameSchema,
  state: z.enum(['loading', 'failed']),
  /** Of a load that reports its progress. */
  percent: z.int().min(0).max(100).optional(),
  /** Why it failed; holds nothing that is secret. */
  reason: storedNameSchema.optional(),
});

/** What is known of a node now and stands in no log. */
export const liveNodeSchema = z.object({
  /** Since its agent's last heartbeat. */
  beatSeconds: z.number().min(0),
  inFlight: z.int().min(0).optional(),
  installs: z.array(installSchema).max(installsPerNodeMax).optional(),
  /** So many installs are left out. */
  installsOmitted: z.int().min(1).optional(),
  /** What it has loaded and the catalog does not know: some of it. */
  unlisted: z.array(servedNameSchema).max(unlistedMax).optional(),
  /** Reports of it were kept out of the log within the last hour, because they were too many or too large. */
  withheld: z.boolean().optional(),
});

export const agentMessageSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('hello'), v: z.literal(nodeProtocol), node: idSchema }),
  z.strictObject({
    type: z.literal('beat'),
    up: z.boolean(),
    /** Why it is down. */
    reason: storedNameSchema.optional(),
    /** Which engine was found; left out until one has answered. */
    dialect: dialectSchema.optional(),
    models: z.array(servedNameSchema).max(modelsPerNodeMax),
    /** Context window by engine's name, tokens, where the engine reports it. */
    windows: z
      .record(servedNameSchema, z.int().min(1))
      .refine((windows) => Object.keys(windows).length <= modelsPerNodeMax)
      .optional(),
    /** Those of the models that are known to take images. Left out where there are none: 0.1 control planes refuse it. */
    imageModels: z.array(servedNameSchema).max(modelsPerNodeMax).optional(),
    /** Those of the models that rerank and do nothing else. Left out where there are none: older control planes refuse it. */
    rerankModels: z.array(servedNameSchema).max(modelsPerNodeMax).optional(),
    /** Requests that the engine works on, where it reports that. */
    inFlight: z.int().min(0).max(1_000_000).optional(),
    installs: z.array(installSchema).max(installsPerNodeMax).optional(),
  }),
  /** The agent is about to end: its node gets no new requests. Answered by `released`. */
  z.strictObject({ type: z.literal('leaving') }),
]);

export const controlPlaneMessageSchema = z.discriminatedUnion('type', [
  /** The models that this node's place has installed, by the engine's names, as of a position of the log. */
  z.strictObject({
    type: z.literal('installs'),
    position: z.int().min(0),
    models: z.array(servedNameSchema).max(modelsPerNodeMax),
  }),
  /** That the agent leaves is in the log. */
  z.strictObject({ type: z.literal('released') }),
]);

export type LiveNode = z.infer<typeof liveNodeSchema>;
export type Install = z.infer<typeof installSchema>;
export type AgentMessage = z.infer<typeof agentMessageSchema>;
export type Beat = Extract<AgentMessage, { type: 'beat' }>;
export type ControlPlaneMessage = z.infer<typeof controlPlaneMessageSchema>;

/** Why a control plane ends a session: WebSocket close codes of the private range. */
export const closeCodes = {
  /** A frame that breaks the protocol, or too many of them. */
  protocol: 1008,
  /** The replica ends, or cannot reach the log: go to another. */
  goingAway: 1001,
  /** The token is bound to another node, or is no longer valid. */
  refused: 4403,
  /** Another session or another replica has the node now. */
  superseded: 4409,
} as const;

/** The message of a frame, or undefined where it is none. Never throws. */
export function parseFrame<Schema extends z.ZodType>(
  schema: Schema,
  text: string,
): z.output<Schema> | undefined {
  try {
    const parsed = schema.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}
