/**
 * Checks what the simulated fleet does: every answer against the oracle, every record on the log, and at the end what must
 * hold once all faults are over. A violation ends the run.
 */
import { controlTopic } from '../../schemas/events/commit.ts';
import { statusTopic } from '../../schemas/records/status.ts';
import { usageTopic } from '../../schemas/records/usage.ts';
import type { Exchange } from './clients.ts';
import type { Member } from './fleet.ts';
import type { Journal } from './journal.ts';
import { Limits } from './limits.ts';
import type { CommandOutcome } from './operators.ts';
import { type Allowed, answerOf, type ClientRequest, Oracle, tierOf } from './oracle.ts';
import type { Scheduler } from './scheduler.ts';

/** Age of a gateway's last proof of freshness, in ms, from which it must not accept keys. */
const fencedAfterMs = 45_000;
/**
 * Time for which a node's trouble may cause refusals, in ms. The trouble must first be noticed, and the node's return is
 * delayed on purpose.
 */
const troubleMs = 60_000;

/** A kill may lose the usage rows of requests that ended this many ms before it. */
const rowLossMs = 30;

export class Violation extends Error {
  override readonly name = 'Violation';
}

interface UsageRow {
  readonly requestId: string;
  readonly incarnation: string;
  readonly n: number;
}

/** Position of the log that decisions on later requests must include, and the time from which this holds. */
interface Floor {
  readonly position: number;
  readonly atMs: number;
}

export class Referee {
  readonly oracle = new Oracle();
  violation: Violation | undefined;
  readonly counts = { answers: 0, completed: 0, refused: 0, lost: 0, commits: 0, skipped: 0 };
  readonly #scheduler: Scheduler;
  readonly #journal: Journal;
  /** For each gateway process, the positions of the log that its earlier answers prove it has reached. */
  readonly #floors = new WeakMap<object, Floor[]>();
  /** Positions that all gateways have confirmed, and the times at which the operator learned of it. */
  readonly #confirmed: Floor[] = [];
  /**
   * Troubles of each machine, such as being down or cut off: the number that still last, and the time at which the latest one
   * ended.
   */
  readonly #troubles = new Map<string, { lasting: number; endedMs: number }>();
  readonly #kills: { readonly machine: string; readonly atMs: number }[] = [];
  /** Latest status report of each process. */
  readonly #reports = new Map<string, { readonly applied: number; readonly digest: string }>();
  readonly #digests = new Map<string, { readonly digest: string; readonly by: string }>();
  /** Name of the node that answered each prompt. */
  readonly #servedBy = new Map<string, string>();
  readonly #asked = new Map<string, { readonly organisation: string; readonly model: string }>();
  readonly #limits: Limits;
  readonly #rows = new Map<string, UsageRow>();
  readonly #completed = new Map<string, { readonly gateway: string; readonly endedMs: number }>();

  constructor(scheduler: Scheduler, journal: Journal, gateways: number) {
    this.#scheduler = scheduler;
    this.#journal = journal;
    this.#limits = new Limits({
      ...{ scheduler, oracle: this.oracle, gateways },
      hadFault: (sinceMs) =>
        [...this.#troubles.keys()].some(
          (machine) => machine.startsWith('gateway') && this.#hadTrouble(machine, sinceMs),
        ),
      fail: (what) => this.fail('I14', what),
    });
  }

  fail(rule: string, what: string): void {
    if (this.violation !== undefined) return;
    this.violation = new Violation(`${rule}: ${what}`);
    this.#journal.note('VIOLATION', this.violation.message);
  }

  /** Notes that something has begun to trouble the machine (1), or no longer does (-1). */
  trouble(machine: string, begins: 1 | -1): void {
    const troubles = this.#troubles.get(machine) ?? { lasting: 0, endedMs: 0 };
    troubles.lasting += begins;
    troubles.endedMs = this.#scheduler.nowMs;
    this.#troubles.set(machine, troubles);
  }

  killed(machine: string): void {
    this.#kills.push({ machine, atMs: this.#scheduler.nowMs });
  }

  #hadTrouble(machine: string, sinceMs: number): boolean {
    const { lasting, endedMs } = this.#troubles.get(machine) ?? {
      lasting: 0,
      endedMs: Number.NEGATIVE_INFINITY,
    };
    return lasting > 0 || endedMs >= sinceMs;
  }

  confirmed(position: number): void {
    this.#confirmed.push({ position, atMs: this.#scheduler.nowMs });
  }

  /** Notes that a client has sent a request, so that the organisation's limits can be checked when a node answers. */
  asked(prompt: string, { key, model }: ClientRequest): void {
    const organisation = key === undefined ? undefined : this.oracle.organisationOf(key);
    if (organisation !== undefined) this.#asked.set(prompt, { organisation, model });
  }

  /** Notes that a node has begun to answer a request, and checks that no other node has received it. */
  began(prompt: string, node: string): void {
    const before = this.#servedBy.get(prompt);
    if (before !== undefined)
      this.fail('answer', `${prompt} was sent to ${node}, although ${before} had received it`);
    this.#servedBy.set(prompt, node);
    const asked = this.#asked.get(prompt);
    if (asked === undefined) this.fail('answer', `${node} answers ${prompt}, whose key nobody has`);
    else this.#limits.began(prompt, asked.organisation, asked.model);
  }

  /** Notes that a node has finished answering a request. */
  ended(prompt: string): void {
    const { organisation } = this.#asked.get(prompt) ?? {};
    if (organisation !== undefined) this.#limits.ended(prompt, organisation);
  }

  onRecord(topic: string, _offset: number, value: Buffer): void {
    if (topic === controlTopic) {
      const isAccepted = this.oracle.fold(value, this.#scheduler.nowMs);
      this.counts[isAccepted ? 'commits' : 'skipped']++;
      if (isAccepted) this.#journal.note('log', `${this.oracle.end} ${describeEvents(value)}`);
    } else if (topic === statusTopic) this.#onStatus(JSON.parse(value.toString()));
    else if (topic === usageTopic) this.#onUsage(JSON.parse(value.toString()));
  }

  /** Checks invariant I1: all processes at the same position have the same digest. */
  #onStatus(report: { name: string; applied: number; digest: string; foldVersion: number }): void {
    this.#reports.set(report.name, report);
    const at = `${report.applied} in version ${report.foldVersion}`;
    const found = this.#digests.get(at);
    if (found === undefined) this.#digests.set(at, { digest: report.digest, by: report.name });
    else if (found.digest !== report.digest)
      this.fail('I1', `digests of ${report.name} and ${found.by} differ at position ${at}`);
  }

  /** Checks invariant I8: no request is counted twice. A publisher may repeat a row with the same number. */
  #onUsage(rows: readonly UsageRow[]): void {
    for (const row of rows) {
      const found = this.#rows.get(row.requestId);
      if (found && (found.incarnation !== row.incarnation || found.n !== row.n))
        this.fail('I8', `two usage rows of ${row.requestId}`);
      this.#rows.set(row.requestId, row);
    }
  }

  onExchange({ request, prompt, gateway, beganMs, endedMs, answer, isAbandoned }: Exchange): void {
    const process = gateway.process as object;
    const { stack, model } = request;
    const { organisation = 'nobody' } = this.#asked.get(prompt) ?? {};
    const where = `${gateway.name} ${stack ?? 'shared'} ${model} of ${organisation}`;
    if (answer === undefined) {
      this.counts.lost++;
      this.#journal.note('client', `${where} lost`);
      const nodes = [this.#servedBy.get(prompt) ?? ''];
      if (
        !isAbandoned &&
        ![gateway.name, ...nodes].some((machine) => this.#hadTrouble(machine, beganMs - 1000))
      )
        this.fail('answer', `${where}: the connection was lost without a fault`);
      return;
    }
    const requestId = String(answer.headers['x-request-id']);
    const refusal = answer.status === 200 ? undefined : (JSON.parse(answer.text).error.type as string);
    const node = this.#servedBy.get(prompt);
    this.#journal.note('client', `${where} ${refusal ?? `answered by ${node}`} ${requestId}`);
    this.counts.answers++;
    this.counts[refusal === undefined ? 'completed' : 'refused']++;
    if (refusal === undefined) this.#completed.set(requestId, { gateway: gateway.name, endedMs });
    const to = this.oracle.end;
    const from = this.#from(process, beganMs);
    for (let position = from; position <= to; position++) {
      if (!this.#explains(position, request, gateway, beganMs, { refusal, node })) continue;
      this.#floors.set(process, [...(this.#floors.get(process) ?? []), { position, atMs: endedMs }]);
      return;
    }
    const allowed = answerOf(this.oracle.states[to] as never, request, this.#scheduler.wallMs(gateway));
    this.fail(
      'answer',
      `${where}: ${refusal ?? `answered by ${node}`} (${requestId}) at no position from ${from} to ${to}; the last allows ${JSON.stringify(allowed)}`,
    );
  }

  /** Returns the lowest position by which a request that began at this time may be decided. */
  #from(process: object, beganMs: number): number {
    const fresh = this.oracle.positionAt(beganMs - fencedAfterMs);
    const floors = [...this.#confirmed, ...(this.#floors.get(process) ?? [])];
    const earlier = floors.filter(({ atMs }) => atMs < beganMs).map(({ position }) => position);
    return Math.max(1, fresh, ...earlier);
  }

  #explains(
    position: number,
    request: Exchange['request'],
    gateway: Member,
    beganMs: number,
    { refusal, node }: { readonly refusal: string | undefined; readonly node: string | undefined },
  ): boolean {
    const state = this.oracle.states[position];
    if (state === undefined) return false;
    const allowed: Allowed = answerOf(state, request, this.#scheduler.wallMs(gateway));
    const since = beganMs - troubleMs;
    if ('refusal' in allowed) {
      if (allowed.refusal === refusal) return true;
    } else if (refusal === undefined) return node !== undefined && allowed.nodes.includes(node);
    // A gateway that cannot reach the log, or has just started, cannot prove its state and so accepts no key.
    const cannotProve = refusal === 'InferenceUnavailableError' && this.#hadTrouble(gateway.name, since);
    if (cannotProve) return true;
    // A node may fail before the log says that it is down.
    const failed = request.stack === undefined ? 'InferenceUnavailableError' : 'TargetNotServingError';
    if ('nodes' in allowed && refusal === failed)
      return allowed.nodes.some((id) => this.#hadTrouble(id, since));
    // Limits are checked before routing, so a request of any entitled organisation may reach its limits first.
    const limit = tierOf(state, request.key)?.tier;
    const isEntitled = !('refusal' in allowed) || !/^(Unauthorized|ModelNotInPlan)/.test(allowed.refusal);
    if (limit === undefined || !(isEntitled || allowed.refusal === 'ModelNotInPlanError')) return false;
    if (refusal === 'InferenceRateLimitedError') return Number.isFinite(limit.requestsPerMinute);
    return refusal === 'InferenceConcurrencyLimitedError' && Number.isFinite(limit.concurrency);
  }

  /**
   * Checks what must hold once all faults are over and the fleet has had some time. `running` contains the processes that
   * report.
   */
  atEnd(commands: readonly CommandOutcome[], running: readonly string[]): void {
    for (const name of running) {
      const applied = this.#reports.get(name)?.applied;
      if (applied !== this.oracle.end)
        this.fail('convergence', `${name} is at position ${applied}, and the log at ${this.oracle.end}`);
    }
    this.#checkCommands(commands);
    for (const [requestId, { gateway, endedMs }] of this.#completed)
      if (!this.#rows.has(requestId) && !this.#mayBeLost(gateway, endedMs))
        this.fail('I8', `${requestId} was answered by ${gateway} at ${endedMs} ms, but has no usage row`);
  }

  /** Whether a kill may have lost the usage row of a request that was answered at this time. */
  #mayBeLost(gateway: string, endedMs: number): boolean {
    return this.#kills.some(
      ({ machine, atMs }) => machine === gateway && atMs >= endedMs && atMs - endedMs < rowLossMs,
    );
  }

  /** Checks invariant I5: an acknowledged command is in the chain once, and a refused command never. */
  #checkCommands(commands: readonly CommandOutcome[]): void {
    const times = new Map<string, number>();
    for (const { command } of this.oracle.states) times.set(command, (times.get(command) ?? 0) + 1);
    for (const { id, name, outcome } of commands) {
      const found = times.get(id) ?? 0;
      const isMissing = name === 'key.create' && outcome === 'done' && found === 0;
      if (isMissing) this.fail('I5', `${name} ${id} was acknowledged, but is not in the chain`);
      if (found > 1) this.fail('I5', `${name} ${id} is in the chain ${found} times`);
      if (outcome === 'refused' && found > 0)
        this.fail('I5', `${name} ${id} was refused, but is in the chain`);
    }
  }
}

function describeEvents(value: Buffer): string {
  const { id, by, events } = JSON.parse(value.toString());
  const texts = events.map(
    ({ type, data }: { type: string; data: object }) => `${type} ${JSON.stringify(data)}`,
  );
  return `${id} by ${by}: ${texts.join(', ')}`.slice(0, 400);
}
