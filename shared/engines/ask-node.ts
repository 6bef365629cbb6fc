/**
 * One request to an inference server and its response. The node is untrusted: no redirect is followed, the size of the
 * response and the wait are bounded, and JSON of too many values is not parsed.
 */
import { type Dispatcher, request } from 'undici';
import { ChunkBuffer } from '../runtime/chunk-buffer.ts';
import { type JsonBounds, scanJson } from '../runtime/json-scan.ts';

export interface NodeAddress {
  readonly url: string;
  /** The node's own credential, where it requires one. */
  readonly credential?: string | undefined;
}

const answerBytesMax = 1024 * 1024;
/** Some engines return a hundred values for each model. */
const answerBounds: JsonBounds = { depth: 64, names: 100_000, values: 100_000 };

/** A GET, or a POST where there is a body. `timeoutMs` is for the whole response. */
export function askNode(
  { url, credential }: NodeAddress,
  path: string,
  timeoutMs: number,
  body?: object,
): Promise<Dispatcher.ResponseData> {
  const base = url.endsWith('/') ? url.slice(0, -1) : url;
  return request(base + path, {
    headers: {
      ...(credential !== undefined && { authorization: `Bearer ${credential}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    signal: AbortSignal.timeout(timeoutMs),
  });
}

/** Throws SyntaxError where it is no JSON, or too large. */
export async function boundedJson(body: Dispatcher.ResponseData['body']): Promise<unknown> {
  const bytes = new ChunkBuffer({ bytesMax: answerBytesMax });
  const chunks: AsyncIterable<Buffer> = body;
  for await (const chunk of chunks) {
    if (!bytes.add(chunk)) throw new Error('the answer is too large');
  }
  const text = bytes.whole().toString('utf8');
  if (scanJson(text, answerBounds).exceeded !== undefined) throw new SyntaxError('too much JSON');
  return JSON.parse(text);
}
