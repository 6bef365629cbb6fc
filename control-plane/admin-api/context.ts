/** Defines the parts of a replica that the routes of the admin API use, and helpers for the common parts of requests. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Dispatcher } from 'undici';
import type { z } from 'zod';
import type { readQuerySchema } from '../../schemas/admin/admin-row.ts';
import type { Commit, Via } from '../../schemas/events/commit.ts';
import { personSchema } from '../../schemas/shapes.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import type { Signer } from '../../shared/log/core/signing.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { type Actor, callerName } from '../commands/authorise.ts';
import type { CommandWriter } from '../commands/command-writer.ts';
import type { BodyBudgets } from '../core/body-limits.ts';
import { CommandError } from '../core/command-error.ts';
import type { FleetCounters } from '../gateways/fleet-counters.ts';
import type { FleetGauges } from '../gateways/fleet-gauges.ts';
import type { FleetMemory } from '../gateways/fleet-memory.ts';
import type { FleetTraffic } from '../gateways/fleet-traffic.ts';
import type { GatewayTurns } from '../gateways/gateway-turns.ts';
import type { LiveRequests } from '../gateways/live-requests.ts';
import type { StatusBoard } from '../gateways/status-board.ts';
import type { PastReader, PastStates, StateFacts } from '../history/past.ts';
import type { AgentSessions } from '../nodes/agent-sessions.ts';
import type { LiveNodes } from '../nodes/live-nodes.ts';
import type { SignInLinks } from '../sessions/sign-in-links.ts';
import type { OpenCalls } from '../state/open-calls.ts';
import type { UsageFileState } from '../usage/usage-file.ts';
import type { UsageReader } from '../usage/usage-store.ts';
import type { AttemptLimit } from './attempt-limit.ts';
import type { Drain } from './drain.ts';

/** All parts of a replica that the routes use. Each file of routes declares which of these it needs. */
export interface AdminContext {
  readonly replica: string;
  readonly snapshot: Snapshot;
  readonly replicator: Replicator;
  readonly log: ControlLog;
  readonly signer: Signer | undefined;
  readonly writer: CommandWriter;
  readonly past: PastStates;
  readonly board: StatusBoard;
  readonly fleetMemory: FleetMemory;
  readonly traffic: FleetTraffic;
  readonly agents: AgentSessions;
  readonly live: LiveNodes;
  readonly usage: UsageReader;
  readonly counters: FleetCounters;
  readonly gauges: Pick<FleetGauges, 'uses' | 'gateways' | 'refused' | 'logNow'>;
  /** Queue for questions to gateways, shared by all listeners of this process. */
  readonly gatewayTurns: GatewayTurns;
  readonly liveRequests: LiveRequests;
  readonly bodies: BodyBudgets;
  /** Open calls, counted over all listeners of this process. */
  readonly openCalls: OpenCalls;
  /** Limit on wrong tokens, for the admin API and for nodes. */
  readonly attempts: AttemptLimit;
  /** Longest wait in ms for a gateway that is asked about a decision. Default: 3000. */
  readonly askTimeoutMs: number | undefined;
  /** Number of usage rows by result since this process started. */
  readonly usageCounts: Readonly<Record<'differing' | 'lost' | 'unread' | 'junk', number>>;
  /** Dispatcher for connections to gateways, or undefined to use the default one. */
  readonly gatewayAgent: Dispatcher | undefined;
  /** Returns known damage in `usage.db`. Undefined if nothing checks the file. */
  readonly usageFile: (() => UsageFileState) | undefined;
  listener(): { readonly name: string; readonly isLoopback: boolean; readonly daysLeft?: number | undefined };
  /** Data folder that only this process uses. */
  readonly dataDir: string;
  readonly operatorToken: string;
  readonly gatewayToken: string;
  readonly drain: Drain;
  /** Calls the listener for each batch of folded commits. Returns a function that removes the listener. */
  onCommits(listener: (commits: readonly Commit[]) => void): () => void;
  /** Sign-in links to the console, or undefined if this replica does not serve the console. */
  readonly links: SignInLinks | undefined;
  /** Previous gateway token. It is still accepted while gateways switch to the new token. */
  readonly previousGatewayToken: string | undefined;
  readonly logger: Logger;
}

/** Names of the parts that are needed to ask gateways about recorded decisions. */
export type GatewayQuestions =
  | 'askTimeoutMs'
  | 'board'
  | 'gatewayAgent'
  | 'gatewayToken'
  | 'gatewayTurns'
  | 'previousGatewayToken';

/** Sender of a request, and the channel through which the request came. */
export interface RequestCaller {
  readonly actor: Actor;
  readonly via: Via;
  /** Console session from which the request was sent, if any. */
  readonly session?: string;
}

const callers = new WeakMap<FastifyRequest, RequestCaller>();

/** Sets a request's caller, for listeners that do not identify callers by the operator token. */
export function setCaller(request: FastifyRequest, caller: RequestCaller): void {
  callers.set(request, caller);
}

/** Returns the channel through which a request came, as the log records it. */
export function requestChannel(request: FastifyRequest): Via {
  const caller = callers.get(request);
  if (caller) return caller.via;
  return request.headers['x-headgate-via'] === 'cli' ? 'cli' : 'api';
}

const waitForMinMs = 10_000;

/** Returns the actor of a request: an operator, or a member for whom the operator token or a session acts. */
export function requestActor(request: FastifyRequest): Actor {
  return requestCaller(request).actor;
}

/** Returns the actor of a request and the console session from which it was sent, if any. */
export function requestCaller(request: FastifyRequest): Pick<RequestCaller, 'actor' | 'session'> {
  return callers.get(request) ?? { actor: actorNamed(request) };
}

function actorNamed(request: FastifyRequest): Actor {
  const person = request.headers['x-headgate-as'];
  if (person === undefined) return {};
  const parsed = personSchema.safeParse(person);
  if (!parsed.success) throw new CommandError('Forbidden', 'x-headgate-as must name one person by id');
  return { person: parsed.data };
}

/** Returns a signal that aborts if the client disconnects before the response is sent, so that work for it can stop. */
export function clientSignal(reply: FastifyReply): AbortSignal {
  const client = new AbortController();
  const leave = (): void => client.abort(new CommandError('Busy', 'the client has left'));
  if (reply.raw.destroyed) leave();
  else reply.raw.once('close', leave);
  return client.signal;
}

/** Returns the caller of a request as a reader of past states, with a signal that aborts if the client disconnects. */
export function createPastReader(request: FastifyRequest, reply: FastifyReply): PastReader {
  return { caller: callerName(requestActor(request)), client: clientSignal(reply) };
}

/** Waits until position `min` is folded. Throws `CommandError` after ten seconds. */
export async function awaitPosition(
  { replicator }: Pick<AdminContext, 'replicator'>,
  min: number | undefined,
): Promise<void> {
  if (min !== undefined && !(await replicator.reached(min, waitForMinMs)))
    throw new CommandError('LogUnavailable', `this replica did not reach position ${min} in time`, {
      next: 'try again',
    });
}

/** Opens the state for a read: the state at the moment `at`, or the current state once position `min` is folded. */
export async function openState(
  context: Pick<AdminContext, 'snapshot' | 'replicator' | 'past'>,
  { at, min }: z.infer<typeof readQuerySchema>,
  reader: PastReader,
): Promise<StateFacts> {
  await awaitPosition(context, min);
  if (at === undefined) return context.snapshot;
  const { seq } = await context.past.moment(at, reader);
  return context.past.at(seq, reader);
}

/** Parses a query. Throws an `InvalidCommand` error, which lists every fault. */
export function parseQuery<Schema extends z.ZodType>(schema: Schema, query: unknown): z.output<Schema> {
  const parsed = schema.safeParse(query);
  if (parsed.success) return parsed.data;
  const details = parsed.error.issues.map(({ path, message }) => ({ path: path.join('.'), message }));
  throw new CommandError(
    'InvalidCommand',
    `the query is not valid: ${details[0]?.path}: ${details[0]?.message}`,
    { details },
  );
}
