/**
 * What a command of the admin API is, and its steps: parse, authorise, plan (decide and guard), answer. The writer of
 * command-log/ runs them. A decider is pure over the state it is given: time and random source are arguments, and it may
 * run any number of times before its events are in the log. It refuses with CommandError, and has no effects.
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

/** Who signs, from the point of view of the deciding replica. */
export interface SigningView {
  /** Public keys whose signatures count now; empty where the log is not signed. */
  readonly signers: readonly string[];
  /** The public key of this replica. */
  readonly own: string | undefined;
  /** The replicas that report, and the fingerprint of the key of each. */
  readonly replicas: readonly { readonly name: string; readonly signer?: string | undefined }[];
}

/** Served requests, and the organisations that made them. */
export interface PlaceTraffic {
  readonly requests: number;
  readonly organisations: readonly string[];
}

export interface CommandContext {
  /** Wall clock, ms since 1970. */
  readonly nowMs: number;
  readonly actor: Actor;
  readonly mint: RandomSource;
  /** Skip the guards. */
  readonly force?: boolean | undefined;
  /** Who may sign the log; absent: the log is not signed. */
  readonly signing?: SigningView | undefined;
  /** Nothing is written: a value that is shown once would never be valid, so it is left out. */
  readonly dryRun?: boolean | undefined;
  /** Tokens that count against the allowance of a period. */
  readonly used?: PeriodFacts['used'];
  /** Requests of the last hour for a model that nodes of a place could have answered. */
  readonly served?: ((place: PlaceKey, model: string) => PlaceTraffic) | undefined;
  /** Its events become a staged change. */
  readonly stage?: Staging | undefined;
}

export interface CommandInput<Params = unknown, Body = unknown> {
  readonly params: Params;
  readonly body: Body;
}

/** What a decider wants to happen. */
export interface CommandPlan {
  /** Empty: there is nothing to change. */
  readonly events: readonly KnownEvent[];
  /** Id of the resource created, where the input does not name it. */
  readonly subject?: string;
  /** Fields of the answer in addition to the resource's. */
  readonly extra?: object;
  /** Fields that are shown once, in the answer to the first run only. */
  readonly secret?: { readonly value: string } | { readonly items: readonly { readonly value: string }[] };
  /** What was guarded and forced. */
  readonly warnings?: readonly string[];
  /** Absent: the events are one commit, or none is written. */
  readonly divisible?: Divisible;
}

/** How a plan may be divided into several commits: each must be valid in this order, whatever others write in between. */
export interface Divisible {
  /** Whether a part may begin with the event of this number. */
  mayBegin(at: number): boolean;
  /** `extra` of the events before this number. */
  extra(end: number): object;
}

/** How a command is decided, and what it answers with. */
interface Decider<Params, Body> {
  /** The organisation concerned, or undefined where what is named does not exist. Needed where members may. */
  findOrganisation?(db: Database, input: CommandInput<Params, Body>): string | undefined;
  decide(
    db: Database,
    input: CommandInput<Params, Body>,
    context: CommandContext,
  ): CommandPlan | Generator<void, CommandPlan>;
  /** Its plan has as many pieces as its body has: it is made before the command has its turn. */
  readonly plansAhead?: boolean;
  /** What the state allows and is rarely meant, of what was set. */
  warnings?(db: Database, input: CommandInput<Params, Body>): readonly string[];
  /** The resource as it is in the state; its ids where it was removed. */
  show(db: Database, input: CommandInput<Params, Body>, subject: string | undefined, nowMs: number): object;
}

export interface CommandDefinition extends Decider<unknown, unknown> {
  /** Noun and verb, such as `key.revoke`; part of the command's hash. */
  readonly name: CommandName | 'commit.undo';
  readonly method: AdminMethod;
  /** Below the prefix of the admin API, with `:name` for parameters. */
  readonly path: string;
  readonly params: z.ZodType;
  readonly body: z.ZodType | undefined;
  /** Who may call it in addition to operators: nobody, or members of the organisation concerned with one of these roles. */
  readonly access: Access;
  /** The same command for many at once, where it has that form: its body has `items`. */
  readonly many?: CommandDefinition;
}

type PlainDecider<Name extends CommandDefinition['name']> = Decider<
  OperationParams<Name>,
  OperationBody<Name>
>;
type DeciderOf<Name extends CommandDefinition['name']> = PlainDecider<Name> &
  (Name extends ManyName ? { readonly many: ManyDecider<Name> } : unknown);

/** Which form of a command a body is of. */
export function chooseForm(definition: CommandDefinition, body: unknown): CommandDefinition {
  const hasItems = typeof body === 'object' && body !== null && 'items' in body;
  return (hasItems && definition.many) || definition;
}

/** How a command for many is decided. */
export type ManyDecider<Name extends ManyName> = Decider<OperationParams<Name>, BulkBody<Name>>;

/** A command with what the table of operations declares. Checks the types of parameters and body, then erases them. */
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

/** Parses what came in. Throws CommandError InvalidCommand with every fault. */
export function parseInput(
  definition: CommandDefinition,
  raw: { readonly params?: unknown; readonly body?: unknown },
): CommandInput {
  return {
    params: parsePart(definition.params, raw.params ?? {}, 'parameters'),
    body: definition.body && parsePart(definition.body, raw.body ?? {}, 'body'),
  };
}

/** Throws CommandError unless the actor may give this command. */
export function authoriseCommand(
  definition: CommandDefinition,
  db: Database,
  input: CommandInput,
  actor: Actor,
): void {
  authorise(db, actor, definition.access, () => definition.findOrganisation?.(db, input));
}

/** Decides, and checks the events against the guards that hold for all commands. Throws CommandError. */
export function planCommand(
  definition: CommandDefinition,
  db: Database,
  input: CommandInput,
  context: CommandContext,
): CommandPlan {
  return atOnce(planInPieces(definition, db, input, context));
}

/** The same, of many pieces. Where the state changes between two of them, the plan is of no state, and so is an error. */
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

/** The answer to the first run of a command; to be called on a state that holds the events of the plan. */
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
  throw new CommandError('InvalidCommand', `the ${what} cannot be used: ${where}${first?.message ?? ''}`, {
    next: 'correct the fields that the details list',
    details,
  });
}
