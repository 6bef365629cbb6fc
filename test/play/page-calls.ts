/** Makes the calls that the playground's page makes, for a client whose address a trusted proxy reports. */
import { type IncomingMessage, request } from 'node:http';

export interface Reply {
  readonly status: number;
  readonly cookie: string | undefined;
  readonly retryAfter: string | undefined;
  readonly json: Record<string, unknown>;
  readonly text: string;
}

interface Caller {
  readonly address: string;
  readonly cookie?: string | undefined;
  readonly host?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Sends a call and resolves with the head of the answer. The cookie's name contains the port of the listener. `beforeBody` is
 * called when the gateway has accepted the head and waits for the body.
 */
export function openCall(
  url: URL,
  body: unknown,
  from: Caller,
  beforeBody?: () => void,
): Promise<IncomingMessage> {
  const headers: Record<string, string> = {
    ...{ 'content-type': 'application/json', origin: url.origin, 'x-forwarded-for': from.address },
    ...(from.cookie !== undefined && { cookie: `__Host-headgate-visitor-${url.port}=${from.cookie}` }),
    ...(from.host !== undefined && { host: from.host }),
    ...(beforeBody !== undefined && { expect: '100-continue' }),
    ...from.headers,
  };
  return new Promise((resolve, reject) => {
    const call = request(url, { method: 'POST', headers }, resolve);
    call.on('error', reject);
    const send = (): void => {
      call.end(JSON.stringify(body));
    };
    if (beforeBody === undefined) return send();
    call.on('continue', () => {
      beforeBody();
      send();
    });
    call.flushHeaders();
  });
}

export async function wholeAnswer(response: IncomingMessage): Promise<Reply> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString('utf8');
  const { statusCode: status = 0, headers } = response;
  const cookie = headers['set-cookie']?.[0]?.split(';')[0]?.split('=').slice(1).join('=');
  const isJson = String(headers['content-type']).startsWith('application/json');
  return { status, cookie, retryAfter: headers['retry-after'], text, json: isJson ? JSON.parse(text) : {} };
}

export const post = async (url: URL, body: unknown, from: Caller): Promise<Reply> =>
  wholeAnswer(await openCall(url, body, from));

export const errorOf = ({ json }: Reply) =>
  json['error'] as { readonly type: string; readonly message: string; readonly path: string };

export const turnsOf = ({ json }: Reply) =>
  json['turns'] as { readonly left: number; readonly limit: number };
