/** What the admin API answers about who calls, and about links to the console. */
import { z } from 'zod';
import { roleSchema } from './names.ts';

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

export const signInResponses = {
  'GET /me': meSchema,
  'POST /console/links': signInLinkSchema,
  'POST /organisations/:id/members/:person/link': signInLinkSchema,
  'POST /organisations/:id/invitations': signInLinkSchema,
};
