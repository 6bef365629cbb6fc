/**
 * One GET of a process to another, over node:http, which every process has loaded. Loading undici for it would cost as much processor
 * time as two bare processes. Follows no redirect.
 */
import { get, type IncomingMessage } from 'node:http';
import { get as getOverTls } from 'node:https';

export interface GetOptions {
  readonly headers: Readonly<Record<string, string>>;
  /** Until the whole head of the answer. */
  readonly headMs: number;
  /** Between two pieces of its body. */
  readonly silentMs: number;
  /** Of the whole answer. */
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
