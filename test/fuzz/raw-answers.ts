/**
 * Parses the bytes that a listener sent on one connection as strictly as a proxy would: complete answers one after another,
 * each refusal in the listener's envelope.
 */
import { commandErrorKinds } from '../../control-plane/core/command-error.ts';
import { refusalKinds } from '../../schemas/api/refusals.ts';

export type ListenerKind = 'gateway' | 'admin' | 'console' | 'play' | 'health' | 'engine';

export interface OneAnswer {
  readonly status: number;
  /** Headers of the answer. Their names are in lower case. */
  readonly fields: Readonly<Record<string, string>>;
  readonly body: string;
  /** True for the answer to a HEAD request, which has no body even if its head promises one. */
  readonly bodiless?: boolean;
  /** False if the connection ended before the promised end of the body. */
  readonly whole: boolean;
}

export interface ReadAnswers {
  readonly answers: readonly OneAnswer[];
  /** Description of the first bytes that are not HTTP, if any. */
  readonly broken: string | undefined;
}

/** Parses answers in latin1 text. With `bodiless`, the requests may have been HEAD, so a promised body may be missing. */
export function readAnswers(text: string, bodiless: boolean): ReadAnswers {
  const answers: OneAnswer[] = [];
  let at = 0;
  while (at < text.length) {
    const end = text.indexOf('\r\n\r\n', at);
    if (end === -1) return { answers, broken: undefined };
    const [statusLine = '', ...lines] = text.slice(at, end).split('\r\n');
    const status = Number(/^HTTP\/1\.[01] ([1-5]\d\d)(?: [^\r\n]*)?$/.exec(statusLine)?.[1]);
    if (!status) return { answers, broken: `no status line: ${JSON.stringify(text.slice(at, at + 60))}` };
    const fields: Record<string, string> = {};
    for (const line of lines) {
      const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\0\r\n]*)$/.exec(line) ?? [];
      if (name === undefined)
        return { answers, broken: `no header line: ${JSON.stringify(line.slice(0, 60))}` };
      fields[name.toLowerCase()] = value ?? '';
    }
    at = end + 4;
    if (status < 200) {
      if (status === 101)
        return { answers: [...answers, { status, fields, body: '', whole: true }], broken: undefined };
      continue;
    }
    const { body, next } = bodyAt(text, at, fields, status === 204 || status === 304);
    // Ignores answers that give no length and close the connection, because they promise no body.
    const isHead = bodiless && (next === undefined || body === '' || text.startsWith('HTTP/1.', at));
    if (isHead) {
      answers.push({ status, fields, body: '', whole: true, bodiless: true });
      continue;
    }
    answers.push({ status, fields, body, whole: next !== undefined });
    if (next === undefined) return { answers, broken: undefined };
    at = next;
  }
  return { answers, broken: undefined };
}

function bodyAt(
  text: string,
  at: number,
  fields: Readonly<Record<string, string>>,
  isEmpty: boolean,
): { readonly body: string; readonly next: number | undefined } {
  if (isEmpty) return { body: '', next: at };
  if (fields['transfer-encoding'] === 'chunked') return chunkedBody(text, at);
  const promised = fields['content-length'];
  if (promised === undefined) return { body: text.slice(at), next: text.length };
  const next = at + Number(promised);
  return { body: text.slice(at, next), next: next <= text.length ? next : undefined };
}

function chunkedBody(
  text: string,
  from: number,
): { readonly body: string; readonly next: number | undefined } {
  let body = '';
  let at = from;
  for (;;) {
    const end = text.indexOf('\r\n', at);
    const size = end === -1 ? Number.NaN : Number.parseInt(text.slice(at, end), 16);
    if (Number.isNaN(size) || end + 2 + size + 2 > text.length) return { body, next: undefined };
    body += text.slice(end + 2, end + 2 + size);
    at = end + 2 + size + 2;
    if (size === 0) return { body, next: at };
  }
}

/** Describes what is wrong with an answer from a listener of this kind. Returns undefined if the answer is good. */
export function answerFault(
  kind: ListenerKind,
  { status, fields, body, whole, bodiless }: OneAnswer,
): string | undefined {
  if (kind === 'engine') return undefined;
  if (status === 500) return `answered 500: ${body.slice(0, 200)}`;
  if (kind === 'health')
    return [200, 400, 404, 405, 408, 413, 417, 431, 501, 503].includes(status)
      ? undefined
      : `answered ${status}`;
  // Pages and files are text, but the answer to an API call is JSON.
  const isPage = (kind === 'console' || kind === 'play') && !isJson(fields);
  if (isPage)
    return [200, 303, 304, 400, 404, 405, 408, 413, 417, 421, 431, 503].includes(status)
      ? undefined
      : `answered ${status}`;
  if (status < 400) return status === 200 || status === 101 ? undefined : `answered ${status}`;
  if (!whole || bodiless) return undefined;
  const isRefusal = kind === 'gateway' || kind === 'play';
  const fault = isRefusal ? refusalFault(status, fields, body) : adminFault(status, body);
  return fault === undefined ? undefined : `${fault}: ${status} ${body.slice(0, 200)}`;
}

function isJson(fields: Readonly<Record<string, string>>): boolean {
  return fields['content-type']?.startsWith('application/json') === true;
}

/** Checks a refusal as `refusalOf` in test/support/api.ts does, but without vitest's `expect`. */
export function refusalFault(
  status: number,
  fields: Readonly<Record<string, string>>,
  body: string,
): string | undefined {
  const error = errorIn(body);
  if (error === undefined) return 'a refusal outside the envelope';
  if (Object.keys(error).join() !== 'code,type,message,status,path') return 'other members in the envelope';
  const type = String(error['type']);
  if (!Object.hasOwn(refusalKinds, type)) return 'a type that is not in the registry';
  const kind = refusalKinds[type as keyof typeof refusalKinds];
  if (kind.status !== status || error['status'] !== status || error['code'] !== kind.code)
    return 'a status or code of another type';
  if (fields['content-type'] !== 'application/json') return 'a refusal of another content type';
  if (!/^req_[0-9a-f]{32}$/.test(fields['x-request-id'] ?? '')) return 'a refusal without a request id';
  if ((fields['x-should-retry'] === 'false') !== (kind.retry === 'never')) return 'a wrong x-should-retry';
  if ((fields['retry-after'] !== undefined) !== (kind.retry === 'retry-after')) return 'a wrong Retry-After';
  return undefined;
}

function adminFault(status: number, body: string): string | undefined {
  const error = errorIn(body);
  if (error === undefined) return 'a refusal outside the envelope';
  const type = String(error['type']);
  if (!Object.hasOwn(commandErrorKinds, type)) return 'a type that is not in the registry';
  const kind = commandErrorKinds[type as keyof typeof commandErrorKinds];
  return kind.status === status && error['code'] === kind.code
    ? undefined
    : 'a status or code of another type';
}

function errorIn(body: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const envelope = JSON.parse(Buffer.from(body, 'latin1').toString('utf8')) as Record<string, unknown>;
    const error = envelope['error'];
    if (Object.keys(envelope).length !== 1 || typeof error !== 'object' || error === null) return undefined;
    return error as Readonly<Record<string, unknown>>;
  } catch {
    return undefined;
  }
}
