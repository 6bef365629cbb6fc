/** Declaration of an admin API operation apart from its name and route, and the queries that several operations share. */
import { z } from 'zod';
import { releaseShape } from '../events/changes.ts';
import type { Role } from '../names.ts';
import { idSchema, roleSchema } from '../names.ts';
import { pageRows } from './page-rows.ts';

/**
 * Callers that an operation allows: everyone (`public`), a node whose token the handler checks (`node`), gateways and the
 * operator (`gateway`), the operator unless acting as a person (`operator`), or also persons who have one of the roles in any
 * organisation. The handler then checks the role in the organisation concerned.
 */
export type Access = 'public' | 'node' | 'gateway' | 'operator' | readonly Role[];
/** Size class of a request body. */
export type BodyKind = 'tiny' | 'small' | 'list' | 'fleet';
/** Category under which an open call is counted and bounded. */
export type OpenCall = 'read' | 'question' | 'export' | 'stream' | 'tail' | 'follow' | 'wait';

/** Bulk form of an operation. Its body is `items`, a list of the operation's own bodies. */
export interface Many {
  readonly max: number;
  readonly answer: z.ZodType;
}

export interface OperationRow {
  readonly summary: string;
  readonly access: Access;
  /** Path parameters. Absent if the path has none. */
  readonly params?: z.ZodObject;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  /** Bulk form, which carries out all items or none. Absent if there is none. */
  readonly many?: Many;
  /** Defaults to `small` if the operation has a body, otherwise to `tiny`. */
  readonly bodyKind?: BodyKind;
  /** Schema of the answer. For a stream, the schema of one line, or undefined if the stream has no lines. */
  readonly answer: z.ZodType | undefined;
  /** Media type of a streamed answer. */
  readonly mediaType?: string;
  /** Whether `at` may name a past moment. Every other operation refuses it. */
  readonly past?: true;
  /** If absent, a GET is a `read`, or a `question` if it names a past moment. */
  readonly opens?: OpenCall;
}
export type OperationRows = Readonly<Record<string, OperationRow>>;

/** Roles that can create and revoke keys (specification, Authentication 5). */
export const keyRoles: readonly Role[] = ['owner', 'admin', 'approver', 'member'];
/** Roles that manage stacks and members of their organisation. */
export const managingRoles: readonly Role[] = ['owner', 'admin'];
/** Roles that may read their organisation's data: all roles. */
export const readingRoles: readonly Role[] = roleSchema.options;

export const numberInQuery = z.coerce.number<number>();
/** Position, time or age, such as `18240`, `2026-11-22T08:00:00Z` or `10m`. */
export const momentInQuery = z.string().min(1).max(40);

/** `next` of the previous page. */
export const cursorInQuery = z.string().min(1).max(2000);

const flag = z.enum(['true', 'false']).optional();
export const commandQuerySchema = z.object({
  why: z.string().max(500).optional(),
  force: flag,
  dryRun: flag,
  /** Stages the definitions as a change that is released in waves, instead of applying them to all gateways at once. */
  stage: flag,
  /** Waves of the staged change, such as `one,10%,50%,all`. */
  waves: z.string().min(1).max(2000).optional(),
  hold: z.string().min(1).max(20).optional(),
  watch: z.string().min(1).max(100).optional(),
  /** Lets the next wave begin even if a wave saw too few requests. */
  advanceUnseen: flag,
});
/** Query of a command that may need several commits. */
export const divisibleQuerySchema = commandQuerySchema.extend({
  /** Splits a command that does not fit into one commit. Each call writes a part and returns how many are left. */
  inParts: flag,
});
export const readQuerySchema = z.object({
  /** Commit or time whose state is read. */
  at: momentInQuery.optional(),
  /** Waits until this commit is folded, so that a client reads its own writes. */
  min: numberInQuery.int().min(0).optional(),
  limit: numberInQuery.int().min(1).max(pageRows.max).optional(),
  organisation: idSchema.optional(),
});
/** Query for a definition that an open change may modify. */
const waveReadQuerySchema = readQuerySchema.extend({
  /** Adds the definition as gateways see it that the open change has reached. */
  wave: flag,
});
/** Query for a list that is read in pages. */
export const pageQuerySchema = readQuerySchema.extend({
  /** Text that a row must contain. */
  text: z.string().max(200).optional(),
  state: z.string().min(1).max(20).optional(),
  /** Field of the answer to sort by. `-field` sorts in descending order. */
  sort: z.string().min(1).max(40).optional(),
  after: cursorInQuery.optional(),
});

/** Body schema of an operation's bulk form. */
export function manyBody({ body = z.never(), many }: Pick<OperationRow, 'body' | 'many'>): z.ZodType {
  return z.strictObject({
    items: z
      .array(body)
      .min(1)
      .max(many?.max ?? 0),
  });
}

type Parts = Omit<OperationRow, 'access' | 'summary'>;

export function operation<const Row extends Parts>(access: Access, summary: string, row: Row) {
  return { access, summary, ...row };
}

/** Declares a read of the state, present or past. */
export function read<const Row extends Parts>(access: Access, summary: string, row: Row) {
  return { access, summary, query: readQuerySchema, past: true as const, ...row };
}

/** Declares a read of a definition. Its answer may also contain the definition as an open change modifies it. */
export function definition<const Row extends Parts & { readonly answer: z.ZodObject }>(
  access: Access,
  summary: string,
  row: Row,
) {
  const inWave = z.object({
    ...releaseShape,
    /** null if the change removes the definition. */
    row: row.answer.nullable(),
  });
  const answer = row.answer.extend({ inWave: inWave.optional() }) as Row['answer'];
  return { ...read(access, summary, row), query: waveReadQuerySchema, answer };
}

/** Declares a list that accepts `text`, `sort` and `after`. */
export function pages<const Row extends Parts>(access: Access, summary: string, row: Row) {
  return { access, summary, query: pageQuerySchema, past: true as const, ...row };
}
