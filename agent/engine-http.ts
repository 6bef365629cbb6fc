/**
 * One question to the engine beside the agent. The engine is untrusted: no redirect is followed, every wait and every
 * answer is bounded, and nothing of an answer goes further than the functions that read it.
 */
import { type Dispatcher, request } from 'undici';
import { ChunkBuffer } from '../shared/runtime/chunk-buffer.ts';

export interface EngineTarget {
  /** Base address, without a slash at its end. */
  readonly url: string;
  readonly credential?: string | undefined;
}

export interface Question {
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly body?: object;
  /** For the head of the answer, and then between any two parts of it. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

const answerBytesMax = 4 * 1024 * 1024;

/** The engine answered, but not with what was asked for. */
export class EngineRefusal extends Error {
  override readonly name = 'EngineRefusal';
  readonly status: number;

  constructor(status: number, text: string) {
    super(reasonOf(text) ?? `the engine answered ${status}`);
    this.status = status;
  }
}

/** The answer's text. Throws EngineRefusal for any status but 200, and what undici throws. */
export async function askEngine(target: EngineTarget, question: Question): Promise<string> {
  const bytes = new ChunkBuffer({ bytesMax: answerBytesMax });
  for await (const part of streamEngine(target, question)) {
    if (!bytes.add(Buffer.from(part))) throw new Error('the answer is too large');
  }
  return bytes.whole().toString('utf8');
}

/** The parts of an answer as they come. Throws as `askEngine`. */
export async function* streamEngine(
  target: EngineTarget,
  question: Question,
): AsyncGenerator<string, void, undefined> {
  const { statusCode, body } = await send(target, question);
  body.setEncoding('utf8');
  if (statusCode === 200) {
    yield* body as AsyncIterable<string>;
    return;
  }
  let text = '';
  for await (const part of body as AsyncIterable<string>) {
    text += part;
    if (text.length > 10_000) break;
  }
  throw new EngineRefusal(statusCode, text);
}

function send(target: EngineTarget, question: Question): Promise<Dispatcher.ResponseData> {
  const { method = 'GET', path, body, timeoutMs, signal } = question;
  return request(target.url + path, {
    method,
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    headers: {
      ...(target.credential !== undefined && { authorization: `Bearer ${target.credential}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    body: body === undefined ? null : JSON.stringify(body),
    ...(signal && { signal }),
  });
}

/** The engine's own words of what went wrong, made fit for one line. */
function reasonOf(text: string): string | undefined {
  try {
    const answer = JSON.parse(text) as unknown;
    const error = member(answer, 'error') ?? member(answer, 'detail') ?? member(answer, 'message');
    const words = typeof error === 'string' ? error : member(error, 'message');
    return typeof words === 'string' ? oneLine(words) : undefined;
  } catch {
    return undefined;
  }
}

export function oneLine(words: string): string | undefined {
  const line = words
    .replace(/[\p{Cc}\p{Cs}]+/gu, ' ')
    .trim()
    .slice(0, 150);
  return line === '' ? undefined : line.toWellFormed();
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}
