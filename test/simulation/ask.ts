/** One HTTP request to a listener of the fleet. */
import { Agent, type IncomingHttpHeaders, request } from 'node:http';

export interface Ask {
  readonly port: number;
  readonly path: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Called for the first byte of the body. Returns whether to abandon the request. */
  readonly onBegin?: () => boolean;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** Resolves to undefined if the connection ends before the whole answer has arrived. */
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
