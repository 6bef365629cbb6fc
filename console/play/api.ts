/** Calls that the playground makes to a gateway. An API key exists only in the memory of this tab. */
import type { ErrorEnvelope } from '../../schemas/api/refusals.ts';

export interface VisitorState {
  readonly turns: { readonly left: number; readonly limit: number };
  readonly models: readonly string[];
  /** URL of the console, if the gateway knows it. */
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

/** Maximum number of attempts of a call that is temporarily refused. */
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

/** Reads the state of this visitor. If many new visitors share the network, the gateway first demands a proof of work. */
export async function visitorState(): Promise<VisitorState> {
  const answer = await (await callUntilTaken({})).json();
  if (answer.work === undefined) return answer;
  const { solve } = await import('./work.ts');
  const solution = await solve(answer.work);
  return (await callUntilTaken({ solution })).json();
}

/** Repeats a call while the gateway is busy, but gives up if the waits become too many or too long. */
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
