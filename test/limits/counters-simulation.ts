/**
 * Simulates gateways that publish usage counters to one topic. Gateways crash between any two steps. Records are lost, late
 * or duplicated. Folders are lost, copied or restored. The topic keeps only its latest records, and control planes repeat the
 * counts of silent replicas. Each seed is one run.
 *
 * Checks that no reader ever counts more than was completed, and that a folder's counts survive its process. At the end all
 * readers must have the same sum: the completed total, minus counts that were lost with a folder or made by copies of one
 * folder at the same time.
 */

import { type CounterLedger, GatewayCounters } from '../../data-plane/limits/gateway-counters.ts';
import { type CounterEntry, type CounterRecord, readCounterRecord } from '../../schemas/records/limits.ts';
import { CounterState, counterKey, isCounted, type Sum } from '../../shared/limits/counters.ts';
import { seededRandom } from '../support/random.ts';

export interface CountersSimulationOptions {
  readonly seed: number;
  /** A rule to switch off. The simulation must then find the fault that the rule normally prevents. */
  readonly without?:
    | 'larger wins'
    | 'conflicts'
    | 'durable first'
    | 'repetition'
    | 'own from folder'
    | 'silent repeats';
}

export interface CountersSimulationResult {
  readonly violations: readonly string[];
  readonly counts: Readonly<Record<string, number>>;
}

const startMs = Date.UTC(2026, 10, 22);
const period = '2026-11-01';
const subjects = ['acme', 'beta', 'gamma'];
const hourMs = 3600_000;

/** A gateway's folder on disk, which outlives the gateway's process. */
class Folder implements CounterLedger {
  replica: string;
  readonly own = new Map<string, { tokens: number; turns: number }>();
  readonly formerSums: { replica: string; entries: CounterEntry[] }[] = [];
  readonly processes = new Set<string>();
  readonly #newId: () => string;

  constructor(newId: () => string) {
    this.#newId = newId;
    this.replica = newId();
  }

  copy(): Folder {
    const copy = new Folder(this.#newId);
    copy.replica = this.replica;
    for (const [key, sum] of this.own) copy.own.set(key, { ...sum });
    copy.formerSums.push(...this.formerSums);
    for (const each of this.processes) copy.processes.add(each);
    return copy;
  }

  get(key: string): Sum | undefined {
    return this.own.get(key);
  }
  isOwnProcess(process: string): boolean {
    return this.processes.has(process);
  }
  *entries(): Generator<CounterEntry> {
    for (const [key, { tokens, turns }] of this.own) {
      const [subject = '', of = ''] = key.split(' ');
      yield [subject, of, tokens, turns];
    }
  }
  former() {
    return this.formerSums;
  }
  renew(): void {
    this.formerSums.push({ replica: this.replica, entries: [...this.entries()] });
    this.own.clear();
    this.replica = this.#newId();
  }
}

interface Process {
  readonly folder: Folder;
  readonly counters: GatewayCounters;
  readonly state: CounterState;
  position: number;
  /** Completed requests that are not in the folder yet. */
  readonly queue: [string, number][];
  publishedMs: number;
}

class Simulation {
  readonly violations: string[] = [];
  readonly counts: Record<string, number> = {};
  readonly #random: () => number;
  readonly #without: CountersSimulationOptions['without'];
  #nowMs = startMs;
  #ids = 0;
  /** Records from `#keptFrom` on; the topic has dropped the earlier ones. */
  readonly #topic: { readonly atMs: number; readonly raw: Buffer }[] = [];
  #keptFrom = 0;
  #late: Buffer[] = [];
  #gateways: Process[] = [];
  #down: Folder[] = [];
  #backups: Folder[] = [];
  readonly #plane = { state: new CounterState(), position: 0, repeatedMs: startMs };
  /** Tokens that were completed and written to a folder, by key. */
  readonly #completed = new Map<string, number>();
  /**
   * Largest number of tokens that readers may miss, by key, because a folder was lost or copies of a folder shared one id.
   */
  readonly #losable = new Map<string, number>();

  constructor({ seed, without }: CountersSimulationOptions) {
    this.#random = seededRandom(seed);
    this.#without = without;
    for (let n = 0; n < 3; n++) this.#start(new Folder(() => this.#newId()));
  }

  run(): CountersSimulationResult {
    for (let step = 0; step < 150; step++) this.#step();
    this.#rest();
    return { violations: this.violations, counts: this.counts };
  }

  #newId(): string {
    return `id-${++this.#ids}`.padEnd(6, 'x');
  }

  #chance(part: number): boolean {
    return this.#random() < part;
  }

  #pick<Item>(items: readonly Item[]): Item | undefined {
    return items[Math.floor(this.#random() * items.length)];
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  #step(): void {
    const isLong = this.#chance(0.04);
    // Lets the control plane read before and after the long pause, so that the run looks as if one had been running all the
    // time.
    if (isLong) this.#planeStep();
    this.#nowMs += Math.floor(this.#random() * (isLong ? 12 * hourMs : 20_000));
    if (isLong) this.#planeStep();
    this.#expireTopic();
    const gateway = this.#pick(this.#gateways);
    const what = this.#random();
    if (gateway === undefined || what < 0.03) this.#restartOne();
    else if (what < 0.4) this.#complete(gateway);
    else if (what < 0.5) this.#write(gateway);
    else if (what < 0.7) this.#publish(gateway);
    else if (what < 0.88) this.#read(gateway);
    else if (what < 0.91) this.#crash(gateway);
    else if (what < 0.93) this.#damageFolder();
    else if (what < 0.94) this.#backUp(gateway.folder);
    else if (what < 0.96) this.#releaseLate();
    else this.#planeStep();
    for (const each of this.#gateways) this.#checkNothingTwice(each);
  }

  #start(folder: Folder): Process {
    const process = this.#newId();
    folder.processes.add(process);
    const state = new CounterState();
    const options = { ledger: folder, state, process, live: () => this.#gateways.length };
    const counters = new GatewayCounters(options, this.#nowMs);
    const started: Process = { folder, counters, state, position: 0, queue: [], publishedMs: 0 };
    this.#gateways.push(started);
    // Reads the topic to its end before anything is published.
    this.#read(started, true);
    return started;
  }

  #restartOne(): void {
    const folder = this.#pick(this.#down);
    if (folder === undefined) return;
    this.#count('restart');
    this.#down = this.#down.filter((each) => each !== folder);
    this.#start(folder);
  }

  #complete(gateway: Process): void {
    const key = counterKey(this.#pick(subjects) ?? '', period);
    gateway.queue.push([key, 1 + Math.floor(this.#random() * 100)]);
    if (this.#chance(0.6)) this.#write(gateway);
  }

  #write({ folder, counters, queue }: Process): void {
    for (const [key, tokens] of queue.splice(0)) {
      const sum = folder.own.get(key) ?? { tokens: 0, turns: 0 };
      folder.own.set(key, { tokens: sum.tokens + tokens, turns: sum.turns + 1 });
      this.#completed.set(key, (this.#completed.get(key) ?? 0) + tokens);
      // While two processes share an id, only the larger of their two published values counts.
      if (this.#isShared(folder)) this.#mayLose(key, tokens);
      counters.grown(key, tokens, this.#nowMs, this.#chance(0.5) ? 5000 : undefined);
    }
  }

  #isShared(folder: Folder): boolean {
    const all = [...this.#gateways.map((each) => each.folder), ...this.#down, ...this.#backups];
    return all.filter(({ replica }) => replica === folder.replica).length > 1;
  }

  #mayLose(key: string, tokens: number): void {
    this.#losable.set(key, (this.#losable.get(key) ?? 0) + tokens);
  }

  #publish(gateway: Process): void {
    const { counters } = gateway;
    const isHour = this.#nowMs - gateway.publishedMs > hourMs && this.#without !== 'repetition';
    const records = isHour ? counters.everything(this.#nowMs) : counters.due(this.#nowMs);
    if (isHour) gateway.publishedMs = this.#nowMs;
    if (this.#without === 'durable first' && gateway.queue.length > 0)
      records.push(ahead(gateway, this.#nowMs));
    for (const record of records) this.#append(record, gateway);
  }

  #append(record: CounterRecord, gateway?: Process): void {
    const raw = Buffer.from(JSON.stringify(record));
    const fault = this.#random();
    if (fault < 0.08) {
      this.#count('append lost');
      // In half of the cases the writer learns of the loss.
      if (this.#chance(0.5)) gateway?.counters.unpublished(record, this.#nowMs);
    } else if (fault < 0.16) {
      this.#count('append late');
      this.#late.push(raw);
    } else {
      this.#topic.push({ atMs: this.#nowMs, raw });
      if (fault < 0.24) {
        this.#count('append doubled');
        this.#late.push(raw);
      }
    }
  }

  #releaseLate(): void {
    const raw = this.#late.splice(Math.floor(this.#random() * this.#late.length), 1)[0];
    if (raw !== undefined) this.#topic.push({ atMs: this.#nowMs, raw });
  }

  #read(gateway: Process, toEnd = false): void {
    if (this.#chance(0.05)) {
      this.#count('re-read from the beginning');
      gateway.position = 0;
    }
    const count = toEnd ? Number.POSITIVE_INFINITY : 1 + Math.floor(this.#random() * 10);
    gateway.position = Math.max(gateway.position, this.#keptFrom);
    for (let n = 0; n < count && gateway.position < this.#topic.length; n++) {
      const record = this.#recordAt(gateway.position++);
      if (record !== undefined) this.#readOne(gateway, record);
    }
  }

  #readOne(gateway: Process, record: CounterRecord): void {
    const { folder, counters, state } = gateway;
    if (this.#without === 'conflicts' && record.replica === folder.replica) return;
    if (this.#without === 'own from folder') state.apply(record, this.#nowMs);
    if (this.#without === 'larger wins' && record.replica !== folder.replica)
      return void state.apply({ ...record, replica: this.#newId() }, this.#nowMs);
    const { conflict } = counters.read(record, this.#nowMs);
    if (conflict === undefined) return;
    this.#count(`conflict: ${conflict}`);
    for (const each of counters.everything(this.#nowMs)) this.#append(each, gateway);
  }

  #recordAt(position: number): CounterRecord | undefined {
    const raw = this.#topic[position]?.raw;
    return raw === undefined ? undefined : readCounterRecord(raw);
  }

  /** kill -9: counts outside the folder are lost and were never published. */
  #crash(gateway: Process): void {
    this.#count('crash');
    this.#gateways = this.#gateways.filter((each) => each !== gateway);
    this.#down.push(gateway.folder);
  }

  #backUp(folder: Folder): void {
    this.#count('backup made');
    this.#backups.push(folder.copy());
  }

  #damageFolder(): void {
    const folder = this.#pick(this.#down);
    if (folder === undefined) return;
    const what = this.#random();
    if (what < 0.3) {
      this.#count('folder lost');
      this.#loseAll(folder);
      this.#down = this.#down.filter((each) => each !== folder);
      this.#start(new Folder(() => this.#newId()));
    } else if (what < 0.6) {
      this.#count('folder copied');
      this.#start(folder.copy());
    } else {
      const backup = this.#backups.pop();
      if (backup === undefined) return;
      this.#count('folder brought back');
      // The restored folder replaces the current one, whose counts are lost.
      this.#loseAll(folder);
      this.#down = this.#down.filter((each) => each !== folder);
      this.#start(backup);
    }
  }

  /** Marks all counts of a lost folder as possibly missing, because they may never have been published. */
  #loseAll(folder: Folder): void {
    for (const [subject, of, tokens] of [
      ...folder.entries(),
      ...folder.former().flatMap(({ entries }) => entries),
    ])
      this.#mayLose(counterKey(subject, of), tokens);
  }

  #expireTopic(): void {
    while ((this.#topic[this.#keptFrom]?.atMs ?? this.#nowMs) < this.#nowMs - 24 * hourMs) this.#keptFrom++;
  }

  /** Lets a control plane read the topic. Every hour it also repeats the counts of silent replicas. */
  #planeStep(): void {
    const plane = this.#plane;
    plane.position = Math.max(plane.position, this.#keptFrom);
    while (plane.position < this.#topic.length) {
      const record = this.#recordAt(plane.position++);
      if (record !== undefined) plane.state.apply(record, this.#nowMs);
    }
    if (this.#nowMs - plane.repeatedMs < hourMs || this.#without === 'silent repeats') return;
    plane.repeatedMs = this.#nowMs;
    for (const { id, process, ownMs } of plane.state.replicas)
      if (this.#nowMs - ownMs >= 2 * hourMs) {
        this.#count('silent replica repeated');
        const entries = [...plane.state.entriesOf(id)];
        this.#append({ v: 1, replica: id, process, at: ownMs, entries });
      }
  }

  #checkNothingTwice({ counters }: Process): void {
    for (const subject of subjects) {
      const key = counterKey(subject, period);
      const completed = this.#completed.get(key) ?? 0;
      const { tokens } = counters.used(key);
      if (tokens > completed) this.violations.push(`${key}: ${tokens} counted of ${completed}`);
    }
  }

  /** Starts all gateways, publishes and reads everything again, and checks that all readers have the same sum. */
  #rest(): void {
    for (const raw of this.#late.splice(0)) this.#topic.push({ atMs: this.#nowMs, raw });
    for (const folder of this.#down.splice(0)) this.#start(folder);
    for (let round = 0; round < 4; round++) {
      this.#nowMs += 3 * hourMs;
      this.#planeStep();
      for (const gateway of this.#gateways) {
        this.#write(gateway);
        if (this.#without === 'repetition') this.#publish(gateway);
        else
          for (const record of gateway.counters.everything(this.#nowMs))
            this.#topic.push({ atMs: this.#nowMs, raw: Buffer.from(JSON.stringify(record)) });
      }
      for (const gateway of this.#gateways) this.#read(gateway, true);
      for (const gateway of this.#gateways) this.#checkNothingTwice(gateway);
    }
    for (const subject of subjects) this.#checkAtRest(counterKey(subject, period));
  }

  #checkAtRest(key: string): void {
    const sums = new Set(this.#gateways.map(({ counters }) => counters.used(key).tokens));
    if (sums.size > 1) this.violations.push(`${key}: sums ${[...sums].join(', ')} at rest`);
    const completed = this.#completed.get(key) ?? 0;
    const least = completed - (this.#losable.get(key) ?? 0);
    const [sum = 0] = sums;
    if (sum < least)
      this.violations.push(`${key}: ${sum} at rest, ${least} at least were kept of ${completed}`);
  }
}

/** Returns a record whose counts have not been written to the folder yet. */
function ahead({ folder, queue }: Process, nowMs: number): CounterRecord {
  const entries = queue.map(([key, tokens]): CounterEntry => {
    const [subject = '', of = ''] = key.split(' ');
    return [subject, of, (folder.get(key)?.tokens ?? 0) + tokens, 0];
  });
  const process = [...folder.processes].at(-1) ?? '';
  return { v: 1, replica: folder.replica, process, at: nowMs, entries };
}

export function simulateCounters(options: CountersSimulationOptions): CountersSimulationResult {
  if (!isCounted(period, startMs)) throw new Error('the period of the simulation is over');
  return new Simulation(options).run();
}
