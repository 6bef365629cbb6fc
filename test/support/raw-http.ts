/**
 * Sends one request over a raw socket and keeps the exact bytes of the answer, so that answers can be compared byte by byte.
 */
import { connect } from 'node:net';

export interface RawAnswer {
  readonly status: number;
  /** Header lines in the order received, unchanged. */
  readonly headers: readonly string[];
  readonly body: string;
  readonly text: string;
}

/** Sends the bytes and reads until the peer closes the connection. The request itself must ask for that. */
export function rawRequest(port: number, request: string | Buffer, timeoutMs = 10_000): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect(port, '127.0.0.1', () => socket.write(request));
    socket.setTimeout(timeoutMs, () => {
      socket.destroy();
      reject(new Error('no answer in time'));
    });
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', reject);
    socket.on('close', () => resolve(parseAnswer(Buffer.concat(chunks).toString('latin1'))));
  });
}

function parseAnswer(text: string): RawAnswer {
  const end = text.indexOf('\r\n\r\n');
  const [statusLine = '', ...headers] = text.slice(0, end === -1 ? text.length : end).split('\r\n');
  return {
    status: Number(statusLine.split(' ')[1] ?? 0),
    headers,
    body: end === -1 ? '' : text.slice(end + 4),
    text,
  };
}

export interface RequestParts {
  readonly method?: string;
  readonly path?: string;
  readonly host?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Returns the bytes of a well-formed request that asks the server to close its connection. */
export function requestText({
  method = 'GET',
  path = '/v1/models',
  host = '127.0.0.1',
  headers = {},
  body,
}: RequestParts): string {
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${host}`, 'Connection: close'];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  if (body !== undefined)
    lines.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`);
  return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`;
}

/** Returns the answer without its date and request id, which differ between requests. */
export function comparable(answer: RawAnswer): string {
  return answer.text.replace(/^date: .*$/im, 'date').replace(/^(x-)?request-id: .*$/gim, 'request-id');
}
