/**
 * The smallest writer that works like the command writer. It folds the log to its head, decides, appends, and waits until its
 * own fold accepts a record at that position. If the outcome is unknown, it appends a no-op for the same position, and the
 * first record wins. Simulations can use this writer or the real command writer, because both are `SimulatedWriter`s.
 */
import { toStored } from '../../schemas/events/events.ts';
import {
  composeCommit,
  emptyHead,
  type Head,
  type Judgement,
  recordHash,
} from '../../shared/log/core/chain.ts';
import {
  AppendUnknown,
  type ControlLog,
  type LogRecord,
  LogUnavailable,
} from '../../shared/log/core/control-log.ts';
import type { Signer } from '../../shared/log/core/signing.ts';
import { Waiters } from '../../shared/runtime/waiters.ts';

/** A command that creates a stack. It is refused if the stack's id is in use. */
export interface SimulatedCommand {
  readonly id: string;
  readonly stack: string;
}

export type SimulatedOutcome =
  | { readonly kind: 'accepted'; readonly position: number }
  /** The state does not allow the command. */
  | { readonly kind: 'refused' }
  /** Other writers were faster in every attempt. */
  | { readonly kind: 'conflict' }
  /** The command may be in the chain, now or later. Repeating the command settles this. */
  | { readonly kind: 'unknown' };

export interface WriterParts {
  readonly log: ControlLog;
  /** Id of the log, in case this writer is the one that creates it. */
  readonly logId: string;
  readonly signer: Signer | undefined;
  readonly signers: readonly string[];
  readonly judge: (head: Head, record: LogRecord) => Judgement;
}

export interface SimulatedWriter {
  submit(command: SimulatedCommand): Promise<SimulatedOutcome>;
  /** Offset from which the writer's fold will continue reading. */
  readonly nextOffset: number;
  /** Hashes of the records that the writer's fold accepted, in order. */
  readonly chain: readonly string[];
}

export type OpenWriter = (parts: WriterParts) => SimulatedWriter;

export interface Habits {
  /** If true, trusts acknowledgements and does not wait for its own fold. The real command writer must not do this. */
  readonly believesAcknowledgements?: boolean;
}

const attemptsMax = 5;
/** Largest number of no-ops per command. It is low, so that some outcomes in a simulation stay unknown. */
const noOpsMax = 2;
const at = '2026-11-01T00:00:00.000Z';

export class ModelWriter implements SimulatedWriter {
  readonly #parts: WriterParts;
  readonly #habits: Habits;
  readonly #folded = new Waiters();
  readonly #positions = new Map<string, number>();
  readonly #stacks = new Set<string>();
  readonly #hashes = new Map<number, string>();
  readonly chain: string[] = [];
  nextOffset = 0;
  #head = emptyHead();
  #noOps = 0;

  constructor(parts: WriterParts, habits: Habits = {}) {
    this.#parts = parts;
    this.#habits = habits;
    void this.#follow();
  }

  async submit(command: SimulatedCommand): Promise<SimulatedOutcome> {
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const end = await this.#parts.log.end();
      await this.#until(() => this.nextOffset >= end);
      const position = this.#positions.get(command.id);
      if (position !== undefined) return { kind: 'accepted', position };
      if (this.#head.seq > 0 && this.#stacks.has(command.stack)) return { kind: 'refused' };
      const seq = this.#head.seq + 1;
      const placed = await this.#place(seq === 1 ? this.#genesis() : this.#commit(command), seq);
      if (placed === 'unknown') return { kind: 'unknown' };
      if (placed === 'ours' && seq > 1) return { kind: 'accepted', position: seq };
    }
    return { kind: 'conflict' };
  }

  /**
   * Appends a record for this position. Returns `ours` if it was accepted there, and `open` if another writer's record was.
   */
  async #place(record: Buffer, seq: number): Promise<'ours' | 'open' | 'unknown'> {
    const noOp = seq === 1 ? record : this.#noOp();
    try {
      await this.#append(record);
      if (this.#habits.believesAcknowledgements && seq > 1) return 'ours';
    } catch (error) {
      if (error instanceof LogUnavailable) return 'open';
      if (!(error instanceof AppendUnknown)) throw error;
      if (!(await this.#settle(noOp, seq))) return 'unknown';
    }
    await this.#until(() => this.#head.seq >= seq);
    return this.#hashes.get(seq) === recordHash(record) ? 'ours' : 'open';
  }

  /** Appends no-ops until one is known to be in the log or the position is taken. Returns false if neither becomes known. */
  async #settle(noOp: Buffer, seq: number): Promise<boolean> {
    for (let tries = 0; tries < noOpsMax && this.#head.seq < seq; tries++) {
      try {
        await this.#append(noOp);
        return true;
      } catch (error) {
        if (!(error instanceof AppendUnknown || error instanceof LogUnavailable)) throw error;
      }
    }
    return this.#head.seq >= seq;
  }

  #append(record: Buffer): Promise<number> {
    return this.#parts.log.append(record, this.#parts.signer?.sign(record) ?? null);
  }

  #genesis(): Buffer {
    const { logId: log, signers } = this.#parts;
    const data = signers.length > 0 ? { log, signers: [...signers] } : { log };
    const events = [toStored({ type: 'log.created', data })];
    return composeCommit({ head: emptyHead(log), id: `create-${log}`, at, by: 'simulation', events });
  }

  #commit({ id, stack }: SimulatedCommand): Buffer {
    const data = { id: stack, organisation: 'acme', surface: 'openai' } as const;
    return composeCommit({
      head: this.#head,
      id,
      at,
      by: 'simulation',
      events: [toStored({ type: 'stack.created', data })],
    });
  }

  #noOp(): Buffer {
    const id = `no-op-${this.#parts.logId}-${this.#noOps++}`;
    const events = [toStored({ type: 'no_op', data: {} })];
    return composeCommit({ head: this.#head, id, at, by: 'simulation', events });
  }

  async #follow(): Promise<void> {
    for await (const { records, nextOffset } of this.#parts.log.tail({ from: 0 })) {
      for (const record of records) this.#fold(record);
      this.nextOffset = nextOffset;
      this.#folded.wake();
    }
  }

  #fold(record: LogRecord): void {
    const judgement = this.#parts.judge(this.#head, record);
    if ('skipped' in judgement) return;
    const { accepted, head } = judgement;
    this.#head = head;
    this.#hashes.set(head.seq, head.hash);
    this.chain.push(head.hash);
    if (!this.#positions.has(accepted.id)) this.#positions.set(accepted.id, head.seq);
    for (const { type, data } of accepted.events)
      if (type === 'stack.created') this.#stacks.add((data as { id: string }).id);
  }

  async #until(holds: () => boolean): Promise<void> {
    while (!holds()) await this.#folded.changedSince(this.#folded.changes);
  }
}
