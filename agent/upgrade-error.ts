/** Finds out why an upgrade was refused, for the agent's log output. Uses the message in the body, or else the status. */
import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { ChunkBuffer } from '../shared/runtime/chunk-buffer.ts';

const bytesMax = 4096;
const waitMsMax = 1000;
const textLengthMax = 300;
const envelopeSchema = z.object({ error: z.object({ message: z.string(), next: z.string().optional() }) });

/** Reads the response, up to a maximum number of bytes and a time limit. Never rejects. */
export async function readUpgradeError(response: IncomingMessage): Promise<string> {
  const status = `refused with ${response.statusCode ?? 0}`;
  // Without this handler, an error that occurs after the response was read would end the process.
  response.on('error', () => undefined);
  const timer = setTimeout(() => response.destroy(), waitMsMax);
  const bytes = new ChunkBuffer({ bytesMax });
  try {
    const chunks: AsyncIterable<Buffer> = response;
    for await (const chunk of chunks) if (!bytes.add(chunk)) return status;
    const { error } = envelopeSchema.parse(JSON.parse(bytes.whole().toString('utf8')));
    const next = error.next === undefined ? '' : `; ${error.next}`;
    return `${status}: ${error.message}${next}`.slice(0, textLengthMax);
  } catch {
    return status;
  } finally {
    clearTimeout(timer);
  }
}
