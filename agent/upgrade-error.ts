/** Why a control plane did not take an agent, for the agent's log: its own words where it has some, else the status. */
import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { ChunkBuffer } from '../shared/runtime/chunk-buffer.ts';

const bytesMax = 4096;
const waitMsMax = 1000;
const wordsMax = 300;
const envelopeSchema = z.object({ error: z.object({ message: z.string(), next: z.string().optional() }) });

/** Reads the answer to its end, within bounds. Never rejects. */
export async function refusalTold(response: IncomingMessage): Promise<string> {
  const status = `refused with ${response.statusCode ?? 0}`;
  // What breaks after the answer was read has nobody else to be told to.
  response.on('error', () => undefined);
  const late = setTimeout(() => response.destroy(), waitMsMax);
  const bytes = new ChunkBuffer({ bytesMax });
  try {
    for await (const chunk of response) if (!bytes.add(chunk as Buffer)) return status;
    const { error } = envelopeSchema.parse(JSON.parse(bytes.whole().toString('utf8')));
    const next = error.next === undefined ? '' : `; ${error.next}`;
    return `${status}: ${error.message}${next}`.slice(0, wordsMax);
  } catch {
    return status;
  } finally {
    clearTimeout(late);
  }
}
