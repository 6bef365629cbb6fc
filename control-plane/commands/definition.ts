/**
 * Defines a command of the admin API and its steps: parse, authorise, plan, respond. A decider depends only on its arguments,
 * which include state, time and randomness. It has no side effects, because it may run any number of times.
 */
import type { z } from 'zod';
import {
  adminOperations,
  type BulkBody,
  type CommandName,
  type ManyName,
  type OperationBody,
  type OperationParams,
} from '../../schemas/admin/admin.ts';
import { type AdminMethod, operationRoute } from '../../schemas/admin/admin-routes.ts';
import { type Access, manyBody, type OperationRow } from '../../schemas/admin/admin-row.ts';
import { pathSchemas } from '../../schemas/admin/commands.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { pathText } from '../../schemas/events/fleet.ts';
import type { PlaceKey } from '../../schemas/names.ts';
import type { RandomSource } from '../../shared/ids/api-key.ts';
import { atOnce } from '../../shared/runtime/slices.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError } from '../core/command-error.ts';
import { listChanges } from '../state/changes.ts';
import { type Actor, authorise } from './authorise.ts';
import { checkCardinality, guardPeriods, guardRemovals, type PeriodFacts } from './guards.ts';
import { checkOwners } from './ownership.ts';
import { checkOpenChange, type Staging, stagedEvents } from './staging.ts';

/** The log's signers and the running replicas, as the deciding replica sees them. */
export interface SigningView {
  /** Public keys whose signatures are valid now, or empty if the log is not signed. */
  readonly signers: readonly string[];
  /** This replica's public key. */
  readonly own: string | undefined;
  /** Running replicas, with the fingerprint of each one's key. */
  readonly replicas: readonly { readonly name: string; readonly signer?: string | undefined }[];
}

/** Number of served requests, and the organisations that made them. */
export interface PlaceTraffic {
  readonly requests: number;
  readonly organisations: readonly string[];
}

export interface CommandContext {
  /** Wall clock in ms since 1970. */
  readonly nowMs: number;
  readonly actor: Actor;
  readonly mint: RandomSource;
  /** Whether to skip the guards. */
  readonly force?: boolean | undefined;
  /** The log's signers. Absent if the log is not signed. */
  readonly signing?: SigningView | undefined;
  /**
   * Whether nothing will be written. One-time fields such as key values are then left out, because they would never be valid.
   */
  readonly dryRun?: boolean | undefined;
  /** Returns the number of tokens that count against an organisation's allowance in a period. */
  readonly used?: PeriodFacts['used'];
  /** Returns the last hour's requests for a model that the nodes of a place could have answered. */
  readonly served?: ((place: PlaceKey, model: string) => PlaceTraffic) | undefined;
  /** If set, the events become a staged change instead of taking effect at once. */
  readonly stage?: Staging | undefined;
}

export interface CommandInput<Params = unknown, Body = unknown> {
  readonly params: Params;
  readonly body: Body;
}

export interface CommandPlan {
  /** Events to write. The list is empty if there is nothing to change. */
  readonly events: readonly KnownEvent[];
  /** Id of the resource that the command creates. Absent if the input contains the id. */
  readonly subject?: string;
  /** Additional fields of the response, next to those of the resource. */
  readonly extra?: object;
  /** Secret fields, such as the value of a new key, which only the response to the first run contains. */
  readonly secret?: { readonly value: string } | { readonly items: readonly { readonly value: string }[] };
  /** Refusals by guards that were overridden with force. */
  readonly warnings?: readonly string[];
  /** Rules for dividing the plan into several commits. If absent, all events must fit one commit. */
  readonly divisible?: Divisible;
}

/** Rules for dividing a plan into several commits. Each commit must be valid after the one before, whatever others write. */
export interface Divisible {
  /** Whether a part of the plan may begin with the event at this index. */
  mayBegin(at: number): boolean;
  /** Returns the additional response fields for a part that ends just before the event at this index. */
  extra(end: number): object;
}

/** Decides a command and builds its response. */
interface Decider<Params, Body> {
  /** Finds the organisation that owns the resource, if the resource exists. Required if members may run the command. */
  findOrganisation?(db: Database, input: CommandInput<Params, Body>): string | undefined;
  decide(
    db: Database,
    input: CommandInput<Params, Body>,
    context: CommandContext,
  ): CommandPlan | Generator<void, CommandPlan>;
  /** Whether the size of the plan grows with the body. Such a plan is made in advance, before the command's turn. */
  readonly plansAhead?: boolean;
  /** Warns about settings that are valid but rarely intended. */
  warnings?(db: Database, input: CommandInput<Params, Body>): readonly string[];
  /** Returns the resource as the state contains it, or only its ids if it was removed. */
  show(db: Database, input: CommandInput<Params, Body>, subject: string | undefined, nowMs: number): object;
}

export interface CommandDefinition extends Decider<unknown, unknown> {
  /** Noun and verb, such as `key.revoke`. It is part of the command's hash. */
  readonly name: CommandName | 'commit.undo';
  readonly method: AdminMethod;
  /** Path below the prefix of the admin API, with `:name` for parameters. */
  readonly path: string;
  readonly params: z.ZodType;
  readonly body: z.ZodType | undefined;
  /** Callers allowed in addition to operators: nobody, or members with one of these roles in the organisation concerned. */
  readonly access: Access;
  /** Bulk form of the command, if there is one. Its body contains `items`. */
  readonly many?: CommandDefinition;
}

type PlainDecider<Name extends CommandDefinition['name']> = Decider<
  OperationParams<Name>,
  OperationBody<Name>
>;
type DeciderOf<Name extends CommandDefinition['name']> = PlainDecider<Name> &
  (Name extends ManyName ? { readonly many: ManyDecider<Name> } : unknown);

/** Chooses the single or the bulk form of a command by its body. */
export function chooseForm(definition: CommandDefinition, body: unknown): CommandDefinition {
  const hasItems = typeof body === 'object' && body !== null && 'items' in body;
  return (hasItems && definition.many) || definition;
}

/** Decider for the bulk form of a command. */
export type ManyDecider<Name extends ManyName> = Decider<OperationParams<Name>, BulkBody<Name>>;

/** Combines a decider with its row in the table of operations. Erases its types, so that all commands have a common type. */
export function defineCommand<Name extends CommandDefinition['name']>(
  name: Name,
  decider: DeciderOf<Name>,
): CommandDefinition {
  const row: OperationRow = adminOperations[name];
  const { params = pathSchemas.none, body, access } = row;
  const declared = { name, ...operationRoute(name), params, access };
  const ofOne: PlainDecider<Name> = decider;
  const { many } = decider as { readonly many?: Decider<unknown, unknown> };
  return {
    ...declared,
    body,
    ...ofOne,
    ...(many && { many: { ...declared, body: manyBody(row), ...many } }),
  };
}

export function defineCommands<Name extends CommandName>(
  deciders: { readonly [Each in Name]: DeciderOf<Each> },
): Readonly<Record<Name, CommandDefinition>> {
  const names = Object.keys(deciders) as Name[];
  const definitions = names.map((name) => [name, defineCommand(name, deciders[name])]);
  return Object.fromEntries(definitions);
}

/** Parses the parameters and body. Throws an `InvalidCommand` error, which lists every fault. */
export function parseInput(
  definition: CommandDefinition,
  raw: { readonly params?: unknown; readonly body?: unknown },
): CommandInput {
  return {
    params: parsePart(definition.params, raw.params ?? {}, 'parameters'),
    body: definition.body && parsePart(definition.body, raw.body ?? {}, 'body'),
  };
}

/** Throws `CommandError` unless the actor may run this command. */
export function authoriseCommand(
  definition: CommandDefinition,
  db: Database,
  input: CommandInput,
  actor: Actor,
): void {
  authorise(db, actor, definition.access, () => definition.findOrganisation?.(db, input));
}

/** Decides a command, then checks its events against the guards that apply to all commands. Throws `CommandError`. */
export function planCommand(
  definition: CommandDefinition,
  db: Database,
  input: CommandInput,
  context: CommandContext,
): CommandPlan {
  return atOnce(planInPieces(definition, db, input, context));
}

/** Plans like `planCommand` but yields often, to let other work run. If the state changes meanwhile, discard the result. */
export function* planInPieces(
  definition: CommandDefinition,
  db: Database,
  input: CommandInput,
  context: CommandContext,
): Generator<void, CommandPlan> {
  const decided = definition.decide(db, input, context);
  const plan = 'next' in decided ? yield* decided : decided;
  yield* checkOwners(db, context.actor, plan.events, context.force);
  if (!context.force) yield* guardRemovals(db, plan.events);
  yield* checkCardinality(db, plan.events, context.nowMs);
  yield;
  const warnings = guardPeriods(db, plan.events, context);
  const { stage, actor } = context;
  if (stage && plan.events.length > 0)
    return { events: stagedEvents(db, plan.events, stage, actor), warnings };
  checkOpenChange(db, plan.events);
  return { ...plan, warnings };
}

/** Builds the response to the first run of a command. The state must already contain the plan's events. */
export function commandAnswer(
  definition: CommandDefinition,
  db: Database,
  input: CommandInput,
  { events, subject, extra, secret, warnings: forced = [] }: CommandPlan,
  { nowMs, dryRun, stage }: CommandContext,
): object {
  const staged = stage && events.length > 0 && listChanges(db)[0];
  if (staged) return staged;
  const warnings = [...forced, ...(definition.warnings?.(db, input) ?? [])];
  return {
    ...definition.show(db, input, subject, nowMs),
    ...extra,
    ...(warnings.length > 0 && { warnings }),
    ...(dryRun ? undefined : secret),
  };
}

function parsePart(schema: z.ZodType, value: unknown, what: string): unknown {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const details = parsed.error.issues.slice(0, 200).map(({ path, message }) => ({
    path: pathText(path),
    message,
  }));
  const [first] = details;
  const where = first?.path ? `${first.path}: ` : '';
  throw new CommandError('InvalidCommand', `the ${what} is not valid: ${where}${first?.message ?? ''}`, {
    next: 'correct the fields that the details list',
    details,
  });
}
