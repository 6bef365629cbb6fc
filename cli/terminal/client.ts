/**
 * The CLI's client of the admin API: JSON over HTTP, with every wait and body bounded, and errors as CliErrors with
 * exit codes. A write carries an Idempotency-Key. A retry after an unknown outcome sends the same key, so that no
 * command takes effect twice.
 */
import { randomUUID } from 'node:crypto';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { connectionError, isNetworkFailure } from './connection-errors.ts';
import { CliError, type ExitCode, interrupted, usageError } from './errors.ts';
import type { Resource } from './render.ts';
import type { Settings } from './settings.ts';

/** Added to every call, from the global options. */
export interface CallOptions {
  /** Acts as this person. */
  readonly person?: string | undefined;
  /** Reads the state after this commit. */
  readonly at?: number | undefined;
  readonly ifAt?: number | undefined;
  readonly why?: string | undefined;
  readonly force?: boolean | undefined;
  readonly dryRun?: boolean | undefined;
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
export type Query = Readonly<Record<string, string | number | undefined>>;

interface Call {
  readonly method: Method;
  readonly path: string;
  readonly query: Query;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Deadline for the whole response, body included. */
  readonly timeoutMs?: number;
}

/** Attempts of one call, the first included. */
const triesMax = 3;
const backoffMs = 250;
const timeoutMsDefault = 30_000;
const answerBytesMax = 256 * 1024 * 1024;

const exitCodeOfStatus: Readonly<Record<number, ExitCode>> = {
  400: 2,
  401: 4,
  403: 4,
  404: 3,
  409: 6,
  413: 2,
};
const unreachableTypes = new Set(['OutcomeUnknown', 'LogUnavailable']);

/** Builds a path and encodes its parts. Throws a usage error for a part that cannot be an id. */
export function route(strings: TemplateStringsArray, ...parts: readonly string[]): string {
  return strings.reduce((path, text, index) => path + encoded(parts[index - 1] ?? '') + text);
}

function encoded(part: string): string {
  // URL normalisation removes these, so the request would go to another path.
  if (part === '' || part === '.' || part === '..') throw usageError('an id is missing or empty');
  if (/^(?:[a-z]{2,8}_[A-Za-z0-9]{40}|ngt_[A-Za-z0-9_-]{43})$/.test(part))
    throw usageError('this is the value of a key or token, not its id; it was not sent', 'headgate key list');
  return encodeURIComponent(part);
}

export class AdminClient {
  readonly settings: Settings;
  readonly #options: CallOptions;
  readonly #signal: AbortSignal;

  /** `signal` aborts the call in flight on Ctrl-C. */
  constructor(settings: Settings, options: CallOptions, signal: AbortSignal) {
    this.settings = settings;
    this.#options = options;
    this.#signal = signal;
  }

  /** Reads a resource or a list. */
  get(path: string, query: Query = {}, timeoutMs?: number): Promise<Resource> {
    const at = this.#options.at;
    const call: Call = { method: 'GET', path, query: { ...query, at } };
    return this.#answer(timeoutMs === undefined ? call : { ...call, timeoutMs });
  }

  /** Sends a command. */
  write(method: Exclude<Method, 'GET'>, path: string, body?: unknown): Promise<Resource> {
    const { at, ifAt, why, force, dryRun } = this.#options;
    if (at !== undefined) throw usageError('--at works only with reads; a command acts on the current state');
    const headers = {
      'idempotency-key': randomUUID(),
      ...(ifAt !== undefined && { 'if-match': `"${ifAt}"` }),
    };
    const query = { why, force: force ? 'true' : undefined, dryRun: dryRun ? 'true' : undefined };
    return this.#answer({ method, path, query, body, headers });
  }

  /** A read that needs a body. */
  query(path: string, body: unknown): Promise<Resource> {
    return this.#answer({
      method: 'POST',
      path,
      query: {},
      body,
      headers: { 'idempotency-key': randomUUID() },
    });
  }

  /** A response to stream: `idleMs` bounds the wait for each chunk. */
  async open(path: string, query: Query = {}, idleMs = timeoutMsDefault): Promise<OpenAnswer> {
    const idle = new AbortController();
    const timer = setTimeout(() => idle.abort(), idleMs);
    try {
      const response = await this.#fetch(
        { method: 'GET', path, query },
        AbortSignal.any([this.#signal, idle.signal]),
      );
      if (!response.ok) throw await this.#refusal(response);
      const pieces = this.#pieces(response, timer);
      return { headers: response.headers, pieces };
    } catch (error) {
      clearTimeout(timer);
      throw this.#toCliError(error);
    }
  }

  async *#pieces(response: Response, timer: NodeJS.Timeout): AsyncIterable<Uint8Array> {
    try {
      for await (const piece of response.body ?? []) {
        timer.refresh();
        yield piece as Uint8Array;
      }
    } catch (error) {
      throw this.#toCliError(error);
    } finally {
      clearTimeout(timer);
    }
  }

  async #answer(call: Call): Promise<Resource> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#once(call);
      } catch (error) {
        const failure = this.#toCliError(error);
        if (tries >= triesMax || !isRetryable(failure)) throw failure;
        await sleep(backoffMs * 2 ** (tries - 1) * (0.5 + Math.random()), this.#signal);
      }
    }
  }

  async #once(call: Call): Promise<Resource> {
    const timeout = AbortSignal.timeout(call.timeoutMs ?? timeoutMsDefault);
    const response = await this.#fetch(call, AbortSignal.any([this.#signal, timeout]));
    if (!response.ok) throw await this.#refusal(response);
    const document = parsed(await bodyText(response));
    if (document === undefined) throw this.#notHeadgate(response.status);
    return document;
  }

  #fetch(call: Call, signal: AbortSignal): Promise<Response> {
    const { admin, token } = this.settings;
    const url = new URL(`${admin}/admin/v1${call.path}`);
    for (const [name, value] of Object.entries(call.query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const { person } = this.#options;
    return fetch(url, {
      method: call.method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(person !== undefined && { 'x-headgate-as': person }),
        ...(call.body !== undefined && { 'content-type': 'application/json' }),
        ...call.headers,
      },
      ...(call.body !== undefined && { body: JSON.stringify(call.body) }),
      // The token is for this address alone: a redirect is handled as an invalid response.
      redirect: 'manual',
      signal,
    });
  }

  async #refusal(response: Response): Promise<CliError> {
    const { status } = response;
    const document = parsed(await bodyText(response));
    const error = document?.['error'] as Resource | undefined;
    if (typeof error !== 'object' || error === null || typeof error['type'] !== 'string')
      return this.#notHeadgate(status);
    const details = (Array.isArray(error['details']) ? error['details'] : []).slice(0, 50) as Resource[];
    const next = typeof error['next'] === 'string' ? error['next'] : defaultNext(error['type']);
    return new CliError(String(error['message']), {
      type: error['type'],
      exitCode: unreachableTypes.has(error['type']) ? 7 : (exitCodeOfStatus[status] ?? 1),
      why: [
        `HTTP ${status} ${String(error['code'])} at ${String(error['path'])}`,
        ...details.map(({ path, message }) => `${String(path)}: ${String(message)}`),
      ],
      ...(next !== undefined && { next }),
    });
  }

  #notHeadgate(status: number): CliError {
    return new CliError(`${this.settings.admin} is not a Headgate control plane`, {
      type: 'Unreachable',
      exitCode: 7,
      why: `HTTP ${status}, and the body is not a document of the admin API`,
      next: 'check --admin or HEADGATE_ADMIN',
    });
  }

  #toCliError(error: unknown): unknown {
    if (error instanceof CliError || !isNetworkFailure(error)) return error;
    return this.#signal.aborted ? interrupted() : connectionError(error, this.settings.admin);
  }
}

/** Headers, and the body as a stream. */
export interface OpenAnswer {
  readonly headers: Headers;
  readonly pieces: AsyncIterable<Uint8Array>;
}

/** Whether sending the same call again may succeed. */
function isRetryable(failure: unknown): boolean {
  return failure instanceof CliError && /^(?:ConnectionLost|OutcomeUnknown)$/.test(failure.type);
}

function defaultNext(type: string): string | undefined {
  switch (type) {
    case 'Unauthorized':
      return 'set HEADGATE_TOKEN to the operator token of this control plane';
    case 'GuardRefused':
      return 'retry with --force to override the guard';
    case 'PositionMoved':
      return 'compare again (headgate diff), then retry with the new position';
    default:
      return undefined;
  }
}

async function bodyText(response: Response): Promise<string> {
  const bytes = new ChunkBuffer({ bytesMax: answerBytesMax });
  for await (const chunk of response.body ?? []) {
    const { buffer, byteOffset, length } = chunk as Uint8Array;
    if (!bytes.add(Buffer.from(buffer, byteOffset, length)))
      throw new CliError(`the response is larger than ${answerBytesMax} bytes`, {
        type: 'AnswerTooLarge',
        exitCode: 1,
        next: 'request fewer items with --limit',
      });
  }
  return bytes.whole().toString('utf8');
}

function parsed(text: string): Resource | undefined {
  try {
    const document: unknown = JSON.parse(text);
    return typeof document === 'object' && document !== null && !Array.isArray(document)
      ? (document as Resource)
      : undefined;
  } catch {
    return undefined;
  }
}
