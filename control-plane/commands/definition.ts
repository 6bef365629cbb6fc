/**
 * What a command of the admin API is, and the one way in which each is prepared: parse, authorise, decide, guard.
 * A decider is pure over the state it is shown: the time and the random source are arguments, and it may be run any
 * number of times before its events are in the log. It refuses with CommandError, and nothing has happened then.
 */
import type { z } from 'zod';
import type { KnownEvent } from '../../schemas/events.ts';
import { pathText } from '../../schemas/fleet.ts';
import type { Role } from '../../schemas/names.ts';
import type { RandomSource } from '../../shared/ids/api-key.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { CommandError } from '../core/command-error.ts';
import { type Actor, authorise } from './authorise.ts';
import { commandHash } from './command-hash.ts';
import { checkCardinality } from './limits.ts';
import { checkOwners } from './ownership.ts';
import { guardRemovals } from './removal-guard.ts';

/** Who signs, as the replica that decides knows it. */
export interface SigningView {
  /** Public keys whose signatures count now; empty where the log is not signed. */
  readonly signers: readonly string[];
  /** The public key of this replica. */
  readonly own: string | undefined;
  /** The replicas that report, and the fingerprint of the key of each. */
  readonly replicas: readonly { readonly name: string; readonly signer?: string | undefined }[];
}

export interface CommandContext {
  /** Wall clock, ms since 1970. */
  readonly nowMs: number;
  readonly actor: Actor;
  readonly mint: RandomSource;
  /** Carry it out although a guard advises against it. */
  readonly force?: boolean | undefined;
  /** Who may sign the log; nobody in particular where it is left out. */
  readonly signing?: SigningView | undefined;
  /** Only look: nothing that is shown once may be in the answer, because it will never be valid. */
  readonly dryRun?: boolean | undefined;
}

export interface CommandInput<Params = unknown, Body = unknown> {
  readonly params: Params;
  readonly body: Body;
}

/** What a decider found. */
export interface Verdict {
  /** Empty: there is nothing to change. */
  readonly events: readonly KnownEvent[];
  /** Id of the thing made, where the input does not name it. */
  readonly subject?: string;
  /** Fields of the answer beside the thing's own. */
  readonly extra?: object;
  /** Fields that are shown once, in the answer to the first run only. */
  readonly secret?: { readonly value: string };
}

export interface CommandDefinition<Params = unknown, Body = unknown> {
  /** Noun and verb, such as `key.revoke`; part of the command's hash. */
  readonly name: string;
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below the prefix of the admin API, with `:name` for parameters. */
  readonly path: string;
  readonly summary: string;
  readonly params: z.ZodType<Params>;
  readonly body: z.ZodType<Body> | undefined;
  /** Who may give it besides operators: nobody, or members of the organisation concerned with one of these roles. */
  readonly roles: 'operator' | readonly Role[];
  /** The organisation concerned, or undefined where what is named does not exist. Needed where members may. */
  organisationOf?(db: Database, input: CommandInput<Params, Body>): string | undefined;
  decide(db: Database, input: CommandInput<Params, Body>, context: CommandContext): Verdict;
  /** The thing as the state has it; its ids where it is gone. */
  show(db: Database, input: CommandInput<Params, Body>, subject: string | undefined, nowMs: number): object;
}

/** Ties the types of parameters and body to the decider, then forgets them. */
export function defineCommand<Params, Body>(definition: CommandDefinition<Params, Body>): CommandDefinition {
  return definition;
}

export interface Decision {
  readonly events: readonly KnownEvent[];
  /** The answer; to be called when the state holds the events. */
  readonly result: () => object;
}

/** A command that was parsed and waits to be decided. */
export interface PreparedCommand {
  readonly definition: CommandDefinition;
  /** SHA-256 of its canonical text: two commands with one hash ask for the same. */
  readonly hash: string;
  /** Throws CommandError unless the actor may give this command. */
  authorise(db: Database, context: CommandContext): void;
  /** Throws CommandError. */
  decide(db: Database, context: CommandContext): Decision;
  /** The answer to a repeat of a command that was carried out; `subject` is the id of what it made. Throws CommandError. */
  repeated(db: Database, subject: string | null, context: CommandContext): object;
}

/** Parses what came in. Throws CommandError InvalidCommand with every fault. */
export function prepareCommand(
  definition: CommandDefinition,
  raw: { readonly params?: unknown; readonly body?: unknown },
): PreparedCommand {
  const input: CommandInput = {
    params: parsePart(definition.params, raw.params ?? {}, 'parameters'),
    body: definition.body && parsePart(definition.body, raw.body ?? {}, 'body'),
  };
  const authorised = (db: Database, { actor }: CommandContext): void =>
    authorise(db, actor, definition.roles, () => definition.organisationOf?.(db, input));
  return {
    definition,
    hash: commandHash(definition.name, input.params, input.body),
    authorise: authorised,
    decide: (db, context) => decide(definition, db, input, context),
    repeated: (db, subject, context) => {
      authorised(db, context);
      return definition.show(db, input, subject ?? undefined, context.nowMs);
    },
  };
}

function decide(
  definition: CommandDefinition,
  db: Database,
  input: CommandInput,
  context: CommandContext,
): Decision {
  authorise(db, context.actor, definition.roles, () => definition.organisationOf?.(db, input));
  const { events, subject, extra, secret } = definition.decide(db, input, context);
  checkOwners(db, context.actor, events, context.force);
  if (!context.force) guardRemovals(db, events);
  checkCardinality(db, events, context.nowMs);
  return {
    events,
    result: () => ({
      ...definition.show(db, input, subject, context.nowMs),
      ...extra,
      ...(context.dryRun ? undefined : secret),
    }),
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
    next: 'mend what the details name',
    details,
  });
}
