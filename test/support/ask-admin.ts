/** Calls of the admin API for tests that expect refusals. `DevAdmin` is shorter if a refusal should just fail the test. */

/** Operator token of every test fleet that does not set its own. */
export const operatorToken = 'operator-token-of-the-tests-0001';

export interface AdminAsk {
  /** HTTP method. Defaults to POST if there is a body and to GET otherwise. */
  readonly method?: string;
  readonly body?: unknown;
  /** Person on whose behalf the operator calls. */
  readonly as?: string | undefined;
  readonly token?: string;
  /** Value of the Idempotency-Key header. */
  readonly id?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | null;
}

/** Calls the admin API at this address and returns the response, whatever its status. */
export function askAdmin(admin: string, path: string, asked: AdminAsk = {}): Promise<Response> {
  const { body, method = body === undefined ? 'GET' : 'POST', as, token = operatorToken, id } = asked;
  return fetch(`${admin}/admin/v1${path}`, {
    ...{ method, signal: asked.signal ?? null },
    headers: {
      authorization: `Bearer ${token}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(as !== undefined && { 'x-headgate-as': as }),
      ...(id !== undefined && { 'idempotency-key': id }),
      ...asked.headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

export interface AdminAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Like `askAdmin`, with the body parsed. Rejects if no answer comes within half a minute. */
export async function answerOfAdmin(admin: string, path: string, asked: AdminAsk = {}): Promise<AdminAnswer> {
  const response = await askAdmin(admin, path, { signal: AbortSignal.timeout(30_000), ...asked });
  return { status: response.status, body: (await response.json()) as AdminAnswer['body'] };
}
