/** Admin API operations that return who the caller is, and that create sign-in links to the console. */
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
  /** Whether the caller is the operator, who may use every command. */
  operator: z.boolean(),
  person: id.optional(),
  /** Name of the caller that the log records as the author of a command. */
  actor: z.string(),
  /** Organisations of the signed-in person, each with the commands that the person's role allows there. */
  organisations: z.array(z.object({ id, name: z.string(), role: roleSchema, commands: z.array(z.string()) })),
  /** Commands that the operator may use. The list is empty for a person. */
  commands: z.array(z.string()),
  position: z.int().min(0),
});

export const signInRows = {
  'me.get': operation(readingRoles, 'The caller, and the commands that they may run', { answer: meSchema }),
  'console.link': operation('operator', 'A one-time link that signs in the operator', {
    query: commandQuerySchema,
    answer: signInLinkSchema,
  }),
  'member.link': operation(managingRoles, 'A one-time link that signs in a member', {
    params: pathSchemas.member,
    query: commandQuerySchema,
    body: bodySchemas.memberLink,
    answer: signInLinkSchema,
  }),
  'member.invite': operation(managingRoles, 'A one-time link that makes its user a member', {
    params: pathSchemas.id,
    query: commandQuerySchema,
    body: bodySchemas.invitation,
    answer: signInLinkSchema,
  }),
} satisfies OperationRows;
