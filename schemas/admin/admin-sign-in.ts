/** The operations of the admin API about who calls, and about links to the console. */
import { z } from 'zod';
import { roleSchema } from '../names.ts';
import {
  commandQuerySchema,
  managingRoles,
  type OperationRows,
  operation,
  readingRoles,
} from './admin-row.ts';
import { bodySchemas, pathSchemas } from './commands.ts';

const id = z.string();
const signInLinkSchema = z.object({ url: z.string(), expiresAt: z.string() });
const meSchema = z.object({
  /** The operator: every command is open. */
  operator: z.boolean(),
  person: id.optional(),
  /** Who the log names as the author of what the caller does. */
  actor: z.string(),
  /** Those that the person is a member of, with what their role allows there. */
  organisations: z.array(z.object({ id, name: z.string(), role: roleSchema, commands: z.array(z.string()) })),
  /** What the operator may; empty for a person. */
  commands: z.array(z.string()),
  position: z.int().min(0),
});

export const signInRows = {
  'me.get': operation(readingRoles, 'Who calls, and which commands they may give', { answer: meSchema }),
  'console.link': operation('operator', 'A link that signs in the operator, once', {
    query: commandQuerySchema,
    answer: signInLinkSchema,
  }),
  'member.link': operation(managingRoles, 'A link that signs in a member, once', {
    params: pathSchemas.member,
    query: commandQuerySchema,
    body: bodySchemas.memberLink,
    answer: signInLinkSchema,
  }),
  'member.invite': operation(managingRoles, 'A link that makes who signs in by it a member, once', {
    params: pathSchemas.id,
    query: commandQuerySchema,
    body: bodySchemas.invitation,
    answer: signInLinkSchema,
  }),
} satisfies OperationRows;
