/**
 * Valid chains of records and random fleet histories, for tests and benches. The output depends only on the arguments and the
 * seed, so equal calls return the same bytes on every machine and on every day.
 */
import { createHash } from 'node:crypto';
import type { SampleDraw, SampleNames } from '../../schemas/events/event-definition.ts';
import {
  type EventTypeName,
  eventDefinitions,
  eventTypeNames,
} from '../../schemas/events/event-definitions.ts';
import { type EventData, type KnownEvent, type StoredEvent, toStored } from '../../schemas/events/events.ts';
import { composeCommit, emptyHead, type Head, recordHash } from '../../shared/log/core/chain.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import type { Signer } from '../../shared/log/core/signing.ts';
import { type Random, seededRandom } from './random.ts';

/** Time of the commit with `seq` 0, in ms since 1970. Each later commit is one second later. */
export const firstMomentMs = Date.UTC(2026, 0, 1);

export interface ChainOptions {
  readonly log?: string;
  readonly signer?: Signer;
}

/** Composes records that extend a chain. */
export class ChainWriter {
  readonly #log: string;
  readonly #signer: Signer | undefined;
  #head: Head;
  /** Offset of the next record. A test may raise it to leave a gap. */
  offset = 0;

  constructor({ log = 'test-log', signer }: ChainOptions = {}) {
    this.#log = log;
    this.#signer = signer;
    this.#head = emptyHead(log);
  }

  get head(): Head {
    return this.#head;
  }

  /** Adds the record that opens the log. */
  open(): LogRecord {
    const signers = this.#signer ? { signers: [this.#signer.publicKey] } : {};
    return this.add([known('log.created', { log: this.#log, ...signers })]);
  }

  /** Adds one commit of these events, with the same strict checks as a real writer. */
  add(events: readonly KnownEvent[], by = 'operator'): LogRecord {
    return this.addStored(events.map(toStored), by);
  }

  /** Adds one commit of these stored events without checking them. */
  addStored(events: readonly StoredEvent[], by = 'operator', at = this.#moment()): LogRecord {
    const seq = this.#head.seq + 1;
    return this.addRaw(composeCommit({ head: this.#head, id: `command-${seq}`, at, by, events }));
  }

  /** Adds these bytes as the next record of the chain. */
  addRaw(value: Buffer): LogRecord {
    const { log, seq, signers } = this.#head;
    this.#head = { log, seq: seq + 1, hash: recordHash(value), signers };
    return { offset: this.offset++, value, signature: this.#signer?.sign(value) ?? null };
  }

  /** Adds a record to the log that does not extend the chain. */
  junk(text: string): LogRecord {
    return { offset: this.offset++, value: Buffer.from(text), signature: null };
  }

  #moment(): string {
    return new Date(firstMomentMs + (this.#head.seq + 1) * 1000).toISOString();
  }
}

/** Returns a complete log: the opening record, then one record per list of events. */
export function recordsOf(
  commits: readonly (readonly KnownEvent[])[],
  options: ChainOptions = {},
): LogRecord[] {
  const writer = new ChainWriter(options);
  return [writer.open(), ...commits.map((events) => writer.add(events))];
}

/** Builds an event whose data the compiler checks against its type. */
export function known<Name extends EventTypeName>(type: Name, data: EventData<Name>): KnownEvent {
  return { type, data } as KnownEvent;
}

/** SHA-256 of a text in hex, as the log stores keys and tokens. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function named(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${index + 1}`);
}

/**
 * Each kind has few names, so that random events collide: repeated creations, removals of existing objects, former owners.
 */
const names: Readonly<Record<SampleNames, readonly string[]>> = {
  organisation: named('org', 5),
  person: named('person', 4),
  tier: ['Starter', 'Team', 'Platinum', 'anonymous'],
  model: ['echo-small', 'echo-large', 'family/model:1b', 'embed-1'],
  stack: ['stk-amber-otter-1', 'stk-blue-finch-2', 'stk-calm-heron-3'],
  node: named('node', 8),
  owner: ['control-1', 'control-2'],
  period: ['2026-01-01', '2026-02-01'],
};

function drawsOf(random: Random): SampleDraw {
  const oneOf = <Value>(values: readonly Value[]): Value =>
    values[Math.floor(random() * values.length)] as Value;
  return {
    oneOf,
    sha256,
    name: (kind) => oneOf(names[kind]),
    names: (kind) => names[kind].filter(() => random() < 0.5),
    upTo: (max) => 1 + Math.floor(random() * max),
    chance: (share) => random() < share,
  };
}

export function randomEvent(random: Random, type: EventTypeName): KnownEvent {
  return { type, data: eventDefinitions[type].sample(drawsOf(random)) } as KnownEvent;
}

/** Returns a random history with commits of one to four events. Enough node claims are valid for some nodes to serve. */
export function fleetHistory(seed: number, commits: number): KnownEvent[][] {
  const random = seededRandom(seed);
  const { oneOf, upTo } = drawsOf(random);
  const types = eventTypeNames.filter((type) => !/^(log\.|checkpoint)/.test(type));
  // Removals are drawn rarely, because they would keep every table nearly empty.
  const likely = types.filter((type) => !type.endsWith('.removed'));
  const generations = new Map<string, number>();
  return Array.from({ length: commits }, () =>
    Array.from({ length: upTo(4) }, () => {
      const drawn = randomEvent(random, oneOf(random() < 0.85 ? likely : types));
      return random() < 0.8 ? inOrder(drawn, generations) : drawn;
    }),
  );
}

/**
 * Makes a drawn event valid: a claim gets the next generation, and a report gets the owner and generation of the last claim.
 */
function inOrder(drawn: KnownEvent, generations: Map<string, number>): KnownEvent {
  if (drawn.type === 'node.joined') {
    const generation = (generations.get(drawn.data.id) ?? 0) + 1;
    generations.set(drawn.data.id, generation);
    return known('node.joined', { ...drawn.data, owner: 'control-1', generation });
  }
  if (drawn.type === 'node.health_changed') {
    const generation = generations.get(drawn.data.id) ?? 1;
    return known('node.health_changed', { ...drawn.data, owner: 'control-1', generation });
  }
  return drawn;
}
