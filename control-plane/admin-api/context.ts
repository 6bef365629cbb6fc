/** What the routes of the admin API work with, and how a request's common parts are read. */
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

/** All parts that the routes of a replica work with. Each file of routes declares the parts that it needs. */
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
  /** Of all listeners of this process. */
  readonly gatewayTurns: GatewayTurns;
  readonly liveRequests: LiveRequests;
  readonly bodies: BodyBudgets;
  /** The same. */
  readonly openCalls: OpenCalls;
  /** Of the tokens of the admin API and of nodes. */
  readonly attempts: AttemptLimit;
  /** For how long a gateway is waited for that is asked for a decision; undefined: 3 s. */
  readonly askTimeoutMs: number | undefined;
  /** Rows of usage by result, since the start. */
  readonly usageCounts: Readonly<Record<'differing' | 'lost' | 'unread' | 'junk', number>>;
  /** Opens connections to gateways; undefined: the one of all clients. */
  readonly gatewayAgent: Dispatcher | undefined;
  /** What is known of damage in usage.db; absent where nothing looks for it. */
  readonly usageFile: (() => UsageFileState) | undefined;
  /** The listener of the admin API. */
  listener(): { readonly name: string; readonly isLoopback: boolean; readonly daysLeft?: number | undefined };
  /** The folder of this process alone. */
  readonly dataDir: string;
  readonly operatorToken: string;
  readonly gatewayToken: string;
  readonly drain: Drain;
  /** Calls back for each batch of commits once it is folded, until the function it returns is called. */
  onCommits(listener: (commits: readonly Commit[]) => void): () => void;
  /** Makes sign-in links to the console; absent where this replica has none. */
  readonly links: SignInLinks | undefined;
  /** Also accepted, while gateways change over. */
  readonly previousGatewayToken: string | undefined;
  readonly logger: Logger;
}

/** Parts with which gateways are asked for recorded decisions. */
export type GatewayQuestions =
  | 'askTimeoutMs'
  | 'board'
  | 'gatewayAgent'
  | 'gatewayToken'
  | 'gatewayTurns'
  | 'previousGatewayToken';

/** Who sent a request, and by which way. */
export interface RequestCaller {
  readonly actor: Actor;
  readonly via: Via;
  /** Of the console. */
  readonly session?: string;
}

const callers = new WeakMap<FastifyRequest, RequestCaller>();

/** For listeners that identify their callers by other means than the operator's token. */
export function setCaller(request: FastifyRequest, caller: RequestCaller): void {
  callers.set(request, caller);
}

/** The way by which a request came, for the log. */
export function requestChannel(request: FastifyRequest): Via {
  const caller = callers.get(request);
  if (caller) return caller.via;
  return request.headers['x-headgate-via'] === 'cli' ? 'cli' : 'api';
}

const waitForMinMs = 10_000;

/** Who acts: the operator, or a member in whose name the operator's token is used. */
export function requestActor(request: FastifyRequest): Actor {
  return requestCaller(request).actor;
}

/** The same, and by which session. */
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

/** Aborts where the client leaves before its answer, so that nobody waits for work that nobody reads. */
export function clientSignal(reply: FastifyReply): AbortSignal {
  const client = new AbortController();
  const leave = (): void => client.abort(new CommandError('Busy', 'the client has left'));
  if (reply.raw.destroyed) leave();
  else reply.raw.once('close', leave);
  return client.signal;
}

/** Who reads the past by a request, until its client leaves. */
export function createPastReader(request: FastifyRequest, reply: FastifyReply): PastReader {
  return { caller: callerName(requestActor(request)), client: clientSignal(reply) };
}

/** Waits until this commit is folded. */
export async function awaitPosition(
  { replicator }: Pick<AdminContext, 'replicator'>,
  min: number | undefined,
): Promise<void> {
  if (min !== undefined && !(await replicator.reached(min, waitForMinMs)))
    throw new CommandError('LogUnavailable', `position ${min} was not folded in time`, {
      next: 'try again',
    });
}

/** The state a read is answered from: now, at a moment of the past, or once a position is folded. */
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

/** Throws InvalidCommand with every fault. */
export function parseQuery<Schema extends z.ZodType>(schema: Schema, query: unknown): z.output<Schema> {
  const parsed = schema.safeParse(query);
  if (parsed.success) return parsed.data;
  const details = parsed.error.issues.map(({ path, message }) => ({ path: path.join('.'), message }));
  throw new CommandError(
    'InvalidCommand',
    `the query cannot be used: ${details[0]?.path}: ${details[0]?.message}`,
    { details },
  );
}
