/** The operations of the admin API about the past (events, commits, differences between two moments), and what doctor finds. */
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

/** Of the inverse of a commit. */
const undoCommandShape = {
  method: z.enum(['POST', 'PUT', 'PATCH', 'DELETE']),
  path: z.string(),
  body: z.looseObject({}).optional(),
};

const listedEventSchema = z.object({
  position,
  /** Within its commit. */
  index: count,
  type: z.string(),
  v: z.int(),
  data: z.unknown(),
  at: moment,
  by: z.string(),
  why: z.string().optional(),
  /** console, cli, api or agent; absent in records of earlier writers. */
  via: z.string().optional(),
  /** Id of the command that wrote it. */
  command: z.string(),
});
/** A value of a column; the hashes of keys and tokens are never shown. */
const cellSchema = z.union([z.string(), z.number(), z.null()]);
export const rowChangeSchema = z.object({
  action: z.enum(['create', 'change', 'remove']),
  table: z.string(),
  /** Its key; parts are separated by `/`. */
  id,
  fields: z.array(z.object({ field: z.string(), before: cellSchema, after: cellSchema })),
});

const subject = z.string().min(1).max(200).optional();
export const eventQuerySchema = z.object({
  from: numberInQuery.int().min(1).default(1),
  to: numberInQuery.int().min(1).optional(),
  /** Leaves out events before this moment. */
  since: momentInQuery.optional(),
  type: z.string().max(100).optional(),
  limit: numberInQuery.int().min(1).optional(),
  /** Up to this moment, as `to`. */
  at: momentInQuery.optional(),
  /** `desc`: from the newest end. */
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
      /** The position to continue from, where there are more. */
      nextFrom: position.optional(),
      /** The same from the newest end: the next `to`. */
      nextTo: position.optional(),
      /** From here on they are searched: what was before is in the log alone. In the last page, where the history was cut. */
      historyFrom: position.optional(),
      /** What helps then. */
      historyNext: z.string().optional(),
    }),
  }),
  'event.tail': operation('operator', 'Events as they are folded, one a message of a WebSocket', {
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
  'commit.get': operation('operator', 'One commit, and what it did to each row', {
    opens: 'question',
    params: commitParams,
    answer: z.object({
      position,
      at: moment,
      by: z.string(),
      why: z.string().optional(),
      command: z.string(),
      events: z.array(listedEventSchema),
      /** What it did to the rows. */
      changes: z.array(rowChangeSchema),
    }),
  }),
  'commit.inverse': operation('operator', 'The command that takes a commit back', {
    opens: 'question',
    params: commitParams,
    answer: z.object({
      /** The commit that it takes back. */
      of: position,
      /** Of the command, where `commands` has one only. */
      ...z.object(undoCommandShape).partial().shape,
      /** In the order in which they are carried out: one for each event, or for what several set. */
      commands: z.array(z.object(undoCommandShape)),
      position,
    }),
  }),
  'commit.undo': operation('operator', 'Take a commit back, in one commit', {
    opens: 'question',
    params: commitParams,
    query: commandQuerySchema,
    answer: z.object({
      of: position,
      /** By which commands; none in the answer to a repeat. */
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
      /** There are more than these. */
      truncated: z.literal(true).optional(),
      position,
    }),
  }),
  'doctor.get': operation('operator', 'What the checks of doctor find', {
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
          /** What to read about it. */
          page: z.string().optional(),
          /** How many findings it stands for, where that is more than one. */
          findings: count.optional(),
          /** Some of them, in addition to itself. */
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
