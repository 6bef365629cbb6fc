import { operatorToken } from './fleet.ts';

export interface AdminAsk {
  readonly method?: string;
  readonly body?: unknown;
  /** The person in whose name the operator asks. */
  readonly as?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | null;
}

/** Asks the admin API at this address with the operator's token, and gives whatever it answers. */
export function askAdmin(admin: string, path: string, asked: AdminAsk = {}): Promise<Response> {
  const { method = asked.body === undefined ? 'GET' : 'POST', body, as, headers, signal = null } = asked;
  return fetch(`${admin}/admin/v1${path}`, {
    ...{ method, signal },
    headers: {
      authorization: `Bearer ${operatorToken}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(as !== undefined && { 'x-headgate-as': as }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}
