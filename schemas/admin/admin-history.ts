/** Admin API operations on the past (events, commits, and differences between two moments), and the findings of `doctor`. */
import { z } from 'zod';
import { commandOutcomeShape, logRecordLineSchema } from './admin-resources.ts';
import {
  commandQuerySchema,
  momentInQuery,
  numberInQuery,
  type OperationRows,
  operation,
} from './admin-row.ts';

const id = z.string();
const position = z.int().min(0);
const moment = z.string();
const count = z.int().min(0);

/** Command that undoes a commit or one of its events. */
const undoCommandShape = {
  method: z.enum(['POST', 'PUT', 'PATCH', 'DELETE']),
  path: z.string(),
  body: z.looseObject({}).optional(),
};

const listedEventSchema = z.object({
  position,
  /** Index of the event within its commit. */
  index: count,
  type: z.string(),
  v: z.int(),
  data: z.unknown(),
  at: moment,
  by: z.string(),
  why: z.string().optional(),
  /** Interface that sent the command: `console`, `cli`, `api` or `agent`. Absent in records of earlier versions. */
  via: z.string().optional(),
  /** Id of the command that wrote the event. */
  command: z.string(),
});
/** Value of a column. Hashes of keys and tokens are never shown. */
const cellSchema = z.union([z.string(), z.number(), z.null()]);
export const rowChangeSchema = z.object({
  action: z.enum(['create', 'change', 'remove']),
  table: z.string(),
  /** Key of the row. If the key has several parts, they are separated by `/`. */
  id,
  fields: z.array(z.object({ field: z.string(), before: cellSchema, after: cellSchema })),
});

const subject = z.string().min(1).max(200).optional();
export const eventQuerySchema = z.object({
  from: numberInQuery.int().min(1).default(1),
  to: numberInQuery.int().min(1).optional(),
  /** Excludes events before this moment. */
  since: momentInQuery.optional(),
  type: z.string().max(100).optional(),
  limit: numberInQuery.int().min(1).optional(),
  /** Excludes events after this moment, just as `to` excludes events after a position. */
  at: momentInQuery.optional(),
  /** Order of the events: `asc` lists the oldest event first, `desc` the newest. */
  order: z.enum(['asc', 'desc']).default('asc'),
  organisation: subject,
  key: subject,
  stack: subject,
  node: subject,
  actor: subject,
  text: z.string().min(1).max(200).optional(),
});
const commitParams = z.object({ position: numberInQuery.int().min(1) });
const groupsSchema = z.string().max(200).optional();

export const historyRows = {
  'event.list': operation('operator', 'List events', {
    past: true,
    query: eventQuerySchema,
    answer: z.object({
      items: z.array(listedEventSchema),
      position,
      /** Position at which the next page begins. Absent on the last page. */
      nextFrom: position.optional(),
      /** Value of `to` for the next page of a list that begins with the newest event. Absent on the last page. */
      nextTo: position.optional(),
      /** First position that the history still contains, on the last page only. Earlier events are only in the log. */
      historyFrom: position.optional(),
      /** Advice on how to read the events before `historyFrom`. */
      historyNext: z.string().optional(),
    }),
  }),
  'event.tail': operation('operator', 'Events as they are folded, one per WebSocket message', {
    opens: 'tail',
    query: eventQuerySchema,
    answer: listedEventSchema,
  }),
  'log.export': operation('operator', 'Export the accepted records of the log', {
    opens: 'export',
    query: eventQuerySchema,
    mediaType: 'application/x-ndjson',
    answer: logRecordLineSchema,
  }),
  'commit.get': operation('operator', 'One commit, and how it changed each row', {
    opens: 'question',
    params: commitParams,
    answer: z.object({
      position,
      at: moment,
      by: z.string(),
      why: z.string().optional(),
      command: z.string(),
      events: z.array(listedEventSchema),
      /** Changes that the commit made to rows of the state. */
      changes: z.array(rowChangeSchema),
    }),
  }),
  'commit.inverse': operation('operator', 'The command that reverses a commit', {
    opens: 'question',
    params: commitParams,
    answer: z.object({
      of: position,
      /** Fields of the command in `commands`, if there is exactly one. Absent if there are several. */
      ...z.object(undoCommandShape).partial().shape,
      /** Commands in the order in which they must run. One command may undo several events. */
      commands: z.array(z.object(undoCommandShape)),
      position,
    }),
  }),
  'commit.undo': operation('operator', 'Reverse a commit, in one commit', {
    opens: 'question',
    params: commitParams,
    query: commandQuerySchema,
    answer: z.object({
      of: position,
      /** Commands that were run to undo the commit. Empty in the response to a repeated request, which runs none. */
      commands: z.array(z.object(undoCommandShape)),
      ...commandOutcomeShape,
    }),
  }),
  'changes.get': operation('operator', 'Rows that differ between two moments', {
    opens: 'question',
    query: z.object({ from: momentInQuery, to: momentInQuery.optional() }),
    answer: z.object({
      from: position,
      to: position,
      items: z.array(rowChangeSchema),
      /** Set if there are more differences than `items` contains. */
      truncated: z.literal(true).optional(),
      position,
    }),
  }),
  'doctor.get': operation('operator', 'Findings of the doctor checks', {
    query: z.object({ only: groupsSchema, skip: groupsSchema }),
    answer: z.object({
      checks: z.array(
        z.object({
          code: z.string(),
          group: z.string(),
          level: z.enum(['ok', 'warn', 'fail']),
          object: z.string().optional(),
          text: z.string(),
          next: z.string().optional(),
          /** Documentation page that explains the finding. */
          page: z.string().optional(),
          /** Number of findings that this entry stands for, if more than one. */
          findings: count.optional(),
          /** Some of the findings, besides this one, that this entry stands for. */
          examples: z
            .array(z.object({ object: z.string().optional(), text: z.string(), next: z.string() }))
            .optional(),
        }),
      ),
      ok: count,
      warn: count,
      fail: count,
      position,
    }),
  }),
} satisfies OperationRows;

export type RowChange = z.infer<typeof rowChangeSchema>;
export type ListedEvent = z.infer<typeof listedEventSchema>;
