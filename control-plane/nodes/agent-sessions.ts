/**
 * The nodes that agents report on: who is attached here, what their beats mean, and which nodes nobody reports on.
 * An attached agent's node is claimed for this replica. A lost socket or three missed beats are a down at once; only up
 * is damped. Beats never enter the log, and what does is bounded for each node, whatever its agent sends. All of it is
 * worked out anew from the present at each beat and each look, so that a report that failed is made up for by the next.
 */
import { type Beat, closeCodes, type LiveNode } from '../../schemas/node-messages.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { Admissions } from './admissions.ts';
import { type Admission, AgentSession, type AgentSocket, type EndCause } from './agent-session.ts';
import { Installs } from './installs.ts';
import { type HeldBeat, heldOf, type NodesReport, reportOf } from './live-report.ts';
import { down, healthOf, NodeMemory } from './node-memory.ts';
import type { Health, NodeReporter, NodeRow } from './node-reporter.ts';
import { Vacancies } from './orphaned-nodes.ts';
import type { Owners } from './replica-liveness.ts';

export interface AgentSessionsOptions {
  readonly reporter: NodeReporter;
  readonly owners: Owners;
  readonly snapshot: Snapshot;
  /** Does this replica reach the log? Where it does not, agents are sent to another. */
  readonly canReport: () => boolean;
  readonly logger: Logger;
}

interface Attached {
  readonly session: AgentSession;
  held: HeldBeat;
  beatMs: number;
  /** The node was seen as this replica's since it attached. */
  joined: boolean;
  telling: boolean;
  leaving: boolean;
  /** The installs last sent. */
  pushed: string | undefined;
}

export class AgentSessions {
  readonly #options: AgentSessionsOptions;
  readonly #attached = new Map<string, Attached>();
  readonly #pending = new Set<AgentSession>();
  readonly #memory = new Map<string, NodeMemory>();
  readonly #vacancies: Vacancies;
  readonly #installs: Installs;
  readonly #admissions: Admissions;
  #stopping = false;

  constructor(options: AgentSessionsOptions) {
    const { db } = options.snapshot;
    this.#options = options;
    this.#installs = new Installs(db);
    this.#admissions = new Admissions(db);
    this.#vacancies = new Vacancies({
      ...options,
      isAttached: (id) => this.#attached.has(id),
      fell: (id, reason) => this.#fell(id, reason),
      onLook: (known) => this.#look(known),
      onCutOff: () => this.#dismissAll('this replica cannot reach the log now'),
    });
  }

  get count(): number {
    return this.#attached.size;
  }

  start(): void {
    this.#vacancies.start();
  }

  /** Sends the agents to other replicas; their nodes stay as they are. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#dismissAll('this replica ends');
    await this.#vacancies.stop();
  }

  /** What a token stands for; undefined where it is unknown or revoked. */
  admit(token: string): Admission | undefined {
    return this.#admissions.of(token);
  }

  /** Why no agent may attach for this node now; undefined where it may, and then it counts. */
  obstacle({ node }: Admission): 'elsewhere' | 'too-often' | 'not-by-agent' | undefined {
    if (this.#stopping || !this.#options.canReport()) return 'elsewhere';
    if (this.#options.reporter.node(node)?.agent !== 1) return 'not-by-agent';
    return this.#memoryOf(node).attaches.take() ? undefined : 'too-often';
  }

  /** Takes over a socket whose token was admitted. */
  attach(socket: AgentSocket, admission: Admission): void {
    let attached: Attached | undefined;
    const session: AgentSession = new AgentSession(socket, admission, {
      onBeat: (beat) => {
        attached ??= this.#begin(session, beat);
        if (attached) this.#take(attached, beat);
      },
      onLeaving: () => {
        if (attached) this.#leave(attached);
      },
      onEnd: (cause) => {
        this.#pending.delete(session);
        if (attached) this.#end(attached, cause);
      },
    });
    if (this.#stopping) session.dismiss(closeCodes.goingAway, 'this replica ends');
    else this.#pending.add(session);
  }

  /** After commits that may concern agents: tokens revoked, nodes removed, models installed. */
  stateMoved(): void {
    this.#vacancies.lookSoon();
  }

  live(id: string): LiveNode | undefined {
    const attached = this.#attached.get(id);
    if (!attached) return undefined;
    return { beatSeconds: Math.round(performance.now() - attached.beatMs) / 1000, ...attached.held };
  }

  /** Of all nodes attached here, for other replicas to know; bounded, because it goes into one record. */
  report(): NodesReport {
    const all = new Map<string, LiveNode>();
    for (const id of this.#attached.keys()) {
      const live = this.live(id);
      if (live) all.set(id, live);
    }
    return reportOf(all);
  }

  /** The first beat makes a session the one of its node. */
  #begin(session: AgentSession, beat: Beat): Attached | undefined {
    this.#pending.delete(session);
    const { node } = session.admission;
    if (!this.#admissions.holds(session.admission)) {
      session.dismiss(closeCodes.refused, 'the token is no longer valid');
      return undefined;
    }
    this.#attached.get(node)?.session.dismiss(closeCodes.superseded, 'another session has this node now');
    const attached: Attached = {
      session,
      held: heldOf(beat),
      beatMs: performance.now(),
      joined: false,
      telling: false,
      leaving: false,
      pushed: undefined,
    };
    this.#attached.set(node, attached);
    this.#options.logger.info({ node }, 'agent attached');
    this.#push(attached);
    return attached;
  }

  #take(attached: Attached, beat: Beat): void {
    attached.held = heldOf(beat);
    attached.beatMs = performance.now();
    if (!attached.leaving) this.#consider(attached, beat);
  }

  /** Brings claim and health of the node in line with its last beat. */
  #consider(attached: Attached, beat: Beat): void {
    const { session } = attached;
    const { reporter } = this.#options;
    const { node: id } = session.admission;
    const row = reporter.node(id);
    if (!row) return;
    const memory = this.#memoryOf(id);
    const health = healthOf(beat, row);
    const damped = memory.observe(row, health.up);
    const tellable = !health.up || damped.told === true ? health : undefined;
    if (row.owner !== reporter.owner) {
      this.#claim(attached, row, tellable);
      return;
    }
    attached.joined = true;
    if (attached.telling || !tellable || !reporter.differs(id, tellable)) return;
    if (tellable.up && !memory.tells.take()) return;
    this.#told(attached, reporter.tell(id, tellable));
  }

  #claim(attached: Attached, row: NodeRow, health: Health | undefined): void {
    const { reporter, owners } = this.#options;
    const { session } = attached;
    const { node } = session.admission;
    if (attached.joined && row.owner !== null) {
      session.dismiss(closeCodes.superseded, 'another replica has claimed this node');
    } else if (!attached.telling) {
      // Two agents with one token would hand their node to and fro without end.
      if (owners.gone()(row.owner) || this.#memoryOf(node).takeovers.take())
        this.#told(attached, health ? reporter.claimAndTell(node, health) : reporter.claim(node));
      else session.dismiss(closeCodes.goingAway, 'this node changes its replica too often');
    }
  }

  #told(attached: Attached, telling: Promise<unknown>): void {
    attached.telling = true;
    telling
      .catch((error: unknown) => this.#unreported(attached.session.admission.node, error))
      .finally(() => {
        attached.telling = false;
      });
  }

  #leave(attached: Attached): void {
    if (attached.leaving) return;
    attached.leaving = true;
    const { session } = attached;
    this.#fell(session.admission.node, 'its agent was stopped').then(
      () => session.send({ type: 'released' }),
      () => undefined,
    );
  }

  #end(attached: Attached, cause: EndCause): void {
    const { node } = attached.session.admission;
    if (this.#attached.get(node) !== attached) return;
    this.#attached.delete(node);
    this.#vacancies.left(node);
    this.#options.logger.info({ node, cause }, 'agent gone');
    // What a replica missed while it did not run itself proves nothing; then the node's time to come back counts.
    if (cause === 'dismissed' || attached.leaving || !this.#vacancies.awake) return;
    const reason = { lost: 'its agent is gone', silent: 'no beat in time', protocol: 'its agent misbehaves' }[
      cause
    ];
    this.#fell(node, reason).catch(() => undefined);
  }

  /** Tells that a node is down. Rejects where the log cannot be written; the next look tells again. */
  async #fell(id: string, reason: string): Promise<void> {
    const { reporter } = this.#options;
    const row = reporter.node(id);
    if (!row) return;
    this.#memoryOf(id).observe(row, false);
    const health = down(reason);
    try {
      if (row.owner === reporter.owner && reporter.differs(id, health)) await reporter.tell(id, health);
    } catch (error) {
      this.#unreported(id, error);
      throw error;
    }
  }

  /** Ends what may no longer be, forgets what is gone, pushes what is new. */
  #look(known: ReadonlySet<string>): void {
    for (const [node, attached] of [...this.#attached]) {
      if (known.has(node) && this.#admissions.holds(attached.session.admission)) {
        this.#push(attached);
      } else {
        attached.session.dismiss(closeCodes.refused, 'the token is no longer valid');
        this.#fell(node, 'its token was revoked').catch(() => undefined);
      }
    }
    for (const node of this.#memory.keys()) if (!known.has(node)) this.#memory.delete(node);
  }

  #push(attached: Attached): void {
    const row = this.#options.reporter.node(attached.session.admission.node);
    const models = row && this.#installs.of(row);
    if (models === undefined) return;
    const text = JSON.stringify(models);
    if (text === attached.pushed) return;
    attached.pushed = text;
    attached.session.send({ type: 'installs', position: this.#options.snapshot.seq, models: [...models] });
  }

  #dismissAll(reason: string): void {
    for (const session of [...this.#pending]) session.dismiss(closeCodes.goingAway, reason);
    for (const { session } of [...this.#attached.values()]) session.dismiss(closeCodes.goingAway, reason);
  }

  #memoryOf(id: string): NodeMemory {
    const memory = this.#memory.get(id) ?? new NodeMemory();
    this.#memory.set(id, memory);
    return memory;
  }

  #unreported(node: string, error: unknown): void {
    const reason = error instanceof Error ? error.message : 'unknown';
    this.#options.logger.debug({ node, reason }, 'node not reported');
  }
}
