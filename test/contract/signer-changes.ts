/**
 * Generates random logs whose signers change, including records of removed signers, outsiders and late writers. The generator
 * itself keeps track of the records that count, so readers can be checked against it and not only against each other.
 */
import { generateKeyPairSync, sign } from 'node:crypto';
import { type StoredEvent, toStored } from '../../schemas/events/events.ts';
import { composeCommit, emptyHead, type Head, recordHash } from '../../shared/log/core/chain.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import type { Signer } from '../../shared/log/core/signing.ts';
import { type Random, seededRandom } from '../support/random.ts';

export function newSigner(): Signer {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const der = publicKey.export({ type: 'spki', format: 'der' });
  return { publicKey: der.toString('base64'), sign: (raw) => sign(null, raw, privateKey) };
}

/** All keys that ever sign. The subset that is allowed to sign changes along the log. */
const keys = Array.from({ length: 5 }, newSigner);
const outsider = newSigner();
const at = '2026-11-01T00:00:00.000Z';

export interface SignerLog {
  readonly records: readonly LogRecord[];
  /** Hashes of the records that count, in order. */
  readonly chain: readonly string[];
  /** Public keys that may sign the next record. */
  readonly signers: readonly string[];
  readonly kinds: Readonly<Record<string, number>>;
}

/** Kinds of records, each with a weight. A higher weight makes the kind more likely. */
const steps = {
  commit: 6,
  change: 3,
  'change that cannot be read': 1,
  'record of a removed signer': 3,
  'record of an outsider': 1,
  'unsigned record': 1,
  'change by a removed signer': 2,
  'change by an outsider': 2,
  'late record': 2,
  'copy of an earlier record': 2,
  'signature of another record': 1,
} as const;
export type Step = keyof typeof steps;
export const stepNames = Object.keys(steps) as Step[];
const drawn = stepNames.flatMap((name) => Array.from({ length: steps[name] }, () => name));

function changed(signers: readonly string[]): StoredEvent {
  return toStored({ type: 'log.signers_set', data: { signers: [...signers] } });
}

/** Returns invalid signer changes. Each of them counts as an ordinary commit and leaves the signers unchanged. */
function unreadableChanges(to: string): StoredEvent[][] {
  const event = changed([to]);
  const noOp = toStored({ type: 'no_op', data: {} });
  return [
    [{ ...event, data: { signers: [] } }],
    [{ ...event, data: { signers: to } }],
    [{ ...event, data: { signers: Array.from({ length: 17 }, () => to) } }],
    [{ ...event, data: { signers: ['x'.repeat(201)] } }],
    [{ ...event, data: null }],
    // A signer change must be critical, because readers of older builds would skip this one.
    [{ ...event, critical: false }],
    [event, noOp],
    [noOp, event],
    [event, event],
  ];
}

class Builder {
  readonly records: LogRecord[] = [];
  readonly chain: string[] = [];
  readonly kinds: Record<string, number> = {};
  readonly #random: Random;
  readonly #heads: Head[] = [];
  #head = emptyHead('main');
  #signers: readonly Signer[] = [];
  #removed: readonly Signer[] = [];
  #commits = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  get signers(): readonly Signer[] {
    return this.#signers;
  }

  genesis(signers: readonly Signer[]): void {
    const data = { log: 'main', ...(signers.length > 0 && { signers: signers.map((one) => one.publicKey) }) };
    const value = this.#compose(this.#head, [toStored({ type: 'log.created', data })]);
    this.#accept(value, signers.length > 0 ? this.#pick(signers) : undefined);
    this.#signers = signers;
  }

  step(kind: Step): void {
    const skipped = this.#outsider(kind);
    if (skipped) this.records.push({ offset: this.records.length, ...skipped });
    else if (kind === 'change') this.#change();
    else this.#accept(this.#compose(this.#head, this.#eventsOf(kind)), this.#author());
    this.kinds[kind] = (this.kinds[kind] ?? 0) + 1;
  }

  #eventsOf(kind: Step): readonly StoredEvent[] {
    if (kind === 'change that cannot be read') return this.#pick(unreadableChanges(outsider.publicKey));
    return [toStored({ type: 'no_op', data: {} })];
  }

  /** Adds a signer change. It is signed by a current signer or, if there are none, by a signer that it names. */
  #change(): void {
    const some = keys.filter(() => this.#random() < 0.4);
    const next = some.length > 0 ? some : [this.#pick(keys)];
    const value = this.#compose(this.#head, [changed(next.map((one) => one.publicKey))]);
    this.#accept(value, this.#signers.length > 0 ? this.#author() : this.#pick(next));
    this.#removed = keys.filter((one) => !next.includes(one));
    this.#signers = next;
  }

  /** Returns a record by someone who may not sign at this point, or undefined if such a record would be legitimate. */
  #outsider(kind: Step): Omit<LogRecord, 'offset'> | undefined {
    const noOp = [toStored({ type: 'no_op', data: {} })];
    const removed = this.#removed.length > 0 ? this.#pick(this.#removed) : outsider;
    const isSigned = this.#signers.length > 0;
    // Only an outsider's key may be used on a log without signers, because there a change may be signed with a key that it
    // names.
    const named = kind === 'change by an outsider' || !isSigned ? outsider : removed;
    const change = [changed([named.publicKey])];
    switch (kind) {
      case 'record of a removed signer':
        return isSigned ? this.#by(removed, this.#head, noOp) : this.#copy();
      case 'record of an outsider':
        return isSigned ? this.#by(outsider, this.#head, noOp) : this.#copy();
      case 'unsigned record':
        return isSigned ? this.#by(undefined, this.#head, noOp) : this.#copy();
      case 'change by a removed signer':
        return this.#by(isSigned ? removed : this.#pick(keys), this.#head, change);
      case 'change by an outsider':
        return this.#by(isSigned ? outsider : undefined, this.#head, change);
      case 'late record':
        return this.#by(this.#author(), this.#pick(this.#heads), noOp);
      case 'copy of an earlier record':
        return this.#copy();
      case 'signature of another record': {
        const { signature } = this.#by(this.#author(), this.#head, noOp);
        return isSigned ? { value: this.#compose(this.#head, noOp), signature } : this.#copy();
      }
      default:
        return undefined;
    }
  }

  #by(signer: Signer | undefined, head: Head, events: readonly StoredEvent[]): Omit<LogRecord, 'offset'> {
    const value = this.#compose(head, events);
    return { value, signature: signer?.sign(value) ?? null };
  }

  #copy(): Omit<LogRecord, 'offset'> {
    return this.#pick(this.records);
  }

  #author(): Signer | undefined {
    return this.#signers.length > 0 ? this.#pick(this.#signers) : undefined;
  }

  #accept(value: Buffer, signer: Signer | undefined): void {
    this.#heads.push(this.#head);
    this.#head = { log: 'main', seq: this.#head.seq + 1, hash: recordHash(value), signers: [] };
    this.chain.push(this.#head.hash);
    this.records.push({ offset: this.records.length, value, signature: signer?.sign(value) ?? null });
  }

  /** Composes a commit; no two have the same bytes. */
  #compose(head: Head, events: readonly StoredEvent[]): Buffer {
    return composeCommit({ head, id: `command-${this.#commits++}`, at, by: 'test', events });
  }

  #pick<Item>(items: readonly Item[]): Item {
    return items[Math.floor(this.#random() * items.length)] as Item;
  }
}

/**
 * Returns a log with this many records after its first one. The seed determines the steps, but the keys are new in every
 * process.
 */
export function signerLog(seed: number, length: number): SignerLog {
  const random = seededRandom(seed);
  const builder = new Builder(random);
  builder.genesis(random() < 0.3 ? [] : keys.slice(0, 1 + Math.floor(random() * 3)));
  for (let n = 0; n < length; n++) builder.step(drawn[Math.floor(random() * drawn.length)] as Step);
  const { records, chain, kinds } = builder;
  return { records, chain, kinds, signers: builder.signers.map(({ publicKey }) => publicKey) };
}
