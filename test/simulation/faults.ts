/**
 * Causes faults while the fleet is in use. Each seed selects some kinds of faults, so that runs differ in more than the times
 * of their faults.
 */
import type { Fleet, Member } from './fleet.ts';
import type { Journal } from './journal.ts';
import type { Referee } from './referee.ts';
import type { Scheduler } from './scheduler.ts';

const appendFaults = ['lost', 'duplicated', 'delayed', 'ack-lost', 'refused'] as const;

export class Faults {
  readonly counts: Record<string, number> = {};
  readonly #scheduler: Scheduler;
  readonly #fleet: Fleet;
  readonly #referee: Referee;
  readonly #journal: Journal;
  readonly #kinds: readonly string[];
  readonly #endMs: number;
  /** Faults that have not ended yet. */
  #running: Promise<void>[] = [];

  /** Selects the kinds of faults. All faults will have ended by `endMs`. */
  constructor(scheduler: Scheduler, fleet: Fleet, referee: Referee, journal: Journal, endMs: number) {
    this.#endMs = endMs;
    this.#scheduler = scheduler;
    this.#fleet = fleet;
    this.#referee = referee;
    this.#journal = journal;
    this.#kinds = ['kill', 'stop', 'cut off', 'log down', 'appends', 'clock'].filter(() =>
      scheduler.chance(0.6),
    );
  }

  /** Causes faults and resolves once all of them have ended and every process is running. */
  async run(): Promise<void> {
    while (this.#kinds.length > 0) {
      await this.#scheduler.sleep(this.#scheduler.between(500, 15_000));
      if (this.#scheduler.nowMs > this.#endMs) break;
      const kind = this.#scheduler.pick(this.#kinds);
      this.counts[kind] = (this.counts[kind] ?? 0) + 1;
      this.#running.push(this.#begin(kind));
    }
    await Promise.all(this.#running);
  }

  /** Waits for a random time, but at most until all faults must have ended. */
  async #last(minMs: number, maxMs: number): Promise<void> {
    const leftMs = Math.max(0, this.#endMs - this.#scheduler.nowMs);
    await this.#scheduler.sleep(Math.min(leftMs, this.#scheduler.between(minMs, maxMs)));
  }

  async #begin(kind: string): Promise<void> {
    const scheduler = this.#scheduler;
    const { controlPlanes, gateways, members, brokers } = this.#fleet;
    const processes = [...controlPlanes, ...gateways];
    switch (kind) {
      case 'kill':
      case 'stop':
        return this.#restart(scheduler.pick(kind === 'kill' ? members : processes), kind);
      case 'cut off':
        return this.#cutOff([scheduler.pick(processes)], 70_000);
      case 'log down':
        return this.#cutOff(processes, 20_000);
      case 'appends': {
        const probability = scheduler.pick([0.02, 0.1, 0.5]);
        this.#journal.note('fault', `appends fail with probability ${probability}`);
        brokers.fault = () => (scheduler.chance(probability) ? scheduler.pick(appendFaults) : 'none');
        await this.#last(1000, 20_000);
        brokers.fault = () => 'none';
        this.#journal.note('fault', 'appends succeed');
        return;
      }
      default: {
        const member = scheduler.pick(processes);
        const ms = Math.round(scheduler.between(-60_000, 60_000));
        this.#referee.trouble(member.name, 1);
        member.wallAheadMs += ms;
        this.#journal.note(member.name, `clock jumps by ${ms} ms`);
        await this.#last(1000, 60_000);
        member.wallAheadMs -= ms;
        this.#referee.trouble(member.name, -1);
        this.#journal.note(member.name, 'clock jumps back');
      }
    }
  }

  async #restart(member: Member, kind: 'kill' | 'stop'): Promise<void> {
    if (!member.isRunning || member.close === undefined) return;
    this.#referee.trouble(member.name, 1);
    if (kind === 'kill') {
      this.#referee.killed(member.name);
      this.#fleet.kill(member);
    } else await this.#fleet.stop(member);
    await this.#last(10, 20_000);
    await this.#fleet.boot(member);
    this.#referee.trouble(member.name, -1);
  }

  async #cutOff(members: readonly Member[], maxMs: number): Promise<void> {
    const { cutOff } = this.#fleet.brokers;
    const cut = members.filter((member) => !cutOff.has(member));
    for (const member of cut) {
      cutOff.add(member);
      this.#referee.trouble(member.name, 1);
    }
    this.#journal.note('fault', `cut off from the log: ${cut.map(({ name }) => name).join(' ')}`);
    this.#fleet.brokers.wakeReaders();
    await this.#last(500, maxMs);
    for (const member of cut) {
      cutOff.delete(member);
      this.#referee.trouble(member.name, -1);
    }
    this.#journal.note('fault', `reaches the log again: ${cut.map(({ name }) => name).join(' ')}`);
    this.#fleet.brokers.wakeReaders();
  }
}
