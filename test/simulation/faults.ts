/**
 * Causes faults while the fleet is in use. Each seed selects some kinds of faults, so that runs differ in more than the times
 * of their faults.
 */
import type { Fleet, Member } from './fleet.ts';
import type { Journal } from './journal.ts';
import type { Referee } from './referee.ts';
import type { Dice, Machine, Scheduler } from './scheduler.ts';

const kinds = ['kill', 'stop', 'cut off', 'log down', 'stalled', 'slow log', 'appends', 'clock'];
const appendFaults = ['lost', 'duplicated', 'delayed', 'ack-lost', 'refused'] as const;

interface FaultParts {
  readonly scheduler: Scheduler;
  readonly fleet: Fleet;
  readonly referee: Referee;
  readonly journal: Journal;
}

export class Faults {
  readonly counts: Record<string, number> = {};
  /** Ids of the faults so far. */
  readonly ids: string[] = [];
  readonly #scheduler: Scheduler;
  readonly #fleet: Fleet;
  readonly #referee: Referee;
  readonly #journal: Journal;
  readonly #kinds: readonly string[];
  readonly #endMs: number;
  readonly #without: ReadonlySet<string>;
  /** Faults that have not ended yet. */
  #running: Promise<void>[] = [];

  /** Selects the kinds of faults. All faults will have ended by `endMs`. `without` contains ids of faults to leave out. */
  constructor(
    { scheduler, fleet, referee, journal }: FaultParts,
    endMs: number,
    without: ReadonlySet<string>,
  ) {
    this.#endMs = endMs;
    this.#without = without;
    this.#scheduler = scheduler;
    this.#fleet = fleet;
    this.#referee = referee;
    this.#journal = journal;
    // Without faults, the bounds of limits are narrow.
    this.#kinds = scheduler.chance(0.2) ? [] : kinds.filter(() => scheduler.chance(0.5));
  }

  /** Causes faults and resolves once all of them have ended and every process is running. */
  async run(): Promise<void> {
    for (let n = 1; this.#kinds.length > 0; n++) {
      const dice = this.#scheduler.fork(n);
      await this.#scheduler.sleep(dice.between(500, 15_000));
      if (this.#scheduler.nowMs > this.#endMs) break;
      const kind = dice.pick(this.#kinds);
      const id = `fault-${n}`;
      if (this.#without.has(id)) continue;
      this.ids.push(id);
      this.counts[kind] = (this.counts[kind] ?? 0) + 1;
      this.#running.push(this.#begin(kind, dice));
    }
    await Promise.all(this.#running);
  }

  /** Waits for a random time, but at most until all faults must have ended. */
  async #last(dice: Dice, minMs: number, maxMs: number): Promise<void> {
    const leftMs = Math.max(0, this.#endMs - this.#scheduler.nowMs);
    await this.#scheduler.sleep(Math.min(leftMs, dice.between(minMs, maxMs)));
  }

  async #begin(kind: string, dice: Dice): Promise<void> {
    const { controlPlanes, gateways, members, brokers } = this.#fleet;
    const processes = [...controlPlanes, ...gateways];
    switch (kind) {
      case 'kill':
      case 'stop':
        return this.#restart(dice, dice.pick(kind === 'kill' ? members : processes), kind);
      case 'cut off':
        return this.#exclude(dice, [dice.pick(processes)], brokers.cutOff, 'cut off from the log');
      case 'log down':
        return this.#exclude(dice, processes, brokers.cutOff, 'cut off from the log');
      case 'stalled':
        return this.#exclude(dice, [dice.pick(gateways)], brokers.stalled, 'gets no records of the log');
      case 'slow log': {
        const member = dice.pick(processes);
        const ms = dice.pick([200, 5000, 30_000]);
        this.#referee.trouble(member.name, 1);
        brokers.slow.set(member, ms);
        this.#journal.note(member.name, `the log takes up to ${ms} ms longer`);
        await this.#last(dice, 5000, 90_000);
        brokers.slow.delete(member);
        this.#referee.trouble(member.name, -1);
        this.#journal.note(member.name, 'the log is fast again');
        return;
      }
      case 'appends': {
        const probability = dice.pick([0.02, 0.1, 0.5]);
        this.#journal.note('fault', `appends fail with probability ${probability}`);
        for (const { name } of processes) this.#referee.trouble(name, 1);
        brokers.fault = () =>
          this.#scheduler.chance(probability) ? this.#scheduler.pick(appendFaults) : 'none';
        await this.#last(dice, 1000, 20_000);
        brokers.fault = () => 'none';
        for (const { name } of processes) this.#referee.trouble(name, -1);
        this.#journal.note('fault', 'appends succeed');
        return;
      }
      default: {
        const member = dice.pick(processes);
        const ms = Math.round(dice.between(-60_000, 60_000));
        this.#referee.trouble(member.name, 1);
        member.wallAheadMs += ms;
        this.#journal.note(member.name, `clock jumps by ${ms} ms`);
        await this.#last(dice, 1000, 60_000);
        member.wallAheadMs -= ms;
        this.#referee.trouble(member.name, -1);
        this.#journal.note(member.name, 'clock jumps back');
      }
    }
  }

  async #restart(dice: Dice, member: Member, kind: 'kill' | 'stop'): Promise<void> {
    if (!member.isRunning || member.close === undefined) return;
    this.#referee.trouble(member.name, 1);
    if (kind === 'kill') {
      this.#referee.killed(member.name);
      this.#fleet.kill(member);
    } else await this.#fleet.stop(member);
    await this.#last(dice, 10, 20_000);
    await this.#fleet.boot(member);
    this.#referee.trouble(member.name, -1);
  }

  /** Adds machines to a set for a while. */
  async #exclude(dice: Dice, members: readonly Member[], from: Set<Machine>, text: string): Promise<void> {
    const added = members.filter((member) => !from.has(member));
    const names = added.map(({ name }) => name).join(' ');
    for (const member of added) {
      from.add(member);
      this.#referee.trouble(member.name, 1);
    }
    this.#journal.note('fault', `${text}: ${names}`);
    this.#fleet.brokers.wakeReaders();
    // A gateway may use its state for 45 seconds, so some faults of single machines last longer.
    const isLong = added.length === 1 && dice.chance(0.5);
    await (isLong ? this.#last(dice, 46_000, 100_000) : this.#last(dice, 500, 20_000));
    for (const member of added) {
      from.delete(member);
      this.#referee.trouble(member.name, -1);
    }
    this.#journal.note('fault', `no longer ${text}: ${names}`);
    this.#fleet.brokers.wakeReaders();
  }
}
