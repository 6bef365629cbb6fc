/** What a request of the playground may hold: a short conversation of texts, and the parameters that the page has. */
import { z } from 'zod';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';

export const bodyBytesMax = 16 * 1024;
const messagesMax = 20;

const message = z.strictObject({ role: z.enum(['system', 'user', 'assistant']), content: z.string() });
const turnSchema = z.strictObject({
  model: z.string().max(200),
  messages: z.array(message).min(1).max(messagesMax),
  system: z.string().optional(),
  max_tokens: z.int().min(1).optional(),
  temperature: z.number().optional(),
  top_p: z.number().optional(),
  stream: z.boolean().optional(),
  stream_options: z.strictObject({ include_usage: z.boolean() }).optional(),
});

/** What a node has written of an answer that is not streamed is not known before its end, so a visitor could stop it uncounted. */
const streamedSchema = turnSchema.extend({ stream: z.literal(true) });

/** Throws what the page itself never sends. */
export function checkTurn(body: ChunkBuffer): void {
  check(turnSchema, body);
}

/** The same, of a visitor. */
export function checkVisitorsTurn(body: ChunkBuffer): void {
  check(streamedSchema, body);
}

function check(schema: z.ZodType, body: ChunkBuffer): void {
  if (schema.safeParse(parsed(body)).success) return;
  throw new Refusal(
    'no turn',
    `The playground takes at most ${messagesMax} messages of text, and the parameters of its page.`,
  );
}

function parsed(body: ChunkBuffer): unknown {
  try {
    return JSON.parse(body.whole().toString('utf8'));
  } catch {
    return undefined;
  }
}
