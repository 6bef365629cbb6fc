/**
 * An in-memory state for tests of deciders. A test calls given(events) and when(command), then checks events and objects.
 * Every event is checked against its schema and must be accepted by the fold, just as for events on the log.
 */
import { randomBytes } from 'node:crypto';
import { actorName, operator } from '../../control-plane/commands/authorise.ts';
import {
  authoriseCommand,
  type CommandContext,
  chooseForm,
  commandAnswer,
  parseInput,
  planCommand,
} from '../../control-plane/commands/definition.ts';
import { commands } from '../../control-plane/commands/registry.ts';
import { type KnownEvent, toStored } from '../../schemas/events/events.ts';
import { type Database, openDatabase } from '../../shared/runtime/sqlite.ts';
import { applyEvent } from '../../shared/snapshot/fold.ts';
import { KeyCounts } from '../../shared/snapshot/key-counts.ts';
import { type RowObserver, Table, type TableViews } from '../../shared/snapshot/table.ts';
import { type RowOf, schemaSql, tableNames } from '../../shared/snapshot/tables.ts';

/** 21 November 2026, 00:00 UTC, in ms since 1970. */
export const testNowMs = Date.UTC(2026, 10, 21);

export interface CommandText {
  readonly params?: unknown;
  readonly body?: unknown;
}

type KeyRow = RowOf<'api_key'> | undefined;

interface PlannedResult {
  readonly events: readonly KnownEvent[];
  /** Returns the command's answer. Call it only after the state has folded the command's events. */
  readonly result: () => object;
}

export class TestState {
  readonly db: Database;
  readonly tables: TableViews;
  readonly #keyCounts: KeyCounts;
  readonly #count: RowObserver = (table, before, after) => {
    if (table === 'api_key') this.#keyCounts.changed(before as KeyRow, after as KeyRow);
  };
  #seq = 0;

  constructor() {
    this.db = openDatabase(':memory:', { durability: 'normal' });
    this.db.exec(schemaSql());
    this.#keyCounts = new KeyCounts(this.db);
    this.tables = Object.fromEntries(
      tableNames.map((name) => [name, new Table(this.db, name, 0n, { seq: 0 }, this.#count)]),
    ) as unknown as TableViews;
  }

  given(events: readonly KnownEvent[], by = 'operator', atMs = testNowMs): this {
    this.#seq++;
    for (const event of events) {
      toStored(event);
      const passedOver = applyEvent(this.tables, event, { seq: this.#seq, atMs, by });
      if (passedOver !== undefined) throw new Error(`${event.type} was passed over: ${passedOver}`);
    }
    this.#keyCounts.store();
    return this;
  }

  /** Recounts the keys after a test has written them directly to the table. */
  countKeys(): void {
    this.db.exec('DELETE FROM key_count');
    for (const row of this.db.prepare<[], RowOf<'api_key'>>('SELECT * FROM api_key').iterate())
      this.#keyCounts.changed(undefined, row);
    this.#keyCounts.store();
  }

  /** Decides a command without folding the resulting events. */
  decide(name: string, text: CommandText = {}, context: Partial<CommandContext> = {}): PlannedResult {
    const found = commands.find((each) => each.name === name);
    if (!found) throw new Error(`there is no command ${name}`);
    const definition = chooseForm(found, text.body);
    const full = { ...testContext, ...context };
    const input = parseInput(definition, text);
    authoriseCommand(definition, this.db, input, full.actor);
    const plan = planCommand(definition, this.db, input, full);
    return { events: plan.events, result: () => commandAnswer(definition, this.db, input, plan, full) };
  }

  /** Decides a command, folds the resulting events and returns the command's answer. */
  when(
    name: string,
    text: CommandText = {},
    context: Partial<CommandContext> = {},
  ): { readonly events: readonly KnownEvent[]; readonly answer: Record<string, unknown> } {
    const { events, result } = this.decide(name, text, context);
    this.given(events, actorName(context.actor ?? operator), context.nowMs);
    return { events, answer: result() as Record<string, unknown> };
  }
}

const testContext: CommandContext = { nowMs: testNowMs, actor: operator, mint: randomBytes };

export const smallFleet: readonly KnownEvent[] = [
  {
    type: 'model.set',
    data: { id: 'echo-small', family: 'echo', added: '2026-01-01T00:00:00.000Z', weight: 1 },
  },
  {
    type: 'model.set',
    data: { id: 'echo-large', family: 'echo', added: '2026-01-01T00:00:00.000Z', weight: 4 },
  },
  { type: 'tier.set', data: { id: 'Starter', rank: 0, requestsPerMinute: 60, models: ['echo-small'] } },
  { type: 'tier.set', data: { id: 'Platinum', rank: 1, models: '*' } },
  { type: 'organisation.set', data: { id: 'acme', name: 'Acme', tier: 'Platinum', anchor: '2026-11-01' } },
  { type: 'organisation.set', data: { id: 'other', name: 'Other', tier: null, anchor: '2026-11-01' } },
  { type: 'member.set', data: { organisation: 'acme', person: 'ana', role: 'owner' } },
  { type: 'member.set', data: { organisation: 'other', person: 'zoe', role: 'owner' } },
  { type: 'stack.created', data: { id: 'stk-amber-otter-9k2f', organisation: 'acme', surface: 'openai' } },
  { type: 'stack.model_installed', data: { stack: 'stk-amber-otter-9k2f', model: 'echo-large' } },
  { type: 'pool.model_installed', data: { model: 'echo-small' } },
  {
    type: 'node.registered',
    data: {
      id: 'pool-1',
      place: { kind: 'pool' },
      url: 'http://127.0.0.1:9001',
      dialect: 'vllm',
      agent: false,
    },
  },
  {
    type: 'key.created',
    data: {
      id: 'key-acme',
      organisation: 'acme',
      name: 'ci',
      hash: 'a'.repeat(64),
      expires: 'never',
      expiresAt: null,
    },
  },
  {
    type: 'key.created',
    data: {
      id: 'key-other',
      organisation: 'other',
      name: 'ci',
      hash: 'b'.repeat(64),
      expires: 'never',
      expiresAt: null,
    },
  },
];
