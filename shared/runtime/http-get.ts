/** Sends GET requests between processes through `node:http`, because loading undici takes about 100 ms of processor time. */
import { get, type IncomingMessage } from 'node:http';
import { get as getOverTls } from 'node:https';

export interface GetOptions {
  readonly headers: Readonly<Record<string, string>>;
  /** Time limit in ms for the response's head to arrive completely. */
  readonly headMs: number;
  /** Longest allowed pause in ms between two pieces of the body. */
  readonly silentMs: number;
  /** Aborts the request, or the reading of its response. */
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
