/** What an operation of the admin API declares in addition to its name and its route, and the queries that operations have in common. */
import { z } from 'zod';
import { releaseShape } from '../events/changes.ts';
import type { Role } from '../names.ts';
import { idSchema, roleSchema } from '../names.ts';
import { pageRows } from './page-rows.ts';

/**
 * `public`: everybody. `node`: a node with its token, which the route itself checks. `gateway`: gateways with their token,
 * and the operator. `operator`: the operator, not acting as a person. Roles: also persons who have one of them in some
 * organisation; the route itself checks the role in the organisation concerned.
 */
export type Access = 'public' | 'node' | 'gateway' | 'operator' | readonly Role[];
/** How large a body may be. */
export type BodyKind = 'tiny' | 'small' | 'list' | 'fleet';
/** What an open call counts as. */
export type OpenCall = 'read' | 'question' | 'export' | 'stream' | 'tail' | 'follow' | 'wait';

/** The same operation for many: its body is `items`, each of them a body of the operation. */
export interface Many {
  readonly max: number;
  readonly answer: z.ZodType;
}

export interface OperationRow {
  readonly summary: string;
  /** Who may call it. */
  readonly access: Access;
  /** Of the path; absent: it has no parameters. */
  readonly params?: z.ZodObject;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  /** Where it also takes many at once, all or none of them. */
  readonly many?: Many;
  /** Absent: `small` where there is a body, otherwise `tiny`. */
  readonly bodyKind?: BodyKind;
  /** Of a stream: one line of it; undefined where it has no lines. */
  readonly answer: z.ZodType | undefined;
  /** Of an answer that is a stream. */
  readonly mediaType?: string;
  /** Whether `at` names a moment of the past; every other operation refuses it. */
  readonly past?: true;
  /** Absent: a GET is a `read`, or a `question` where it names a moment. */
  readonly opens?: OpenCall;
}
export type OperationRows = Readonly<Record<string, OperationRow>>;

/** Roles that can create and revoke keys (Authentication 5). */
export const keyRoles: readonly Role[] = ['owner', 'admin', 'approver', 'member'];
/** Roles that manage stacks and members of their organisation. */
export const managingRoles: readonly Role[] = ['owner', 'admin'];
/** Roles that read what belongs to their organisation: all. */
export const readingRoles: readonly Role[] = roleSchema.options;

/** A number in a query. */
export const numberInQuery = z.coerce.number<number>();
/** A position, a time, or a time ago. */
export const momentInQuery = z.string().min(1).max(40);

/** `next` of the page before. */
export const cursorInQuery = z.string().min(1).max(2000);

const flag = z.enum(['true', 'false']).optional();
export const commandQuerySchema = z.object({
  why: z.string().max(500).optional(),
  force: flag,
  dryRun: flag,
  /** Commands of definitions: begin a change that is released in waves, instead of acting on all gateways at once. */
  stage: flag,
  /** Of such a change: `one,10%,50%,all`. */
  waves: z.string().min(1).max(2000).optional(),
  hold: z.string().min(1).max(20).optional(),
  watch: z.string().min(1).max(100).optional(),
  /** Waves with too few requests do not wait. */
  advanceUnseen: flag,
});
/** Of a command that may be several commits. */
export const divisibleQuerySchema = commandQuerySchema.extend({
  /** Where it does not fit one commit: each part is one, and the answer says how many changes remain for the next call. */
  inParts: flag,
});
export const readQuerySchema = z.object({
  /** The state after this commit, or at this time. */
  at: momentInQuery.optional(),
  /** Wait until this commit is folded, so that a client reads its own writes. */
  min: numberInQuery.int().min(0).optional(),
  limit: numberInQuery.int().min(1).max(pageRows.max).optional(),
  organisation: idSchema.optional(),
});
/** Of a row of definitions, which an open change may have otherwise. */
const waveReadQuerySchema = readQuerySchema.extend({
  /** Adds the row of gateways that the open change has reached. */
  wave: flag,
});
/** Of a list that is read page after page. */
export const pageQuerySchema = readQuerySchema.extend({
  /** What a row must contain. */
  text: z.string().max(200).optional(),
  state: z.string().min(1).max(20).optional(),
  /** A field of the answer; `-field`: the other way round. */
  sort: z.string().min(1).max(40).optional(),
  after: cursorInQuery.optional(),
});

/** The body of an operation for many. */
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

/** Of the state, in the present and in the past. */
export function read<const Row extends Parts>(access: Access, summary: string, row: Row) {
  return { access, summary, query: readQuerySchema, past: true as const, ...row };
}

/** The same of a row of definitions, whose answer may have that of the wave, too. */
export function definition<const Row extends Parts & { readonly answer: z.ZodObject }>(
  access: Access,
  summary: string,
  row: Row,
) {
  const inWave = z.object({
    ...releaseShape,
    /** null: there is none. */
    row: row.answer.nullable(),
  });
  const answer = row.answer.extend({ inWave: inWave.optional() }) as Row['answer'];
  return { ...read(access, summary, row), query: waveReadQuerySchema, answer };
}

/** The same of a list that takes `text`, `sort` and `after`. */
export function pages<const Row extends Parts>(access: Access, summary: string, row: Row) {
  return { access, summary, query: pageQuerySchema, past: true as const, ...row };
}
