/** The calls of the playground. The key is in the memory of this tab alone. */
import type { ErrorEnvelope } from '../../schemas/api/refusals.ts';

export interface VisitorState {
  readonly turns: { readonly left: number; readonly limit: number };
  readonly models: readonly string[];
  /** Address of the console, where it is known. */
  readonly console?: string;
}

export interface KeyState {
  readonly organisation: string;
  readonly models: readonly string[];
  readonly stacks: readonly {
    readonly id: string;
    readonly surface: 'openai' | 'anthropic';
    readonly models: readonly string[];
  }[];
}

/** Tries of a call that is refused for some seconds, and how long each may wait. */
const triesMax = 5;
const waitSecondsMax = 5;

export class CallError extends Error {
  readonly type: string;
  readonly requestId: string | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(message: string, type: string, requestId?: string, retryAfterSeconds?: number) {
    super(message);
    this.type = type;
    this.requestId = requestId;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

export async function call(
  path: string,
  body: unknown,
  options: { readonly key?: string | undefined; readonly signal?: AbortSignal } = {},
): Promise<Response> {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (options.key !== undefined) headers['authorization'] = `Bearer ${options.key}`;
  const signal = options.signal ?? null;
  const response = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body), signal });
  if (response.ok) return response;
  const requestId = response.headers.get('x-request-id') ?? undefined;
  const envelope = (await response.json().catch(() => undefined)) as ErrorEnvelope | undefined;
  const { message = `The service answered with status ${response.status}.`, type = '' } =
    envelope?.error ?? {};
  const after = Number(response.headers.get('retry-after') ?? Number.NaN);
  throw new CallError(message, type, requestId, Number.isNaN(after) ? undefined : after);
}

/** Who this visitor is; a network with many new visitors is asked for a proof of work first. */
export async function visitorState(): Promise<VisitorState> {
  const answer = await (await callUntilTaken({})).json();
  if (answer.work === undefined) return answer;
  const { solve } = await import('./work.ts');
  const solution = await solve(answer.work);
  return (await callUntilTaken({ solution })).json();
}

/** While many ask, a gateway has room a moment later. */
async function callUntilTaken(body: unknown, triesLeft = triesMax): Promise<Response> {
  try {
    return await call('/api/visitor', body);
  } catch (error) {
    const seconds = error instanceof CallError ? error.retryAfterSeconds : undefined;
    if (seconds === undefined || seconds > waitSecondsMax || triesLeft <= 1) throw error;
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    return callUntilTaken(body, triesLeft - 1);
  }
}

export async function keyState(key: string): Promise<KeyState> {
  return (await call('/api/key', {}, { key })).json();
}
