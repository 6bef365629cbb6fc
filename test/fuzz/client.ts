/** HTTP client for fuzz cases: sends one request over a kept-alive connection and collects everything that comes back. */
import { type Agent, request } from 'node:http';

export interface ClientAnswer {
  /** Status code, or 0 if no response head arrived. */
  readonly status: number;
  readonly fields: Readonly<Record<string, string>>;
  readonly body: string;
  /** True if the body ended where its framing promised. */
  readonly whole: boolean;
}

export interface FuzzCall {
  readonly url: string;
  /** HTTP method. Defaults to POST. */
  readonly method?: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly agent: Agent;
  readonly timeoutMs?: number;
}

export function ask({
  url,
  method = 'POST',
  headers,
  body,
  agent,
  timeoutMs = 30_000,
}: FuzzCall): Promise<ClientAnswer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let status = 0;
    let fields: Record<string, string> = {};
    const bytes = Buffer.from(body);
    const options = { method, agent, headers: { ...headers, 'content-length': bytes.length } };
    const end = (whole: boolean): void => {
      clearTimeout(timer);
      resolve({ status, fields, body: Buffer.concat(chunks).toString('utf8'), whole });
    };
    const asked = request(url, options, (response) => {
      status = response.statusCode ?? 0;
      fields = Object.fromEntries(
        Object.entries(response.headers).map(([name, value]) => [name, String(value)]),
      );
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', () => undefined);
      response.on('close', () => end(response.complete));
    });
    const timer = setTimeout(() => asked.destroy(), timeoutMs);
    asked.on('error', () => {
      if (status === 0) end(false);
    });
    asked.end(bytes);
  });
}
