/** Runs one workload with one policy in simulated time, and loses nodes on the way. */
import { blocksOf, type ClusterSettings, SimulatedNode } from './cluster.ts';
import { type Policy, type PolicyName, policy } from './policies.ts';
import { Random } from './random.ts';
import type { Session, Workload } from './workloads.ts';

export interface SimulationSettings extends ClusterSettings {
  readonly gateways: number;
  readonly seconds: number;
  /** Not measured at first, while caches fill. */
  readonly warmUpSeconds: number;
  /** Nodes lost after the measured time; conversations are then followed for as long again as the warm-up took. */
  readonly lost: number;
  readonly seed: number;
}

export interface SimulationResult {
  readonly requests: number;
  /** Cached tokens of all tokens of prompts. */
  readonly hitRate: number;
  readonly firstTokenMs: readonly number[];
  /** Of the busiest node in flight over time, against the mean. */
  readonly loadOverMean: number;
  /** Of conversations whose node was not lost: the share whose next turn went to another. */
  readonly movedBefore: number;
  readonly movedAfterLoss: number;
}

interface Event {
  readonly atMs: number;
  readonly run: () => void;
}

class Timeline {
  /** The earliest last. */
  readonly #events: Event[] = [];
  nowMs = 0;

  at(atMs: number, run: () => void): void {
    let [low, high] = [0, this.#events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#events[middle] as Event).atMs > atMs) low = middle + 1;
      else high = middle;
    }
    this.#events.splice(low, 0, { atMs, run });
  }

  runUntil(endMs: number): void {
    for (let next = this.#events.at(-1); next && next.atMs <= endMs; next = this.#events.at(-1)) {
      this.#events.pop();
      this.nowMs = next.atMs;
      next.run();
    }
    this.nowMs = endMs;
  }
}

class Run {
  readonly #workload: Workload;
  readonly #settings: SimulationSettings;
  readonly #timeline = new Timeline();
  /** Of when sessions begin, and of which gateway they reach. */
  readonly #random: Random;
  readonly #nodes: readonly SimulatedNode[];
  readonly #gateways: readonly Policy[];
  readonly #firstTokenMs: number[] = [];
  #tokens = 0;
  #cachedTokens = 0;
  #phase: 'warm-up' | 'measured' | 'after' = 'warm-up';
  readonly #turns = { measured: { stayed: 0, moved: 0 }, after: { stayed: 0, moved: 0 } };

  constructor(workload: Workload, settings: SimulationSettings, name: PolicyName) {
    this.#workload = workload;
    this.#settings = settings;
    this.#random = new Random(settings.seed);
    const random = new Random(settings.seed + 1);
    this.#nodes = Array.from({ length: settings.nodes }, (_, i) => new SimulatedNode(`node-${i}`, settings));
    this.#gateways = Array.from({ length: settings.gateways }, () =>
      policy(name, random.next, () => this.#timeline.nowMs),
    );
  }

  result(): SimulationResult {
    const { seconds, warmUpSeconds, lost } = this.#settings;
    const timeline = this.#timeline;
    this.#open();
    timeline.runUntil(warmUpSeconds * 1000);
    this.#count();
    const loadBefore = this.#nodes.map(({ loadMs }) => loadMs);
    this.#phase = 'measured';
    timeline.runUntil(seconds * 1000);
    this.#count();
    const loads = this.#nodes.map(({ loadMs }, index) => loadMs - (loadBefore[index] ?? 0));
    this.#phase = 'after';
    for (const node of this.#nodes.slice(0, lost)) node.isLost = true;
    timeline.runUntil((seconds + warmUpSeconds) * 1000);
    const mean = loads.reduce((sum, load) => sum + load, 0) / loads.length;
    return {
      requests: this.#firstTokenMs.length,
      hitRate: this.#cachedTokens / this.#tokens,
      firstTokenMs: this.#firstTokenMs.sort((a, b) => a - b),
      loadOverMean: Math.max(...loads) / mean,
      movedBefore: share(this.#turns.measured),
      movedAfterLoss: share(this.#turns.after),
    };
  }

  #count(): void {
    for (const node of this.#nodes) node.count(this.#timeline.nowMs);
  }

  #open(): void {
    const session = this.#workload.session(new Random(this.#random.between(0, 2 ** 31)));
    this.#turn(session, undefined);
    const waitMs = this.#random.wait(this.#workload.everyMs);
    this.#timeline.at(this.#timeline.nowMs + waitMs, () => this.#open());
  }

  #turn(session: Session, before: SimulatedNode | undefined): void {
    const turn = session.next();
    if (turn === undefined) return;
    const { tenant } = session;
    const blocks = blocksOf(tenant, turn);
    const gateway = this.#gateways[session.random.between(0, this.#gateways.length - 1)] as Policy;
    const up = this.#nodes.filter(({ isLost }) => !isLost);
    const node = gateway.choose(up, { tenant, turn, blocks });
    if (before !== undefined && !before.isLost && this.#phase !== 'warm-up')
      this.#turns[this.#phase][before === node ? 'stayed' : 'moved'] += 1;
    const nowMs = this.#timeline.nowMs;
    const served = node.begin(blocks, turn.answerTokens, nowMs);
    gateway.load.begin(node.node);
    if (this.#phase === 'measured') {
      this.#tokens += served.tokens;
      this.#cachedTokens += served.cachedTokens;
      this.#firstTokenMs.push(served.firstTokenMs);
    }
    this.#timeline.at(nowMs + served.totalMs, () => {
      node.end(this.#timeline.nowMs);
      gateway.load.end(node.node, 'answered');
      this.#timeline.at(this.#timeline.nowMs + session.thinkMs(), () => this.#turn(session, node));
    });
  }
}

function share({ stayed, moved }: { readonly stayed: number; readonly moved: number }): number {
  return stayed + moved === 0 ? 0 : moved / (stayed + moved);
}

export function simulate(
  workload: Workload,
  settings: SimulationSettings,
  name: PolicyName,
): SimulationResult {
  return new Run(workload, settings, name).result();
}
