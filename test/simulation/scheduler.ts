/**
 * Simulated time. Every timer, delivery and disk access of the fleet is an event of one process, and events run one at a
 * time, each until nothing is left to do without waiting. So a run depends on its seed alone, and a process can be killed
 * between any two events.
 */
import { processScope } from '../../shared/runtime/per-process.ts';
import { type Random, seededRandom } from '../support/random.ts';

/** Simulated runs begin at 2026-11-21T00:00:00Z. */
const beginMs = Date.UTC(2026, 10, 21);
/** Value of `performance.now()` at the beginning, because some code takes 0 for "never". */
const monotonicBeginMs = 60_000;

const nextTurn = setImmediate;

/** One machine of the fleet. It may run several processes, one after another. */
export class Machine {
  readonly name: string;
  /** The running process, or the last one. */
  process: SimulatedProcess | undefined;
  /** Wall clock minus simulated time, in ms. */
  wallAheadMs = 0;
  /** Rate of the monotonic clock. 1.001 gains a millisecond per second. */
  clockRate = 1;

  constructor(name: string) {
    this.name = name;
  }

  get isRunning(): boolean {
    return this.process?.isOver === false;
  }
}

/** One run of a process. Once it is over, none of its events run. */
export class SimulatedProcess {
  readonly machine: Machine;
  isOver = false;
  /** Added to each timer, in ms. Drawn again for every event, because real timers are late too. */
  lateMs = 0;
  /** When the latest timer of each duration ends. Timers of one duration end in the order in which they began. */
  readonly timerEnds = new Map<number, number>();

  constructor(machine: Machine) {
    this.machine = machine;
  }
}

export interface Event {
  atMs: number;
  order: number;
  owner: SimulatedProcess;
  run: (() => void) | undefined;
}

export class Scheduler {
  readonly random: Random;
  /** Simulated time in ms since the beginning. */
  nowMs = 0;
  /** Number of events that have run. */
  events = 0;
  isRunning = false;
  /** Owns the events of no machine, such as faults and checks. */
  readonly world = new SimulatedProcess(new Machine('world'));
  /** Owner of the event that runs. Between events it is `nobody`. */
  current: SimulatedProcess;
  readonly #nobody = new SimulatedProcess(new Machine('nobody'));
  /** Called with what a process throws or rejects without a handler. */
  onUncaught: (owner: SimulatedProcess, error: unknown) => void = (_owner, error) => {
    throw error;
  };
  readonly #heap: Event[] = [];
  #order = 0;

  constructor(seed: number) {
    this.random = seededRandom(seed);
    this.current = this.world;
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

  wallMs(machine = this.current.machine): number {
    return Math.floor(beginMs + this.nowMs + machine.wallAheadMs);
  }

  monotonicMs(machine = this.current.machine): number {
    return monotonicBeginMs + this.nowMs * machine.clockRate;
  }

  /** Runs `run` after `ms` unless its owner has ended by then. */
  after(ms: number, run: () => void, owner = this.current): Event {
    return this.at(this.nowMs + ms, run, owner);
  }

  at(atMs: number, run: () => void, owner = this.current): Event {
    // Something went on after its event, so it depends on more than the seed, and would be taken for another process.
    if (owner === this.#nobody) this.onUncaught(owner, new Error('began outside of an event'));
    const event: Event = { atMs, order: this.#order++, owner, run };
    push(this.#heap, event);
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

  /** Runs events until `untilMs`, or until `isDone`. */
  async run(untilMs: number, isDone: () => boolean = () => false): Promise<void> {
    this.isRunning = true;
    while (!isDone()) {
      const event = this.#heap[0];
      if (event === undefined || event.atMs > untilMs) {
        this.nowMs = Math.max(this.nowMs, untilMs);
        return;
      }
      pop(this.#heap);
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
    // Everything that the event has caused runs before the next turn: promises, and Node's own queue.
    await new Promise<void>((resolve) => nextTurn(resolve));
    this.current = this.#nobody;
    processScope.current = this.#nobody;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

/** A binary heap: `heap[0]` is the next event. */
function push(heap: Event[], event: Event): void {
  let at = heap.length;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    const above = heap[parent] as Event;
    if (isBefore(above, event)) break;
    heap[at] = above;
    at = parent;
  }
  heap[at] = event;
}

function pop(heap: Event[]): void {
  const last = heap.pop() as Event;
  if (heap.length === 0) return;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child++;
    if (isBefore(last, heap[child] as Event)) break;
    heap[at] = heap[child] as Event;
    at = child;
  }
  heap[at] = last;
}
