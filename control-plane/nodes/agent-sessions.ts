/**
 * Sessions of the agents that are attached to this replica. Heartbeats determine who owns a node and whether it is healthy.
 * An outage is reported at once, a recovery only after a delay. Heartbeats themselves never enter the log, and each node's
 * reports are limited. Every heartbeat and every scan compares the node's state with the log, so a failed report is repeated
 * soon.
 */
import {
  type Beat,
  closeCodes,
  heartbeatIntervalMs,
  type LiveNode,
} from '../../schemas/records/node-messages.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { RateLimitedLine } from '../../shared/runtime/rate-limited-line.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { AbsentAgents } from './absent-agents.ts';
import { Admissions } from './admissions.ts';
import { type AgentAdmission, AgentConnection, type AgentSocket, type EndCause } from './agent-connection.ts';
import { Installs } from './installs.ts';
import type { NodeIntervals } from './intervals.ts';
import {
  buildNodesReport,
  type HeldHeartbeat,
  type NodesReport,
  toHeldHeartbeat,
  toLiveNode,
} from './live-report.ts';
import { down, type Health, toHealth } from './node-health.ts';
import { NodeLimits } from './node-limits.ts';
import type { NodeReporter } from './node-reporter.ts';
import { OrphanedNodes } from './orphaned-nodes.ts';
import type { ReplicaLiveness } from './replica-liveness.ts';
import { nextState, type SessionEffect, type SessionEvent, type SessionState } from './session-state.ts';

export interface AgentSessionsOptions {
  readonly reporter: NodeReporter;
  readonly liveness: ReplicaLiveness;
  readonly snapshot: Snapshot;
  /** Whether this replica can reach the log. If it cannot, agents are sent to another replica. */
  readonly canReport: () => boolean;
  /** Returns the credential with this name, or undefined if this replica does not have it. */
  readonly credential: (name: string) => string | undefined;
  readonly intervals: NodeIntervals;
  /** Warns about reports on nodes that were kept out of the log, with their number per node. */
  readonly withheld: RateLimitedLine;
  readonly logger: Logger;
}

interface AgentSession {
  readonly node: string;
  readonly connection: AgentConnection;
  state: SessionState;
  held: HeldHeartbeat;
  /** Monotonic time in ms when the last heartbeat arrived. */
  heartbeatMs: number;
  /** The installed models last sent to the agent, as JSON. */
  sentInstalls: string | undefined;
}

/** Details of a session event, which the event's effects need. */
interface EventDetails {
  /** Health to report. Undefined while the node has not been up for long enough. */
  readonly health?: Health | undefined;
  readonly cause?: EndCause;
  readonly reason?: string;
}

/** Age in ms of the last heartbeat above which an agent counts as silent. */
const reportingMsMax = 2 * heartbeatIntervalMs;

const lostReasons: Readonly<Record<EndCause, string>> = {
  lost: 'its agent is gone',
  silent: 'no heartbeat in time',
  protocol: 'its agent misbehaves',
  dismissed: 'its agent was sent away',
};

export class AgentSessions {
  readonly #options: AgentSessionsOptions;
  /** Attached sessions, by node id. */
  readonly #attached = new Map<string, AgentSession>();
  /** Sessions that have not sent a heartbeat yet. */
  readonly #connected = new Set<AgentSession>();
  readonly #limits = new Map<string, NodeLimits>();
  readonly #orphans: OrphanedNodes;
  readonly #absent: AbsentAgents;
  readonly #installs: Installs;
  readonly #admissions: Admissions;
  #stopping = false;

  constructor(options: AgentSessionsOptions) {
    const { db } = options.snapshot;
    this.#options = options;
    this.#installs = new Installs(db);
    this.#admissions = new Admissions(db);
    const isAttached = (id: string): boolean => this.#attached.has(id);
    this.#absent = new AbsentAgents({
      ...{ ...options, isAttached },
      canAttach: (id) => this.#admissions.canAttach(id),
      reportingAndSilent: () => this.#reportingAndSilent(),
      reportDown: (id, reason) => this.#reportDown(id, reason),
    });
    this.#orphans = new OrphanedNodes({
      ...{ ...options, isAttached },
      verify: (id, reason) => this.#absent.verify(id, reason),
      onScan: (known) => this.#onScan(known),
      onLogUnreachable: () => this.#dismissAll('this replica cannot reach the log now'),
    });
  }

  get count(): number {
    return this.#attached.size;
  }

  start(): void {
    this.#orphans.start();
  }

  /** Sends all agents to other replicas. The state of their nodes does not change. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#dismissAll('this replica ends');
    await Promise.all([this.#orphans.stop(), this.#absent.stop()]);
  }

  /** Returns the node and token id for a token, or undefined if the token is unknown or revoked. */
  admit(token: string): AgentAdmission | undefined {
    return this.#admissions.of(token);
  }

  /** Returns why no agent may attach to this node now. If one may, counts the attempt and returns undefined. */
  obstacle({ node }: AgentAdmission): 'elsewhere' | 'too-often' | 'not-by-agent' | undefined {
    if (this.#stopping || !this.#options.canReport()) return 'elsewhere';
    if (this.#options.reporter.node(node)?.agent !== 1) return 'not-by-agent';
    return this.#limitsOf(node).attaches.tryAcquire() ? undefined : 'too-often';
  }

  /** Starts a session on a socket whose token was admitted. */
  attach(socket: AgentSocket, admission: AgentAdmission): void {
    const session: AgentSession = {
      node: admission.node,
      connection: new AgentConnection(socket, admission, this.#options.intervals.agentSilenceMsMax, {
        onHeartbeat: (heartbeat) => this.#onHeartbeat(session, heartbeat),
        onLeaving: () => this.#dispatch(session, 'stop-announced'),
        onEnd: (cause) => this.#onEnd(session, cause),
      }),
      state: 'connected',
      held: {},
      heartbeatMs: performance.now(),
      sentInstalls: undefined,
    };
    if (this.#stopping) session.connection.dismiss(closeCodes.goingAway, 'this replica ends');
    else this.#connected.add(session);
  }

  /** Schedules a scan. Call it after commits that may affect agents: revoked tokens, removed nodes, installed models. */
  stateMoved(): void {
    this.#orphans.scheduleScan();
  }

  live(id: string): LiveNode | undefined {
    const session = this.#attached.get(id);
    if (!session) return undefined;
    return { beatSeconds: Math.round(performance.now() - session.heartbeatMs) / 1000, ...session.held };
  }

  /**
   * Returns the live state of attached nodes, for other replicas. It is limited in size, because it must fit into one record.
   */
  report(): NodesReport {
    const all = new Map<string, LiveNode>();
    for (const id of this.#attached.keys()) {
      const live = this.live(id);
      if (live) all.set(id, live);
    }
    return buildNodesReport(all);
  }

  /** Returns the number of reporting and silent nodes. Counts late heartbeats as silence, to detect a common cause early. */
  #reportingAndSilent(): readonly [number, number] {
    const sinceMs = performance.now() - reportingMsMax;
    let reporting = 0;
    for (const { heartbeatMs } of this.#attached.values()) reporting += Number(heartbeatMs > sinceMs);
    return [reporting, this.#attached.size - reporting + this.#orphans.count];
  }

  #dispatch(session: AgentSession, event: SessionEvent, details: EventDetails = {}): void {
    const { to, effects } = nextState(session.state, event);
    session.state = to;
    for (const effect of effects) this.#effects[effect](session, details);
  }

  readonly #effects: Readonly<Record<SessionEffect, (session: AgentSession, details: EventDetails) => void>> =
    {
      attach: (session) => this.#attach(session),
      claim: (session, { health }) => this.#claim(session, health),
      report: (session, { health }) => this.#report(session, health),
      'record-stop': (session) => this.#recordStop(session),
      'send-released': ({ connection }) => connection.send({ type: 'released' }),
      'close-superseded': ({ connection }) =>
        connection.dismiss(closeCodes.superseded, 'another replica has claimed this node'),
      'close-revoked': ({ connection }) =>
        connection.dismiss(closeCodes.refused, 'the token is no longer valid'),
      detach: ({ node }, { cause = 'dismissed' }) => {
        this.#attached.delete(node);
        this.#orphans.agentDetached(node);
        this.#options.logger.info({ node, cause }, 'agent disconnected');
      },
      verify: ({ node }, { reason = lostReasons.lost }) => this.#absent.verify(node, reason),
      'report-down': ({ node }, { reason = lostReasons.lost }) => {
        this.#reportDown(node, reason).catch(() => undefined);
      },
    };

  #onHeartbeat(session: AgentSession, heartbeat: Beat): void {
    session.held = toHeldHeartbeat(heartbeat);
    session.heartbeatMs = performance.now();
    if (session.state === 'connected') {
      const isAdmitted = this.#admissions.isValid(session.connection.admission);
      this.#dispatch(session, isAdmitted ? 'first-heartbeat' : 'token-revoked');
    }
    // Ignores heartbeats of an agent that is stopping, so that they do not delay its next start.
    if (!['leaving', 'released', 'ended'].includes(session.state)) this.#reconcile(session, heartbeat);
  }

  /** Compares the owner and health in the log with a heartbeat, and dispatches the resulting event. */
  #reconcile(session: AgentSession, heartbeat: Beat): void {
    const { reporter } = this.#options;
    const row = reporter.node(session.node);
    if (!row) return;
    const { health: observed, unlisted } = reporter.partForLog(row, toHealth(heartbeat, row));
    const limits = this.#limitsOf(session.node);
    session.held = { ...session.held, ...toLiveNode(unlisted, limits) };
    const damped = limits.observe(row, observed.up);
    const health = !observed.up || damped.reportedUp === true ? observed : undefined;
    const { owner } = row;
    if (owner === null) this.#dispatch(session, 'heartbeat-unowned', { health });
    else if (owner !== reporter.owner) this.#dispatch(session, 'heartbeat-foreign', { health });
    else if (health && reporter.differs(session.node, health))
      this.#dispatch(session, 'heartbeat-changed', { health });
    else this.#dispatch(session, 'heartbeat-unchanged');
  }

  /** Makes `session` the node's session, and ends the node's earlier one. */
  #attach(session: AgentSession): void {
    const { node } = session;
    this.#connected.delete(session);
    const earlier = this.#attached.get(node);
    earlier?.connection.dismiss(closeCodes.superseded, 'another session has this node now');
    this.#attached.set(node, session);
    this.#options.logger.info({ node }, 'agent attached');
    this.#sendInstalls(session);
  }

  #claim(session: AgentSession, health: Health | undefined): void {
    const { reporter } = this.#options;
    const { node } = session;
    // Refuses frequent claims, because two agents with the same token would move their node between two replicas forever.
    if (reporter.mayClaim(node)) {
      const isAdmitted = health !== undefined && this.#admits(node, health);
      this.#track(session, isAdmitted ? reporter.claimAndReport(node, health) : reporter.claim(node));
    } else session.connection.dismiss(closeCodes.goingAway, 'this node changes its replica too often');
  }

  #report(session: AgentSession, health: Health | undefined): void {
    const { node } = session;
    const isTooOften = health?.up === true && !this.#limitsOf(node).reports.tryAcquire();
    if (!health || isTooOften || !this.#admits(node, health)) this.#dispatch(session, 'report-failed');
    else this.#track(session, this.#options.reporter.reportHealth(node, health));
  }

  #admits(id: string, health: Health): boolean {
    const row = this.#options.reporter.node(id);
    const isAdmitted = row !== undefined && this.#limitsOf(id).admits(health, row);
    if (!isAdmitted) this.#options.withheld.add(id);
    return isAdmitted;
  }

  #track(session: AgentSession, report: Promise<unknown>): void {
    report.then(
      () => this.#dispatch(session, 'report-acked'),
      (error: unknown) => {
        this.#logUnreported(session.node, error);
        this.#dispatch(session, 'report-failed');
      },
    );
  }

  #recordStop(session: AgentSession): void {
    this.#reportDown(session.node, 'its agent was stopped').then(
      () => this.#dispatch(session, 'stop-recorded'),
      () => undefined,
    );
  }

  #onEnd(session: AgentSession, cause: EndCause): void {
    this.#connected.delete(session);
    if (cause === 'dismissed') this.#dispatch(session, 'dismissed', { cause });
    else {
      const noticed = cause === 'protocol' ? 'misbehaved' : 'lost';
      const event = this.#orphans.hasRunContinuously ? noticed : 'lost-while-starved';
      this.#dispatch(session, event, { cause, reason: lostReasons[cause] });
    }
  }

  /**
   * Reports the node down, if the log does not say so yet. Rejects if the log cannot be written; the next scan tries again.
   */
  async #reportDown(id: string, reason: string): Promise<void> {
    const { reporter } = this.#options;
    const row = reporter.node(id);
    if (!row) return;
    this.#limitsOf(id).observe(row, false);
    const health = down(reason);
    try {
      if (row.owner === reporter.owner && reporter.differs(id, health))
        await reporter.reportHealth(id, health);
    } catch (error) {
      this.#logUnreported(id, error);
      throw error;
    }
  }

  /** Ends sessions whose node was removed or whose token was revoked. Sends changed lists of installed models to the rest. */
  #onScan(known: ReadonlySet<string>): void {
    for (const session of [...this.#attached.values()]) {
      if (known.has(session.node) && this.#admissions.isValid(session.connection.admission))
        this.#sendInstalls(session);
      else this.#dispatch(session, 'token-revoked', { reason: 'its token was revoked' });
    }
    for (const node of this.#limits.keys()) if (!known.has(node)) this.#limits.delete(node);
  }

  #sendInstalls(session: AgentSession): void {
    const row = this.#options.reporter.node(session.node);
    const models = row && this.#installs.of(row);
    if (models === undefined) return;
    const text = JSON.stringify(models);
    if (text === session.sentInstalls) return;
    session.sentInstalls = text;
    const position = this.#options.snapshot.seq;
    session.connection.send({ type: 'installs', position, models: [...models] });
  }

  #dismissAll(reason: string): void {
    for (const { connection } of [...this.#connected, ...this.#attached.values()])
      connection.dismiss(closeCodes.goingAway, reason);
  }

  #limitsOf(id: string): NodeLimits {
    const limits = this.#limits.get(id) ?? new NodeLimits();
    this.#limits.set(id, limits);
    return limits;
  }

  #logUnreported(node: string, error: unknown): void {
    const reason = error instanceof Error ? error.message : 'unknown';
    this.#options.logger.debug({ node, reason }, 'node not reported');
  }
}
