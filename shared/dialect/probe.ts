/**
 * Asks one inference server how it is: its health route, then the models it serves.
 * The node is untrusted: no redirect is followed, the answer's size and the wait are bounded, none of its text is kept
 * but names of models that can be names.
 */
import { type Dispatcher, request } from 'undici';
import type { Dialect } from '../../schemas/names.ts';
import { ChunkBuffer } from '../chunk-buffer.ts';
import { type JsonBounds, scanJson } from '../json-scan.ts';
import { dialects } from './dialects.ts';
import { modelsPath, servedModels } from './node-answers.ts';

export interface ProbeTarget {
  readonly url: string;
  readonly dialect: Dialect;
  /** The node's own credential, where it wants one. */
  readonly credential?: string | undefined;
}

export type Probed =
  | {
      readonly up: true;
      readonly models: readonly string[];
      readonly windows: Readonly<Record<string, number>>;
    }
  /** `reason` is fit for an event: ours, short, without the node's words. `silent`: it may only be slow. */
  | { readonly up: false; readonly reason: string; readonly silent: boolean };

const timeoutDefaultMs = 2000;
const answerBytesMax = 1024 * 1024;
const modelsMax = 1000;
/** Some engines say a hundred things of each model. */
const answerBounds: JsonBounds = { depth: 64, names: 100_000, values: 100_000 };

/** `timeoutMs` is for each of its two questions. Never throws. */
export async function probe(target: ProbeTarget, timeoutMs = timeoutDefaultMs): Promise<Probed> {
  try {
    const health = await ask(target, dialects[target.dialect].healthPath, timeoutMs);
    await health.body.dump();
    if (health.statusCode !== 200) return answeredBadly(`health answered ${health.statusCode}`);
    const answer = await ask(target, modelsPath, timeoutMs);
    if (answer.statusCode !== 200) {
      await answer.body.dump();
      return answeredBadly(`models answered ${answer.statusCode}`);
    }
    return modelsOf(target.dialect, JSON.parse(await boundedText(answer.body)));
  } catch (error) {
    return failed(error);
  }
}

function answeredBadly(reason: string): Probed {
  return { up: false, reason, silent: false };
}

function modelsOf(dialect: Dialect, answer: unknown): Probed {
  const served = servedModels(dialect, answer).slice(0, modelsMax);
  const models = served.map(({ name }) => name).filter((name) => name.length <= 200);
  const windows: Record<string, number> = {};
  for (const { name, windowTokens } of served) if (windowTokens !== undefined) windows[name] = windowTokens;
  return { up: true, models, windows };
}

function ask(target: ProbeTarget, path: string, timeoutMs: number): Promise<Dispatcher.ResponseData> {
  const base = target.url.endsWith('/') ? target.url.slice(0, -1) : target.url;
  const headers = target.credential === undefined ? {} : { authorization: `Bearer ${target.credential}` };
  return request(base + path, {
    headers,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    signal: AbortSignal.timeout(timeoutMs),
  });
}

async function boundedText(body: Dispatcher.ResponseData['body']): Promise<string> {
  const bytes = new ChunkBuffer({ bytesMax: answerBytesMax });
  for await (const chunk of body as AsyncIterable<Buffer>) {
    if (!bytes.add(chunk)) throw new Error('the answer is too large');
  }
  const text = bytes.whole().toString('utf8');
  if (scanJson(text, answerBounds).exceeded !== undefined) throw new SyntaxError('too much JSON');
  return text;
}

function failed(error: unknown): Probed {
  if (error instanceof SyntaxError) return answeredBadly('models answered no JSON');
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ECONNREFUSED') return answeredBadly('connection refused');
  const slow = /TIMEOUT|ABORT/.test(code) || (error instanceof Error && error.name === 'TimeoutError');
  if (slow) return { up: false, reason: 'no answer in time', silent: true };
  const reason = /^[A-Z_]{1,40}$/.test(code) ? `unreachable (${code})` : 'unreachable';
  return { up: false, reason, silent: true };
}
