/**
 * One request to an inference server and its response. The node is untrusted: no redirect is followed, the size of the
 * response and the wait are bounded, and JSON of too many values is not parsed.
 */
import type { Dispatcher } from 'undici';
import { ChunkBuffer } from '../runtime/chunk-buffer.ts';
import { type JsonBounds, scanJson } from '../runtime/json-scan.ts';
import { Ticker, type Timed } from '../runtime/ticker.ts';

export interface NodeAddress {
  readonly url: string;
  /** The node's own credential, where it requires one. */
  readonly credential?: string | undefined;
}

const answerBytesMax = 1024 * 1024;
/** Some engines return a hundred values for each model. */
const answerBounds: JsonBounds = { depth: 64, names: 100_000, values: 100_000 };

/** Exact enough for waits of a second. */
const ticker = new Ticker(100);

/** The time-out of one response. */
class ResponseWait implements Timed {
  index = -1;
  readonly #abort = new AbortController();
  readonly #endMs: number;

  constructor(timeoutMs: number) {
    ticker.add(this);
    this.#endMs = ticker.nowMs + timeoutMs;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  tick(nowMs: number): void {
    if (nowMs < this.#endMs) return;
    this.end();
    this.#abort.abort(new DOMException('no answer in time', 'TimeoutError'));
  }

  end(): void {
    ticker.delete(this);
  }
}

/** A GET, or a POST where there is a body. `timeoutMs` is for the whole response, and counts no stall of this process. */
export async function askNode(
  { url, credential }: NodeAddress,
  path: string,
  timeoutMs: number,
  body?: object,
): Promise<Dispatcher.ResponseData> {
  const base = url.endsWith('/') ? url.slice(0, -1) : url;
  // Loaded on use: a control plane whose nodes all have agents needs it not.
  const { request } = await import('undici');
  const wait = new ResponseWait(timeoutMs);
  try {
    const response = await request(base + path, {
      headers: {
        ...(credential !== undefined && { authorization: `Bearer ${credential}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
      headersTimeout: 0,
      bodyTimeout: 0,
      signal: wait.signal,
    });
    response.body.once('close', () => wait.end());
    return response;
  } catch (error) {
    wait.end();
    throw error;
  }
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
