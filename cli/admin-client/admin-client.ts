/**
 * Client for the admin API, which uses JSON over HTTP. Every wait has a time limit and every body a size limit. Each command
 * carries an Idempotency-Key, and its retries send the same key, so a command never takes effect twice. If an attempt's
 * outcome is unknown, the client repeats the same command to find out.
 */
import { randomUUID } from 'node:crypto';
import type { OperationAnswer, OperationInput } from '../../schemas/admin/admin.ts';
import {
  type AdminMethod,
  adminPrefix,
  type OperationName,
  questions,
} from '../../schemas/admin/admin-routes.ts';
import { pageRows } from '../../schemas/admin/page-rows.ts';
import { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import { sleep } from '../../shared/runtime/retry.ts';
import { AdminError, toAdminError } from './admin-error.ts';
import type { Resource } from './answers.ts';
import { listMember } from './answers.ts';
import { buildRequest } from './call-path.ts';

export interface AdminSettings {
  /** Base URL of the control plane, without a trailing slash. */
  readonly admin: string;
  readonly token: string;
}

export interface ClientOptions {
  /** Member on whose behalf commands are sent. */
  readonly person?: string | undefined;
  /** Past state to read: a log position, a time, or an age. */
  readonly at?: string | undefined;
  readonly ifAt?: number | undefined;
  readonly why?: string | undefined;
  readonly force?: boolean | undefined;
  readonly dryRun?: boolean | undefined;
  /** Options for releasing the command's changes in waves. If omitted, the changes take effect at once. */
  readonly stage?: StageOptions | undefined;
  /**
   * Whether a command that is too large for one commit may be split into several. The response says what remains to be done.
   */
  readonly inParts?: boolean | undefined;
  /** Whether to compute each command's effect instead of executing the command. Calls then reject with `EffectFound`. */
  readonly effect?: boolean | undefined;
  /** Called before each operation. If the returned promise rejects, the operation is not sent. */
  readonly announce?: ((name: OperationName, input: object) => Promise<void>) | undefined;
  /** Idempotency-Key to send, for repeating a command whose outcome is unknown. If omitted, a new one is generated. */
  readonly commandId?: string | undefined;
  readonly signal?: AbortSignal;
  /** Maximum number of attempts per call, including the first. */
  readonly attemptsMax?: number;
  /** Time limit in ms for a complete response, including its body. */
  readonly timeoutMs?: number;
}

/** How a staged change is released. Defaults come from the fleet file or the control plane. */
export interface StageOptions {
  readonly waves?: string | undefined;
  readonly hold?: string | undefined;
  readonly watch?: string | undefined;
  readonly advanceUnseen?: boolean | undefined;
}

/** Carries the effect of a command that was not executed because the client only asked for effects. */
export class EffectFound extends Error {
  readonly effect: Resource;

  constructor(effect: Resource) {
    super('nothing was written');
    this.effect = effect;
  }
}

/** Names of operations that do not require input. */
type PlainName = {
  [Name in OperationName]: object extends OperationInput<Name> ? Name : never;
}[OperationName];
/** Names of operations that return a list in pages. */
type PagedName = {
  [Name in OperationName]: 'after' extends keyof OperationInput<Name> ? Name : never;
}[OperationName];
type PageItem<Name extends PagedName> =
  OperationAnswer<Name> extends { readonly items: readonly (infer Item)[] } ? Item : never;
export type Query = Readonly<Record<string, string | number | undefined>>;

interface Call {
  readonly method: AdminMethod;
  readonly path: string;
  readonly query: Query;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number | undefined;
  /** Idempotency-Key of the call. Set only for commands, because reads change nothing. */
  readonly commandId?: string;
}

const toFlag = (given: boolean | undefined): string | undefined => (given ? 'true' : undefined);

const attemptsMaxDefault = 3;
const backoffMs = 250;
const timeoutMsDefault = 30_000;
const answerBytesMax = 256 * 1024 * 1024;
const detailsMax = 50;

export class AdminClient {
  readonly settings: AdminSettings;
  readonly #options: ClientOptions;
  readonly #signal: AbortSignal;

  constructor(settings: AdminSettings, options: ClientOptions = {}) {
    this.settings = settings;
    this.#options = options;
    this.#signal = options.signal ?? new AbortController().signal;
  }

  /** Calls an operation. The input contains both the path's parameters and the fields of the query string or body. */
  run<Name extends PlainName>(
    name: Name,
    input?: OperationInput<Name>,
    timeoutMs?: number,
  ): Promise<OperationAnswer<Name>>;
  run<Name extends OperationName>(
    name: Name,
    input: OperationInput<Name>,
    timeoutMs?: number,
  ): Promise<OperationAnswer<Name>>;
  run<Name extends OperationName>(
    name: Name,
    input: object = {},
    timeoutMs?: number,
  ): Promise<OperationAnswer<Name>> {
    return this.#announced(name, input, timeoutMs);
  }

  /** Like `run`, but for untyped inputs. With `ifAt`, a command is refused unless the log ends at that position. */
  send(name: OperationName, input: object, ifAt?: number): Promise<Resource> {
    return this.#announced(name, input, undefined, ifAt);
  }

  async #announced<Answer>(
    name: OperationName,
    input: object,
    timeoutMs?: number,
    ifAt?: number,
  ): Promise<Answer> {
    const call = this.#callOf(name, input, timeoutMs, ifAt);
    await this.#options.announce?.(name, input);
    return this.#answer(call);
  }

  /** Reads all pages of a list and returns all items. */
  async all<Name extends PagedName>(name: Name, input: object = {}): Promise<PageItem<Name>[]> {
    const items: PageItem<Name>[] = [];
    let asked: object = { ...input, limit: pageRows.max };
    for (;;) {
      const page = await this.send(name, asked);
      items.push(...(listMember(page, 'items') as unknown as PageItem<Name>[]));
      if (typeof page['next'] !== 'string') return items;
      asked = { ...asked, after: page['next'] };
    }
  }

  /** Sends a request with an explicit method and path. Any method except GET is a command with an Idempotency-Key. */
  protected text(method: AdminMethod, path: string, body?: unknown): Promise<Resource> {
    const { at } = this.#options;
    return this.#answer(
      method === 'GET' ? { method, path, query: { at } } : this.#command(method, path, body),
    );
  }

  #callOf(name: OperationName, input: object, timeoutMs?: number, atPosition?: number): Call {
    const { method, path, rest } = buildRequest(name, input);
    const { at } = this.#options;
    if (method === 'GET') return { method, path, query: { ...(rest as Query), at }, timeoutMs };
    if (questions.some((question) => question === name))
      return { method, path, query: { at }, body: rest, headers: { 'idempotency-key': randomUUID() } };
    const body = Object.keys(rest).length === 0 ? undefined : rest;
    const call = this.#command(method, path, body);
    if (atPosition === undefined || this.#options.ifAt !== undefined) return call;
    return { ...call, headers: { ...call.headers, 'if-match': `"${atPosition}"` } };
  }

  #command(method: AdminMethod, path: string, body: unknown): Call {
    const { at, ifAt, why, force, dryRun, effect, inParts, stage } = this.#options;
    if (at !== undefined)
      throw new AdminError('--at works only with reads; a command acts on the current state', {
        type: 'Usage',
        status: 400,
        next: 'headgate help',
      });
    const id = this.#options.commandId ?? randomUUID();
    const headers = {
      'idempotency-key': id,
      ...(ifAt !== undefined && { 'if-match': `"${ifAt}"` }),
    };
    const query = {
      ...{ why, force: toFlag(force), dryRun: toFlag(dryRun), inParts: toFlag(inParts) },
      ...(stage && { ...stage, stage: 'true', advanceUnseen: toFlag(stage.advanceUnseen) }),
    };
    return { method, path, query, body, headers, ...((!dryRun || effect) && { commandId: id }) };
  }

  /** Opens a response in order to stream it. `idleMs` limits the wait for each chunk. */
  async open<Name extends OperationName>(
    name: Name,
    input: OperationInput<Name>,
    idleMs = timeoutMsDefault,
  ): Promise<OpenAnswer> {
    const idle = new AbortController();
    const timer = setTimeout(() => idle.abort(), idleMs);
    try {
      const response = await this.#fetch(
        this.#callOf(name, input),
        AbortSignal.any([this.#signal, idle.signal]),
      );
      if (!response.ok) throw await this.#refusal(response);
      const pieces = this.#pieces(response, timer);
      return { headers: response.headers, pieces };
    } catch (error) {
      clearTimeout(timer);
      throw this.#toAdminError(error);
    }
  }

  async *#pieces(response: Response, timer: NodeJS.Timeout): AsyncIterable<Uint8Array> {
    try {
      for await (const piece of response.body ?? []) {
        timer.refresh();
        yield piece as Uint8Array;
      }
    } catch (error) {
      throw this.#toAdminError(error);
    } finally {
      clearTimeout(timer);
    }
  }

  async #answer<Answer>(call: Call): Promise<Answer> {
    const attemptsMax = this.#options.attemptsMax ?? attemptsMaxDefault;
    const failures: unknown[] = [];
    for (let attempt = 1; ; attempt++) {
      try {
        if (call.commandId === undefined || !this.#options.effect) return (await this.#once(call)) as Answer;
        const { method, path, body } = call;
        const asked = { method, path, ...(body !== undefined && { body }) };
        throw new EffectFound(await this.#once({ method: 'POST', path: '/effect', query: {}, body: asked }));
      } catch (error) {
        if (error instanceof EffectFound) throw error;
        const failure = this.#toAdminError(error);
        failures.push(failure);
        if (attempt >= attemptsMax || !isRetryable(failure)) throw finalError(call, failures);
        await sleep(backoffMs * 2 ** (attempt - 1) * (0.5 + Math.random()), this.#signal);
      }
    }
  }

  async #once(call: Call): Promise<Resource> {
    const timeout = AbortSignal.timeout(call.timeoutMs ?? this.#options.timeoutMs ?? timeoutMsDefault);
    const response = await this.#fetch(call, AbortSignal.any([this.#signal, timeout]));
    if (!response.ok) throw await this.#refusal(response);
    const document = parseDocument(await bodyText(response));
    if (document === undefined) throw this.#notHeadgate(response.status);
    return document;
  }

  #fetch(call: Call, signal: AbortSignal): Promise<Response> {
    const { admin, token } = this.settings;
    const url = new URL(`${admin}${adminPrefix}${call.path}`);
    for (const [name, value] of Object.entries(call.query)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const { person } = this.#options;
    return fetch(url, {
      method: call.method,
      headers: {
        authorization: `Bearer ${token}`,
        'x-headgate-via': 'cli',
        ...(person !== undefined && { 'x-headgate-as': person }),
        ...(call.body !== undefined && { 'content-type': 'application/json' }),
        ...call.headers,
      },
      ...(call.body !== undefined && { body: JSON.stringify(call.body) }),
      // Do not follow redirects, because the token must not be sent to any other address.
      redirect: 'manual',
      signal,
    });
  }

  async #refusal(response: Response): Promise<AdminError> {
    const { status } = response;
    const document = parseDocument(await bodyText(response));
    const error = document?.['error'] as Resource | undefined;
    if (typeof error !== 'object' || error === null || typeof error['type'] !== 'string')
      return this.#notHeadgate(status);
    const details = listMember(error, 'details');
    return new AdminError(String(error['message']), {
      type: error['type'],
      status,
      why: [
        `HTTP ${status} ${String(error['code'])} at ${String(error['path'])}`,
        ...details.slice(0, detailsMax).map(({ path, message }) => `${String(path)}: ${String(message)}`),
      ],
      ...(typeof error['next'] === 'string' && { next: error['next'] }),
    });
  }

  #notHeadgate(status: number): AdminError {
    return new AdminError(`${this.settings.admin} is not a Headgate control plane`, {
      type: 'Unreachable',
      status,
      why: [`HTTP ${status}, and the body is not a document of the admin API`],
      next: 'check --admin or HEADGATE_ADMIN',
    });
  }

  #toAdminError(error: unknown): unknown {
    return toAdminError(error, this.settings.admin, this.#signal.aborted);
  }
}

interface OpenAnswer {
  readonly headers: Headers;
  readonly pieces: AsyncIterable<Uint8Array>;
}

function isRetryable(failure: unknown): boolean {
  return failure instanceof AdminError && /^(?:ConnectionLost|OutcomeUnknown)$/.test(failure.type);
}

/** Whether a failed command may still have been executed, for example after a lost connection or a proxy's status 504. */
function isUndecided(failure: unknown): failure is AdminError {
  if (!(failure instanceof AdminError)) return false;
  const { type, status = 0 } = failure;
  return (
    /^(?:ConnectionLost|OutcomeUnknown|Interrupted)$/.test(type) || (type === 'Unreachable' && status >= 500)
  );
}

/** Returns the error with which a call fails. If an attempt may have executed the command, the error says so. */
function finalError({ commandId: id }: Call, failures: readonly unknown[]): unknown {
  const last = failures.at(-1);
  const first = failures.find(isUndecided);
  if (id === undefined || first === undefined) return last;
  const isInterrupted = last instanceof AdminError && last.type === 'Interrupted';
  const reasons = [first, ...(last === first ? [] : [last])].flatMap((each) =>
    each instanceof AdminError ? [each.message, ...each.why] : [String(each)],
  );
  return new AdminError(
    `${isInterrupted ? 'interrupted: ' : ''}it is not known whether command ${id} was carried out`,
    {
      type: isInterrupted ? 'Interrupted' : 'OutcomeUnknown',
      why: [...new Set(reasons)].filter((each) => each !== 'interrupted'),
      next: `repeat the same command with --command-id ${id}: it takes effect only once, and shows the result`,
      cause: last,
    },
  );
}

async function bodyText(response: Response): Promise<string> {
  const bytes = new ChunkBuffer({ bytesMax: answerBytesMax });
  for await (const chunk of response.body ?? []) {
    const { buffer, byteOffset, length } = chunk as Uint8Array;
    if (!bytes.add(Buffer.from(buffer, byteOffset, length)))
      throw new AdminError(`the response is larger than ${answerBytesMax} bytes`, {
        type: 'AnswerTooLarge',
        next: 'request fewer items with --limit',
      });
  }
  return bytes.whole().toString('utf8');
}

function parseDocument(text: string): Resource | undefined {
  try {
    const document: unknown = JSON.parse(text);
    return typeof document === 'object' && document !== null && !Array.isArray(document)
      ? (document as Resource)
      : undefined;
  } catch {
    return undefined;
  }
}
