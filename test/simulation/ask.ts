/** Sends HTTP requests to listeners of the simulated fleet. */
import { Agent, type IncomingHttpHeaders, request } from 'node:http';

export interface Ask {
  readonly port: number;
  readonly path: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Body of the request, which is sent as JSON. */
  readonly body?: unknown;
  /** Called when the body's first byte arrives. Returns true to abandon the request. */
  readonly onBegin?: () => boolean;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/**
 * Sends a request and resolves with its answer, or with undefined if the connection ends before the whole answer has arrived.
 */
export function ask({ port, path, method, headers = {}, body, onBegin }: Ask): Promise<Answer | undefined> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  return new Promise((resolve) => {
    const asked = request({
      ...{ host: '127.0.0.1', port, path, agent: new Agent() },
      method: method ?? (text === undefined ? 'GET' : 'POST'),
      headers: {
        ...(text !== undefined && {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(text),
        }),
        ...headers,
      },
    });
    asked.on('error', () => resolve(undefined));
    asked.on('response', (answer) => {
      const pieces: Buffer[] = [];
      answer.on('data', (piece: Buffer) => {
        if (pieces.push(piece) === 1 && onBegin?.() === true) asked.destroy();
      });
      answer.on('error', () => resolve(undefined));
      answer.on('close', () => {
        if (!answer.complete) return resolve(undefined);
        resolve({
          status: answer.statusCode ?? 0,
          headers: answer.headers,
          text: Buffer.concat(pieces).toString(),
        });
      });
    });
    asked.end(text);
  });
}
