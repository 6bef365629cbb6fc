/**
 * Simulates several writers on one log that loses, duplicates and delays appended records. An outsider adds records with
 * exactly one flaw. A seed determines the whole run. The simulation checks that an acknowledged command is in the chain
 * exactly once, at its position, and that a refused command never is. It also checks that unique ids are unique, that no
 * record of the outsider counts, and that all readers have the same chain.
 */
import { generateKeyPairSync, sign } from 'node:crypto';
import { setImmediate as settled } from 'node:timers/promises';
import type { Commit } from '../../schemas/events/commit.ts';
import { toStored } from '../../schemas/events/events.ts';
import {
  type ChainRule,
  chainRules,
  composeCommit,
  emptyHead,
  type Head,
  judge,
  judgeBatch,
  recordHash,
} from '../../shared/log/core/chain.ts';
import type { ControlLog, LogBatch, LogRecord, TailOptions } from '../../shared/log/core/control-log.ts';
import type { Signer } from '../../shared/log/core/signing.ts';
import { type AppendFault, MemoryLog, MemoryTopic } from '../support/memory-log.ts';
import { seededRandom } from '../support/random.ts';
import type { OpenWriter, SimulatedCommand, SimulatedOutcome, SimulatedWriter } from './model-writer.ts';

export interface SimulationOptions {
  readonly seed: number;
  readonly openWriter: OpenWriter;
  /** Rules by which all readers accept records. If one is left out, the simulation must find a violation. */
  readonly rules?: readonly ChainRule[];
  readonly forgeries?: boolean;
}

export interface SimulationResult {
  readonly violations: readonly string[];
  /** Number of occurrences of each outcome, fault and reason for skipping. */
  readonly counts: Readonly<Record<string, number>>;
}

const writerCount = 3;
const clientCount = 4;
const commandsPerClient = 3;
const repeatsMax = 3;
const stepsMax = 20_000;
const at = '2026-11-01T00:00:00.000Z';

function newSigner(): Signer {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const der = publicKey.export({ type: 'spki', format: 'der' });
  return { publicKey: der.toString('base64'), sign: (raw) => sign(null, raw, privateKey) };
}
const ownSigners = Array.from({ length: writerCount }, newSigner);
const outsider = newSigner();

export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const simulation = new Simulation(options);
  await simulation.run();
  return simulation;
}

interface IssuedCommand {
  readonly command: SimulatedCommand;
  readonly outcome: SimulatedOutcome;
}

class Simulation implements SimulationResult {
  readonly violations: string[] = [];
  readonly counts: Record<string, number> = {};
  readonly #options: SimulationOptions;
  readonly #rules: readonly ChainRule[];
  readonly #random: () => number;
  readonly #topic = new MemoryTopic();
  readonly #signers: readonly string[];
  readonly #writers: SimulatedWriter[] = [];
  readonly #turns: (() => void)[] = [];
  readonly #issued: IssuedCommand[] = [];
  readonly #forged = new Set<string>();
  readonly #faultPercent: number;
  #running = true;
  #truth = emptyHead();
  #headOffset = 0;

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#rules = options.rules ?? chainRules;
    this.#random = seededRandom(options.seed);
    // Most runs do without signatures, because these are slow.
    this.#signers = this.#chance(0.1) ? ownSigners.map((signer) => signer.publicKey) : [];
    this.#faultPercent = this.#pick([0, 20, 50, 80]);
  }

  async run(): Promise<void> {
    for (let n = 0; n < writerCount; n++) {
      const writer = this.#options.openWriter({
        log: this.#clientLog(),
        logId: `log-${n}`,
        signer: this.#signers.length > 0 ? ownSigners[n] : undefined,
        signers: this.#signers,
        judge: (head, record) => judge(head, record, this.#rules),
      });
      this.#writers.push(writer);
    }
    let active = clientCount;
    for (let n = 0; n < clientCount; n++)
      this.#client(n)
        .catch((error) => this.violations.push(`a writer failed: ${error}`))
        .finally(() => active--);
    for (let steps = 0; active > 0 && steps < stepsMax && this.#step(); steps++) await settled();
    if (active > 0) this.violations.push('the commands did not come to an end');
    await this.#comeToRest();
    this.#check();
  }

  /** Performs one random step. Returns false if there is nothing left to do. */
  #step(): boolean {
    if (this.#topic.delayed > 0 && (this.#turns.length === 0 || this.#chance(0.03))) {
      this.#topic.release(this.#below(this.#topic.delayed));
      return true;
    }
    if (this.#options.forgeries !== false && this.#chance(0.05)) this.#forge();
    const [turn] = this.#turns.splice(this.#below(this.#turns.length), 1);
    turn?.();
    return turn !== undefined;
  }

  /** Delivers the delayed records and lets every reader reach the end. */
  async #comeToRest(): Promise<void> {
    this.#running = false;
    while (this.#topic.delayed > 0) this.#topic.release(this.#below(this.#topic.delayed));
    for (const turn of this.#turns.splice(0)) turn();
    for (let rounds = 0; rounds < 1000; rounds++) {
      if (this.#writers.every((writer) => writer.nextOffset === this.#topic.end)) return;
      await settled();
    }
    this.violations.push('a reader did not come to the end of the log');
  }

  /** Sends commands one after another. If an outcome is unknown, repeats the command, usually at another writer. */
  async #client(n: number): Promise<void> {
    for (let m = 0; m < commandsPerClient; m++) {
      const command = { id: `command-${n}-${m}`, stack: `stk-sim-ulated-${this.#below(8)}` };
      let outcome: SimulatedOutcome = { kind: 'unknown' };
      for (let repeats = 0; outcome.kind === 'unknown' && repeats < repeatsMax; repeats++) {
        await this.#turn();
        outcome = await this.#pick(this.#writers).submit(command);
        this.#count(`command ${outcome.kind}`);
      }
      this.#issued.push({ command, outcome });
    }
  }

  /** Returns a client of the log. Each of its operations waits for its turn among those of all clients. */
  #clientLog(): ControlLog {
    const log = new MemoryLog(this.#topic, { fault: () => this.#fault() });
    return {
      append: async (value, signature) => {
        await this.#turn();
        try {
          return await log.append(value, signature);
        } finally {
          await this.#turn();
        }
      },
      end: () => log.end(),
      close: () => log.close(),
      tail: (tailOptions) => this.#slowTail(log, tailOptions),
    };
  }

  async *#slowTail(log: ControlLog, options: TailOptions): AsyncGenerator<LogBatch> {
    for await (const batch of log.tail({ ...options, recordsMax: 1 + this.#below(3) })) {
      await this.#turn();
      yield batch;
    }
  }

  #fault(): AppendFault {
    if (!this.#running || !this.#chance(this.#faultPercent / 100)) return 'none';
    const fault = this.#pick(['lost', 'duplicated', 'delayed', 'ack-lost', 'refused'] as const);
    this.#count(`append ${fault}`);
    return fault;
  }

  /** Appends an outsider's record that would extend the chain if it did not have one flaw. */
  #forge(): void {
    const head = this.#head();
    const events = [
      toStored({
        type: 'stack.created',
        data: { id: 'stk-for-ged-1', organisation: 'x', surface: 'openai' },
      }),
    ];
    const id = `forged-${this.#forged.size}`;
    const perfect = (at_: Head) =>
      JSON.parse(String(composeCommit({ head: at_, id, at, by: 'outsider', events })));
    const commit = perfect(head.log === null ? emptyHead('log-0') : head);
    const wrong = [
      { ...commit, log: 'elsewhere' },
      { ...commit, seq: commit.seq + 1 },
      { ...commit, prev: recordHash(Buffer.from(id)) },
      // The record has no other flaw than its signature, which is missing or not by a current signer.
      ...(this.#signers.length > 0 ? [commit, commit] : []),
    ];
    // The log must begin with log.created, so at its start an ordinary commit is already invalid.
    const forged = head.seq === 0 ? commit : this.#pick(wrong);
    const value = Buffer.from(JSON.stringify(forged));
    this.#forged.add(recordHash(value));
    this.#count('record forged');
    const signers = forged === commit ? [undefined, outsider] : ownSigners;
    this.#topic.add(value, this.#signers.length > 0 ? (this.#pick(signers)?.sign(value) ?? null) : null);
  }

  #head(): Head {
    for (const record of this.#topic.read(
      this.#headOffset,
      Number.POSITIVE_INFINITY,
      Number.POSITIVE_INFINITY,
    )) {
      const judgement = judge(this.#truth, record, this.#rules);
      if ('accepted' in judgement) this.#truth = judgement.head;
    }
    this.#headOffset = this.#topic.end;
    return this.#truth;
  }

  #replay(): { commits: Commit[]; chain: string[]; reasons: string[] } {
    let head = emptyHead();
    const commits: Commit[] = [];
    const chain: string[] = [];
    const reasons: string[] = [];
    for (const record of this.#records()) {
      const judgement = judge(head, record, this.#rules);
      if ('skipped' in judgement) {
        reasons.push(judgement.skipped);
        continue;
      }
      head = judgement.head;
      commits.push(judgement.accepted);
      chain.push(head.hash);
    }
    return { commits, chain, reasons };
  }

  #records(): LogRecord[] {
    return this.#topic.read(0, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY);
  }

  #check(): void {
    const { commits, chain, reasons } = this.#replay();
    for (const reason of reasons) this.#count(`skipped by ${reason}`);
    this.#expect(
      this.#writers.every((writer) => same(writer.chain, chain)),
      'two readers have different chains',
    );
    const bulk = judgeBatch(emptyHead(), this.#records(), this.#rules);
    const bulkChain = bulk.flatMap((judgement) => ('accepted' in judgement ? [judgement.head.hash] : []));
    this.#expect(same(bulkChain, chain), 'bulk replay has another chain');
    this.#expect(!chain.some((hash) => this.#forged.has(hash)), 'a forged record counts');
    this.#expect(
      commits.every(({ seq }, index) => seq === index + 1),
      'the positions have a gap',
    );
    this.#expect(new Set(commits.map(({ log }) => log)).size <= 1, 'the chain holds records of two logs');
    const created = commits.flatMap(({ events }) => events.filter(({ type }) => type === 'stack.created'));
    const stacks = created.map(({ data }) => (data as { id: string }).id);
    this.#expect(new Set(stacks).size === stacks.length, 'a stack was created twice');
    for (const issued of this.#issued) this.#checkCommand(issued, commits);
  }

  #checkCommand({ command, outcome }: IssuedCommand, commits: readonly Commit[]): void {
    const positions = commits.filter(({ id }) => id === command.id).map(({ seq }) => seq);
    this.#expect(positions.length <= 1, `${command.id} stands in the chain ${positions.length} times`);
    if (outcome.kind === 'accepted')
      this.#expect(
        same(positions, [outcome.position]),
        `${command.id} was acknowledged, but is not at its position`,
      );
    if (outcome.kind === 'refused' || outcome.kind === 'conflict')
      this.#expect(positions.length === 0, `${command.id} was refused, but stands in the chain`);
  }

  #expect(holds: boolean, violation: string): void {
    if (!holds) this.violations.push(violation);
  }

  #turn(): Promise<void> {
    if (!this.#running) return Promise.resolve();
    return new Promise((resolve) => this.#turns.push(resolve));
  }
  #below(limit: number): number {
    return Math.floor(this.#random() * limit);
  }
  #chance(share: number): boolean {
    return this.#random() < share;
  }
  #pick<Item>(items: readonly Item[]): Item {
    return items[this.#below(items.length)] as Item;
  }
  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }
}

function same<Item>(a: readonly Item[], b: readonly Item[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}
