/** A GET between processes over node:http, which is already loaded; loading undici costs as much as two bare processes. */
import { get, type IncomingMessage } from 'node:http';
import { get as getOverTls } from 'node:https';

export interface GetOptions {
  readonly headers: Readonly<Record<string, string>>;
  /** Timeout until the whole head of the response has arrived, in ms. */
  readonly headMs: number;
  /** Longest pause between two pieces of the body, in ms. */
  readonly silentMs: number;
  /** Aborts the whole exchange. */
  readonly signal: AbortSignal;
}

export function httpGet(
  url: string,
  { headers, headMs, silentMs, signal }: GetOptions,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = (url.startsWith('https:') ? getOverTls : get)(url, { headers, signal });
    const end = (): void => void request.destroy(new Error('no answer in time'));
    const head = setTimeout(end, headMs);
    request.once('response', (answer) => {
      clearTimeout(head);
      request.setTimeout(silentMs, end);
      resolve(answer);
    });
    request.on('error', (error) => {
      clearTimeout(head);
      reject(error);
    });
  });
}
