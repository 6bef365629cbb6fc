/** Types and functions that declare admin API operations, and the queries that several operations share. */
import { z } from 'zod';
import { releaseShape } from '../events/changes.ts';
import type { Role } from '../names.ts';
import { idSchema, roleSchema } from '../names.ts';
import { pageRows } from './page-rows.ts';

/**
 * Callers that an operation accepts. `public` accepts everyone, `node` a node whose token the handler checks, `gateway`
 * gateways and the operator, and `operator` the operator, unless the operator acts as a person. A list of roles also accepts
 * a person who has one of the roles in any organisation, and the handler then checks the role in the organisation concerned.
 */
export type Access = 'public' | 'node' | 'gateway' | 'operator' | readonly Role[];
/** Size class of a request body, which determines the maximum number of bytes. */
export type BodyKind = 'tiny' | 'small' | 'list' | 'fleet';
/** Category of a call that stays open for some time. The open calls of each category are counted and bounded separately. */
export type OpenCall = 'read' | 'question' | 'export' | 'stream' | 'tail' | 'follow' | 'wait';

/** Bulk form of an operation. Its body contains `items`, a list of bodies for the operation's single form. */
export interface Many {
  readonly max: number;
  readonly answer: z.ZodType;
}

export interface OperationRow {
  readonly summary: string;
  readonly access: Access;
  readonly params?: z.ZodObject;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  /** Bulk form of the operation, if it has one. If one item fails, none of the items takes effect. */
  readonly many?: Many;
  /** Size class of the body. The default is `small` for an operation with a body, and `tiny` otherwise. */
  readonly bodyKind?: BodyKind;
  /** Schema of the response. For a stream, schema of one line, or undefined if the stream does not consist of lines. */
  readonly answer: z.ZodType | undefined;
  readonly mediaType?: string;
  /** Set if the parameter `at` may name a past moment. All other operations refuse `at`. */
  readonly past?: true;
  /** Category of the open call. If absent, a GET is a `read`, or a `question` if it reads a past moment. */
  readonly opens?: OpenCall;
}
export type OperationRows = Readonly<Record<string, OperationRow>>;

/** Roles that can create and revoke keys (specification, Authentication 5). */
export const keyRoles: readonly Role[] = ['owner', 'admin', 'approver', 'member'];
/** Roles that may manage the stacks and members of their organisation. */
export const managingRoles: readonly Role[] = ['owner', 'admin'];
/** Roles that may read the data of their organisation, which is every role. */
export const readingRoles: readonly Role[] = roleSchema.options;

export const numberInQuery = z.coerce.number<number>();
/** Moment in the log, given as a position, a time or an age, such as `18240`, `2026-11-22T08:00:00Z` or `10m`. */
export const momentInQuery = z.string().min(1).max(40);

/** Cursor for this page: the value of `next` in the response with the page before. */
export const cursorInQuery = z.string().min(1).max(2000);

const flag = z.enum(['true', 'false']).optional();
export const commandQuerySchema = z.object({
  why: z.string().max(500).optional(),
  force: flag,
  dryRun: flag,
  /** Stages the changed definitions, so that they reach gateways in waves instead of all at once. */
  stage: flag,
  /** Waves of the staged change, such as `one,10%,50%,all`. */
  waves: z.string().min(1).max(2000).optional(),
  hold: z.string().min(1).max(20).optional(),
  watch: z.string().min(1).max(100).optional(),
  /** Begins the next wave of the staged change even if the current wave has seen too few requests. */
  advanceUnseen: flag,
});
/** Query of a command that may need several commits. */
export const divisibleQuerySchema = commandQuerySchema.extend({
  /** Allows a command that does not fit into one commit. Each call writes a part and returns how many changes remain. */
  inParts: flag,
});
export const readQuerySchema = z.object({
  /** Commit or time whose state the operation reads. Default: the present state. */
  at: momentInQuery.optional(),
  /** Waits until this commit has been folded. A client that has written the commit can then read its effects. */
  min: numberInQuery.int().min(0).optional(),
  limit: numberInQuery.int().min(1).max(pageRows.max).optional(),
  organisation: idSchema.optional(),
});
/** Query for a definition that an open change may modify. */
const waveReadQuerySchema = readQuerySchema.extend({
  /** Also returns the definition as it applies on gateways that the open change has reached. */
  wave: flag,
});
/** Query for a list that is read in pages. */
export const pageQuerySchema = readQuerySchema.extend({
  /** Text that each returned row must contain. */
  text: z.string().max(200).optional(),
  state: z.string().min(1).max(20).optional(),
  /** Field by which the rows are sorted. `-field` sorts in descending order. */
  sort: z.string().min(1).max(40).optional(),
  after: cursorInQuery.optional(),
});

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

/** Declares an operation that reads the present or a past state. */
export function read<const Row extends Parts>(access: Access, summary: string, row: Row) {
  return { access, summary, query: readQuerySchema, past: true as const, ...row };
}

/** Declares a read of a definition. The response may also contain the definition as the open change alters it. */
export function definition<const Row extends Parts & { readonly answer: z.ZodObject }>(
  access: Access,
  summary: string,
  row: Row,
) {
  const inWave = z.object({
    ...releaseShape,
    /** Definition as the open change alters it, or null if the change removes it. */
    row: row.answer.nullable(),
  });
  const answer = row.answer.extend({ inWave: inWave.optional() }) as Row['answer'];
  return { ...read(access, summary, row), query: waveReadQuerySchema, answer };
}

/** Declares an operation that returns a list in pages and accepts `text`, `sort` and `after`. */
export function pages<const Row extends Parts>(access: Access, summary: string, row: Row) {
  return { access, summary, query: pageQuerySchema, past: true as const, ...row };
}
