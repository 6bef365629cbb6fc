/**
 * Messages between a node's agent and a control plane over a WebSocket, one JSON text per frame. The upgrade request carries
 * the token in its `Authorization` header; frames never contain it. An agent sends hello once and then a heartbeat each
 * second. Each heartbeat contains the complete state, so a lost frame does no harm. Any invalid frame ends the session.
 */
import { z } from 'zod';
import { dialectSchema, idSchema, storedNameSchema } from '../names.ts';

export const nodeProtocol = 1;
export const nodeConnectPath = '/nodes/v1/connect';
export const heartbeatIntervalMs = 1000;
/** Number of consecutive missed heartbeats after which a node counts as down. */
export const heartbeatsMissedMax = 3;
export const nodeFrameBytesMax = 512 * 1024;
export const modelsPerNodeMax = 1000;
export const installsPerNodeMax = 100;
export const unlistedMax = 20;

/** Model name as the engine reports it. */
const servedNameSchema = z.string().min(1).max(200);

/** Progress of loading a model, as the control plane requested. The entry disappears once the engine serves the model. */
const installSchema = z.strictObject({
  model: servedNameSchema,
  state: z.enum(['loading', 'failed']),
  /** Progress in percent, if the engine reports it. */
  percent: z.int().min(0).max(100).optional(),
  /** Reason why the load failed. It does not contain secrets. */
  reason: storedNameSchema.optional(),
});

/** Current facts about a node, which are reported live and are not in the log. */
export const liveNodeSchema = z.object({
  /** Seconds since the agent's last heartbeat. */
  beatSeconds: z.number().min(0),
  inFlight: z.int().min(0).optional(),
  installs: z.array(installSchema).max(installsPerNodeMax).optional(),
  /** Number of installs that `installs` does not contain. */
  installsOmitted: z.int().min(1).optional(),
  /** Some of the loaded models that are not in the catalog. */
  unlisted: z.array(servedNameSchema).max(unlistedMax).optional(),
  /** Whether, within the last hour, some of the node's reports were too many or too large to be written to the log. */
  withheld: z.boolean().optional(),
});

export const agentMessageSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('hello'), v: z.literal(nodeProtocol), node: idSchema }),
  z.strictObject({
    type: z.literal('beat'),
    up: z.boolean(),
    /** Reason why the node is down. */
    reason: storedNameSchema.optional(),
    /** Dialect of the engine that the agent detected. Absent until an engine has answered. */
    dialect: dialectSchema.optional(),
    models: z.array(servedNameSchema).max(modelsPerNodeMax),
    /** Context window of each model in tokens, by the engine's name. Absent for models whose window is not reported. */
    windows: z
      .record(servedNameSchema, z.int().min(1))
      .refine((windows) => Object.keys(windows).length <= modelsPerNodeMax)
      .optional(),
    /** Subset of `models` that can accept images. Left out if empty, because control planes of 0.1 refuse the field. */
    imageModels: z.array(servedNameSchema).max(modelsPerNodeMax).optional(),
    /** Subset of `models` that can only rerank. Left out if empty, because older control planes refuse the field. */
    rerankModels: z.array(servedNameSchema).max(modelsPerNodeMax).optional(),
    /** Number of requests that the engine is processing. Absent if the engine does not report it. */
    inFlight: z.int().min(0).max(1_000_000).optional(),
    installs: z.array(installSchema).max(installsPerNodeMax).optional(),
  }),
  /** Announces that the agent is about to stop, so that its node gets no new requests. The reply is `released`. */
  z.strictObject({ type: z.literal('leaving') }),
]);

export const controlPlaneMessageSchema = z.discriminatedUnion('type', [
  /** Lists the models that the node should serve, by the engine's names, according to the state at a position in the log. */
  z.strictObject({
    type: z.literal('installs'),
    position: z.int().min(0),
    models: z.array(servedNameSchema).max(modelsPerNodeMax),
  }),
  /** Confirms that the log contains the agent's departure, so the agent may stop. */
  z.strictObject({ type: z.literal('released') }),
]);

export type LiveNode = z.infer<typeof liveNodeSchema>;
export type Install = z.infer<typeof installSchema>;
export type AgentMessage = z.infer<typeof agentMessageSchema>;
export type Beat = Extract<AgentMessage, { type: 'beat' }>;
export type ControlPlaneMessage = z.infer<typeof controlPlaneMessageSchema>;

/** WebSocket close codes by which a control plane ends a session. */
export const closeCodes = {
  /** A frame broke the protocol, or there were too many frames. */
  protocol: 1008,
  /** The control-plane replica is shutting down or cannot reach the log, so the agent should connect to another one. */
  goingAway: 1001,
  /** The agent's token belongs to another node or is no longer valid. */
  refused: 4403,
  /** Another session of the agent or another replica has taken over the node. */
  superseded: 4409,
} as const;

/** Parses a frame. Returns undefined if it is not a valid message. Never throws. */
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
