/**
 * Simulated time. Every timer, delivery and disk access of the fleet is an event of one process. Events run one at a time,
 * each until there is nothing left to do without waiting. So a run depends only on its seed, and a process can be killed
 * between any two events.
 */
import { processScope } from '../../shared/runtime/per-process.ts';
import { type Random, seededRandom } from '../support/random.ts';

/** Wall-clock time at which simulated runs begin: 21 November 2026, 00:00 UTC. */
const beginMs = Date.UTC(2026, 10, 21);
/** Value of `performance.now()` at the beginning of a run. It is not 0, because some code takes 0 to mean "never". */
const monotonicBeginMs = 60_000;

const nextTurn = setImmediate;

/** One machine of the fleet. It may run several processes, one after another. */
export class Machine {
  readonly name: string;
  /** The process that is running on the machine, or the last one that did. */
  process: SimulatedProcess | undefined;
  /** How far the machine's wall clock is ahead of simulated time, in ms. */
  wallAheadMs = 0;
  /** Rate of the machine's monotonic clock. At 1.001 it gains a millisecond per second. */
  clockRate = 1;

  constructor(name: string) {
    this.name = name;
  }

  get isRunning(): boolean {
    return this.process?.isOver === false;
  }
}

/** One run of a process. Once the run is over, its remaining events are skipped. */
export class SimulatedProcess {
  readonly machine: Machine;
  isOver = false;
  /** Delay added to each timer of the process, in ms. It is drawn again for every event, because real timers are late too. */
  lateMs = 0;
  /** End of the latest timer of each duration. Timers of the same duration end in the order in which they began. */
  readonly timerEnds = new Map<number, number>();

  constructor(machine: Machine) {
    this.machine = machine;
  }
}

export interface Event {
  readonly atMs: number;
  readonly owner: SimulatedProcess;
  run: (() => void) | undefined;
}

/** A source of random decisions. */
export class Dice {
  readonly random: Random;
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
    this.random = seededRandom(seed);
  }

  /** Returns dice whose numbers do not depend on what else is drawn from these. */
  fork(salt: number): Dice {
    return new Dice(Math.imul(this.#seed, 0x9e3779b1) + salt);
  }

  between(min: number, max: number): number {
    return min + this.random() * (max - min);
  }

  chance(probability: number): boolean {
    return this.random() < probability;
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[Math.floor(this.random() * values.length)] as Value;
  }
}

export class Scheduler extends Dice {
  /** Simulated time since the beginning, in ms. */
  nowMs = 0;
  events = 0;
  isRunning = false;
  /** Owner of events that belong to no machine, such as faults and checks. */
  readonly world = new SimulatedProcess(new Machine('world'));
  /** Owner of the event that is running. Between events this is `nobody`. */
  current: SimulatedProcess;
  readonly #nobody = new SimulatedProcess(new Machine('nobody'));
  /** Called with whatever a process throws, or rejects, without a handler. */
  onUncaught: (owner: SimulatedProcess, error: unknown) => void = (_owner, error) => {
    throw error;
  };
  /**
   * Events that have not run yet. The next event is the last item. Of several events at the same time, the one that was added
   * first runs first.
   */
  readonly #waiting: Event[] = [];

  constructor(seed: number) {
    super(seed);
    this.current = this.world;
  }

  wallMs(machine = this.current.machine): number {
    return Math.floor(beginMs + this.nowMs + machine.wallAheadMs);
  }

  monotonicMs(machine = this.current.machine): number {
    return monotonicBeginMs + this.nowMs * machine.clockRate;
  }

  /** Calls `run` after `ms`, unless its owner has ended by then. */
  after(ms: number, run: () => void, owner = this.current): Event {
    return this.at(this.nowMs + ms, run, owner);
  }

  at(atMs: number, run: () => void, owner = this.current): Event {
    // Code has continued after its event ended, so it depends on more than the seed, and its next event would belong to no
    // process.
    if (owner === this.#nobody) this.onUncaught(owner, new Error('began outside of an event'));
    const event: Event = { atMs, owner, run };
    let from = 0;
    // Finds the event's place by binary search. Later events come before earlier ones.
    for (let to = this.#waiting.length; from < to; ) {
      const middle = (from + to) >> 1;
      if ((this.#waiting[middle] as Event).atMs > atMs) from = middle + 1;
      else to = middle;
    }
    this.#waiting.splice(from, 0, event);
    return event;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  /** Starts a process on a machine whose last process has ended. */
  start(machine: Machine, run: () => void): SimulatedProcess {
    const started = new SimulatedProcess(machine);
    machine.process = started;
    this.after(0, run, started);
    return started;
  }

  /** Runs events until the time `untilMs`, or until `isDone` returns true. */
  async run(untilMs: number, isDone: () => boolean = () => false): Promise<void> {
    this.isRunning = true;
    while (!isDone()) {
      const event = this.#waiting.at(-1);
      if (event === undefined || event.atMs > untilMs) {
        this.nowMs = Math.max(this.nowMs, untilMs);
        return;
      }
      this.#waiting.pop();
      if (event.run === undefined || event.owner.isOver) continue;
      this.nowMs = Math.max(this.nowMs, event.atMs);
      await this.#step(event.owner, event.run);
    }
  }

  async #step(owner: SimulatedProcess, run: () => void): Promise<void> {
    this.events++;
    this.current = owner;
    processScope.current = owner;
    owner.lateMs = this.random();
    try {
      run();
    } catch (error) {
      this.onUncaught(owner, error);
    }
    // Lets everything that the event has caused run first: promises, and Node's own queue.
    await new Promise<void>((resolve) => nextTurn(resolve));
    this.current = this.#nobody;
    processScope.current = this.#nobody;
  }
}
