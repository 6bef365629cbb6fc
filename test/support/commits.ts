/**
 * Valid chains of records, and random histories of a fleet, for tests and benches.
 * Everything follows from the arguments and the seed: the same call gives the same bytes on every machine and day.
 */
import { createHash } from 'node:crypto';
import {
  type EventData,
  type EventTypeName,
  eventTypes,
  type KnownEvent,
  type StoredEvent,
  toStored,
} from '../../schemas/events.ts';
import { composeCommit, emptyHead, type Head, recordHash } from '../../shared/log/core/chain.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import type { Signer } from '../../shared/log/core/signing.ts';
import { type Random, seededRandom } from './random.ts';

/** The moment of the commit with `seq` 0; each later commit is one second later. */
export const firstMomentMs = Date.UTC(2026, 0, 1);

export interface ChainOptions {
  readonly log?: string;
  readonly signer?: Signer;
}

/** Composes records, each the successor of the one before. */
export class ChainWriter {
  readonly #log: string;
  readonly #signer: Signer | undefined;
  #head: Head;
  /** Where the next record will stand. A test may raise it to leave a hole. */
  offset = 0;

  constructor({ log = 'test-log', signer }: ChainOptions = {}) {
    this.#log = log;
    this.#signer = signer;
    this.#head = emptyHead(log);
  }

  get head(): Head {
    return this.#head;
  }

  /** The record that opens the log. */
  open(): LogRecord {
    const signers = this.#signer ? { signers: [this.#signer.publicKey] } : {};
    return this.add([known('log.created', { log: this.#log, ...signers })]);
  }

  /** The record of one commit of these events, as strictly as a real writer composes it. */
  add(events: readonly KnownEvent[], by = 'operator'): LogRecord {
    return this.addStored(events.map(toStored), by);
  }

  /** The record of one commit whose events nobody looked at. */
  addStored(events: readonly StoredEvent[], by = 'operator', at = this.#moment()): LogRecord {
    const seq = this.#head.seq + 1;
    return this.addRaw(composeCommit({ head: this.#head, id: `command-${seq}`, at, by, events }));
  }

  /** These bytes as the next record of the chain. */
  addRaw(value: Buffer): LogRecord {
    const { log, seq, signers } = this.#head;
    this.#head = { log, seq: seq + 1, hash: recordHash(value), signers };
    return { offset: this.offset++, value, signature: this.#signer?.sign(value) ?? null };
  }

  /** A record that stands in the log and does not extend the chain. */
  junk(text: string): LogRecord {
    return { offset: this.offset++, value: Buffer.from(text), signature: null };
  }

  #moment(): string {
    return new Date(firstMomentMs + (this.#head.seq + 1) * 1000).toISOString();
  }
}

/** A log: its first record, then one record for each list of events. */
export function recordsOf(
  commits: readonly (readonly KnownEvent[])[],
  options: ChainOptions = {},
): LogRecord[] {
  const writer = new ChainWriter(options);
  return [writer.open(), ...commits.map((events) => writer.add(events))];
}

/** An event with its type's data checked by the compiler. */
export function known<Name extends EventTypeName>(type: Name, data: EventData<Name>): KnownEvent {
  return { type, data } as KnownEvent;
}

/** SHA-256 of a text, as keys and tokens stand in the log. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function pick<Value>(random: Random, values: readonly Value[]): Value {
  return values[Math.floor(random() * values.length)] as Value;
}
function some<Value>(random: Random, values: readonly Value[]): Value[] {
  return values.filter(() => random() < 0.5);
}
function upTo(random: Random, max: number): number {
  return 1 + Math.floor(random() * max);
}
function named(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}-${index + 1}`);
}

// Few names, so that a random history meets itself: second creations, removals of what is there, former owners.
const organisations = named('org', 5);
const people = named('person', 4);
const tiers = ['Starter', 'Team', 'Platinum', 'anonymous'];
const models = ['echo-small', 'echo-large', 'family/model:1b', 'embed-1'];
const stacks = ['stk-amber-otter-1', 'stk-blue-finch-2', 'stk-calm-heron-3'];
const nodes = named('node', 8);
const owners = ['control-1', 'control-2'];
const periods = ['2026-01-01', '2026-02-01'];

function limits(random: Random) {
  return random() < 0.3 ? {} : { requestsPerMinute: upTo(random, 600), concurrency: upTo(random, 64) };
}
function place(random: Random): EventData<'node.registered'>['place'] {
  const kind = pick(random, ['pool', 'stack', 'organisation'] as const);
  if (kind === 'stack') return { kind, id: pick(random, stacks) };
  return kind === 'organisation' ? { kind, id: pick(random, organisations) } : { kind };
}
function selection(random: Random): '*' | string[] {
  return random() < 0.3 ? '*' : some(random, models);
}

/** Data of every event type; a type without an entry does not compile. */
const randomData: { readonly [Name in EventTypeName]: (random: Random) => EventData<Name> } = {
  'log.created': () => ({ log: 'another-log' }),
  'log.signers_set': () => ({ signers: ['a key that signs nothing'] }),
  'tier.set': (random) => ({
    id: pick(random, tiers),
    rank: upTo(random, 4),
    ...limits(random),
    models: selection(random),
  }),
  'tier.removed': (random) => ({ id: pick(random, tiers) }),
  'anonymous.set': (random) => ({
    freeTurns: upTo(random, 20),
    ...limits(random),
    models: selection(random),
    ...(random() < 0.5 && { networkFactor: upTo(random, 5), total: { tokensPerDay: upTo(random, 100) } }),
  }),
  'model.set': (random) => ({
    id: pick(random, models),
    family: pick(random, ['echo', 'embed']),
    added: `2026-01-0${upTo(random, 9)}T00:00:00Z`,
    weight: upTo(random, 4),
  }),
  'model.removed': (random) => ({ id: pick(random, models) }),
  'organisation.set': (random) => ({
    id: pick(random, organisations),
    name: pick(random, ['Acme', 'Bergen & Söhne', '株式会社']),
    tier: random() < 0.2 ? null : pick(random, tiers),
    anchor: pick(random, periods),
  }),
  'organisation.suspended': (random) => ({ id: pick(random, organisations), suspended: random() < 0.5 }),
  'organisation.removed': (random) => ({ id: pick(random, organisations) }),
  'member.set': (random) => ({
    organisation: pick(random, organisations),
    person: pick(random, people),
    role: pick(random, ['owner', 'member', 'viewer'] as const),
  }),
  'member.removed': (random) => ({ organisation: pick(random, organisations), person: pick(random, people) }),
  'key.created': (random) => {
    const id = `key-${upTo(random, 30)}`;
    const expires = random() < 0.5 ? ('never' as const) : ('30d' as const);
    const expiresAt = expires === 'never' ? null : '2026-02-01T00:00:00Z';
    return {
      id,
      organisation: pick(random, organisations),
      name: 'a key',
      hash: sha256(id),
      expires,
      expiresAt,
    };
  },
  'key.revoked': (random) => ({ id: `key-${upTo(random, 30)}` }),
  'stack.created': (random) => ({
    id: pick(random, stacks),
    organisation: pick(random, organisations),
    surface: pick(random, ['openai', 'anthropic'] as const),
  }),
  'stack.surface_set': (random) => ({
    id: pick(random, stacks),
    surface: pick(random, ['openai', 'anthropic'] as const),
  }),
  'stack.removed': (random) => ({ id: pick(random, stacks) }),
  'stack.model_installed': (random) => ({ stack: pick(random, stacks), model: pick(random, models) }),
  'stack.model_uninstalled': (random) => ({ stack: pick(random, stacks), model: pick(random, models) }),
  'pool.model_installed': (random) => ({ model: pick(random, models) }),
  'pool.model_uninstalled': (random) => ({ model: pick(random, models) }),
  'node.registered': (random) => {
    const id = pick(random, nodes);
    const names = random() < 0.3 ? { models: { 'echo-large': 'engine-name' } } : {};
    const url = `http://127.0.0.1:${9000 + upTo(random, 9)}`;
    return { id, place: place(random), url, dialect: 'vllm', ...names, agent: random() < 0.5 };
  },
  'node.drained': (random) => ({ id: pick(random, nodes) }),
  'node.undrained': (random) => ({ id: pick(random, nodes) }),
  'node.removed': (random) => ({ id: pick(random, nodes) }),
  'node.token_created': (random) => {
    const id = `token-${upTo(random, 10)}`;
    return { id, node: pick(random, nodes), hash: sha256(id) };
  },
  'node.token_revoked': (random) => ({ id: `token-${upTo(random, 10)}` }),
  'node.joined': (random) => ({
    id: pick(random, nodes),
    owner: pick(random, owners),
    generation: upTo(random, 4),
  }),
  'node.health_changed': (random) => ({
    id: pick(random, nodes),
    owner: pick(random, owners),
    generation: upTo(random, 4),
    up: random() < 0.8,
    models: some(random, [...models, 'engine-name']),
    windows: { 'echo-small': upTo(random, 8192) },
    imageModels: ['echo-small', 'engine-name'],
  }),
  'usage.adjusted': (random) => ({
    organisation: pick(random, organisations),
    period: pick(random, periods),
    tokens: upTo(random, 2000) - 1000,
  }),
  checkpoint: () => ({ foldVersion: 0, digests: {} }),
  'session.ended': (random) => ({
    kind: 'session',
    subject: `s-${random()}`,
    until: '2026-01-01T00:00:00.000Z',
  }),
  'bounds.set': (random) => ({
    activeKeysPerOrganisation: upTo(random, 100),
    ...(random() < 0.5 && { commandsPerPersonPerMinute: upTo(random, 100) }),
  }),
  no_op: () => ({}),
};

export const eventTypeNames = Object.keys(eventTypes) as EventTypeName[];

/** One event of this type. */
export function randomEvent(random: Random, type: EventTypeName): KnownEvent {
  return { type, data: randomData[type](random) } as KnownEvent;
}

/** A history of this many commits of one to four events; nodes are claimed in order often enough for some to serve. */
export function fleetHistory(seed: number, commits: number): KnownEvent[][] {
  const random = seededRandom(seed);
  const types = eventTypeNames.filter((type) => !/^(log\.|checkpoint)/.test(type));
  // The rare destroyers of much would otherwise keep every table near empty.
  const likely = types.filter((type) => !type.endsWith('.removed'));
  const generations = new Map<string, number>();
  return Array.from({ length: commits }, () =>
    Array.from({ length: upTo(random, 4) }, () => {
      const drawn = randomEvent(random, pick(random, random() < 0.85 ? likely : types));
      return random() < 0.8 ? inOrder(drawn, generations) : drawn;
    }),
  );
}

/** Gives claims the generation that comes next, and reports the owner and generation of the last claim. */
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
