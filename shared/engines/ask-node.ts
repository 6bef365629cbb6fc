/** Sends one request to an untrusted inference server. Follows no redirects, and limits the response's size and duration. */
import type { Dispatcher } from 'undici';
import { ChunkBuffer } from '../runtime/chunk-buffer.ts';
import { type JsonBounds, scanJson } from '../runtime/json-scan.ts';
import { perProcess } from '../runtime/per-process.ts';
import { Ticker, type Timed } from '../runtime/ticker.ts';

export interface NodeAddress {
  readonly url: string;
  /** Credential for this node, if the node requires one. */
  readonly credential?: string | undefined;
}

const answerBytesMax = 1024 * 1024;
/** Limits on the contents of a JSON response. They are generous, because some engines return a hundred values per model. */
const answerBounds: JsonBounds = { depth: 64, names: 100_000, values: 100_000 };

/** Shared clock for response timeouts. Ticks of 100 ms are precise enough for waits of about a second. */
const ticker = perProcess(() => new Ticker(100));

class ResponseWait implements Timed {
  index = -1;
  readonly #abort = new AbortController();
  readonly #endMs: number;

  constructor(timeoutMs: number) {
    ticker().add(this);
    this.#endMs = ticker().nowMs + timeoutMs;
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
    ticker().delete(this);
  }
}

/** Sends a POST if there is a body, and a GET otherwise. Time while this process was blocked does not count as waiting. */
export async function askNode(
  { url, credential }: NodeAddress,
  path: string,
  timeoutMs: number,
  body?: object,
): Promise<Dispatcher.ResponseData> {
  const base = url.endsWith('/') ? url.slice(0, -1) : url;
  // Import undici on first use, because a control plane whose nodes all have agents does not need it.
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

/** Parses a response's body as JSON. Throws `SyntaxError` if it is not JSON or contains too many values. */
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
