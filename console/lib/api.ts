/**
 * Calls the control plane with JSON. The session cookie authenticates each call. The room `console/lib` contains the
 * console's calls, live data and formatting. The room must not decide permissions, because only the control plane does.
 */
import type { OperationAnswer, OperationInput } from '../../schemas/admin/admin.ts';
import { type OperationName, operationRoute, resolvePath } from '../../schemas/admin/admin-routes.ts';
import type { TurningName } from '../../schemas/admin/turned-answers.ts';
import { parseDocument } from './documents.ts';
import { minPosition, signedOut } from './session.ts';

export class ApiFailure extends Error {
  override readonly name = 'ApiFailure';
  readonly status: number;
  readonly type: string;
  /** Advice on what the user can do next. */
  readonly next: string | undefined;

  constructor(status: number, type: string, message: string, next?: string) {
    super(message);
    this.status = status;
    this.type = type;
    this.next = next;
  }
}

/** Converts anything that was thrown to a failure that a page can show. */
export function toFailure(error: unknown): ApiFailure {
  return error instanceof ApiFailure ? error : new ApiFailure(0, 'Failed', String(error));
}

export interface CallOptions {
  readonly body?: unknown;
  /** Set for calls that an open page repeats automatically, because they must not keep the session alive. */
  readonly isBackground?: boolean;
  readonly signal?: AbortSignal | undefined;
}

interface Refusal {
  readonly error?: { readonly type?: string; readonly message?: string; readonly next?: string };
}

/** Calls an operation that cannot change requests' outcome. All others need the dialog that shows a command's effect. */
export function call<Name extends Exclude<OperationName, TurningName>>(
  name: Name,
  input: OperationInput<Name>,
  options: Omit<CallOptions, 'body'> = {},
): Promise<OperationAnswer<Name>> {
  return callShown(name, input, options);
}

/** Calls any operation. Only the dialog that shows a command's effect may use it. Rejects with ApiFailure. */
export function callShown<Name extends OperationName>(
  name: Name,
  input: OperationInput<Name>,
  options: Omit<CallOptions, 'body'> = {},
): Promise<OperationAnswer<Name>> {
  const { method } = operationRoute(name);
  if (method === 'GET') return callPath(method, readPath(name, input), options);
  const { path, rest } = resolvePath(name, input);
  return callPath(method, path, { ...options, body: rest });
}

export function readPath<Name extends OperationName>(name: Name, input: OperationInput<Name>): string {
  const { path, rest } = resolvePath(name, input);
  return withQuery(path, rest as Query);
}

/** Calls an endpoint of the console itself, outside the admin API. Rejects with ApiFailure. */
export async function callPath<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const answer = await fetchAnswer(method, path, options);
  const document = parseDocument<T & Refusal>(await answer.text().catch(() => ''));
  if (answer.ok && document !== undefined) {
    notePosition(method, document);
    return document;
  }
  const {
    type = 'Unreadable',
    message = `the console answered ${answer.status}`,
    next,
  } = document?.error ?? {};
  if (answer.status === 401 && path !== '/session') signedOut();
  throw new ApiFailure(answer.status, type, message, next);
}

/** Sends a call and returns its response, to be read as a stream. Rejects with ApiFailure. */
export async function fetchAnswer(
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<Response> {
  const isWrite = method !== 'GET';
  const headers: Record<string, string> = {
    ...(isWrite && { 'content-type': 'application/json', 'idempotency-key': randomId() }),
    ...(options.isBackground && { 'x-headgate-background': '1' }),
  };
  const body = isWrite ? JSON.stringify(options.body ?? {}) : undefined;
  const request = { method, headers, ...(body !== undefined && { body }), signal: options.signal ?? null };
  return fetch(`/api${path}`, request).catch((error: unknown) => {
    if (options.signal?.aborted) throw error;
    throw new ApiFailure(0, 'Unreachable', 'the control plane cannot be reached', 'retrying automatically');
  });
}

/** Remembers the log position of a write. Later reads wait until that position is folded, so they show the user's change. */
function notePosition(method: string, document: unknown): void {
  if (method === 'GET') return;
  const { position } = document as { readonly position?: unknown };
  if (typeof position === 'number' && position > minPosition.value) minPosition.value = position;
}

/** Returns a random id. It does not use `crypto.randomUUID`, which pages over plain HTTP do not have. */
function randomId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');
}

/** Builds a path from parts that may contain any text. */
export function route(parts: TemplateStringsArray, ...values: readonly string[]): string {
  return String.raw({ raw: parts }, ...values.map(encodeURIComponent));
}

type Query = Readonly<Record<string, string | number | undefined>>;

/** Appends a query to a path. Undefined and empty values are left out. */
export function withQuery(path: string, query: Query): string {
  const parts = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(parts.map(([name, value]) => [name, String(value)])).toString();
  return text === '' ? path : `${path}?${text}`;
}
