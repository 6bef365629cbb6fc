/** Sends one turn of a conversation and collects the answer as it arrives. */
import { call } from './api.ts';

export interface Message {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

export interface Parameters {
  readonly system: string;
  readonly maxTokens: number | undefined;
  readonly temperature: number | undefined;
}

export interface TurnTarget {
  readonly model: string;
  /** Stack that receives the turn, or undefined for the shared host. */
  readonly stack?: { readonly id: string; readonly surface: 'openai' | 'anthropic' } | undefined;
}

const messagesMax = 19;
const bytesMax = 14 * 1024;

/** Returns the latest messages that fit into one request. */
function latest(messages: readonly Message[]): Message[] {
  const kept = messages
    .filter(({ content }) => content !== '')
    .slice(-messagesMax)
    .map(({ role, content }): Message => ({ role, content }));
  while (kept.length > 1 && new TextEncoder().encode(JSON.stringify(kept)).length > bytesMax) kept.shift();
  while (kept.length > 1 && kept[0]?.role === 'assistant') kept.shift();
  return kept;
}

export function requestBody(
  { model, stack }: TurnTarget,
  messages: readonly Message[],
  { system, maxTokens, temperature }: Parameters,
): Record<string, unknown> {
  const common = { model, stream: true, ...(temperature !== undefined && { temperature }) };
  const kept = latest(messages);
  if (stack?.surface === 'anthropic')
    return { ...common, max_tokens: maxTokens ?? 1024, ...(system && { system }), messages: kept };
  return {
    ...common,
    ...(maxTokens !== undefined && { max_tokens: maxTokens }),
    stream_options: { include_usage: true },
    messages: system ? [{ role: 'system', content: system }, ...kept] : kept,
  };
}

export interface Progress {
  readonly text: string;
  readonly requestId: string | undefined;
  readonly firstTokenMs: number | undefined;
  readonly tokensPerSecond: number | undefined;
  readonly isWhole: boolean;
}

export async function send(
  target: TurnTarget,
  body: unknown,
  { key, signal }: { readonly key: string | undefined; readonly signal: AbortSignal },
  onProgress: (progress: Progress) => void,
): Promise<void> {
  const { stack } = target;
  const operation = stack?.surface === 'anthropic' ? 'messages' : 'chat';
  const path = stack === undefined ? `/api/${operation}` : `/api/stacks/${stack.id}/${operation}`;
  const startMs = performance.now();
  const response = await call(path, body, { key, signal });
  const requestId = response.headers.get('x-request-id') ?? undefined;
  const answer = new Answer(startMs);
  const progress = (): void => onProgress({ ...answer.progress(), requestId });
  progress();
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = (await reader?.read()) ?? { value: undefined, done: true };
    if (value !== undefined && answer.add(value)) progress();
    if (done) break;
  }
  progress();
}

/** Collects an answer from the events of a stream in either API style. */
class Answer {
  readonly #startMs: number;
  #rest = '';
  #text = '';
  #firstMs: number | undefined;
  #lastMs = 0;
  #tokens: number | undefined;
  #isWhole = false;

  constructor(startMs: number) {
    this.#startMs = startMs;
  }

  progress(): Omit<Progress, 'requestId'> {
    const first = this.#firstMs;
    // If the answer arrived in one piece, the rate is computed over the whole time since the request.
    const sinceMs = first === this.#lastMs ? this.#startMs : (first ?? 0);
    const seconds = first === undefined ? 0 : (this.#lastMs - sinceMs) / 1000;
    const rate = this.#tokens !== undefined && seconds > 0 ? this.#tokens / seconds : undefined;
    return {
      text: this.#text,
      firstTokenMs: first === undefined ? undefined : first - this.#startMs,
      tokensPerSecond: rate,
      isWhole: this.#isWhole,
    };
  }

  /** Adds a piece of the stream. Returns whether there is something new to show. */
  add(piece: string): boolean {
    this.#rest += piece;
    const events = this.#rest.split(/\r?\n\r?\n/);
    this.#rest = events.pop() ?? '';
    for (const event of events)
      for (const line of event.split(/\r?\n/)) if (line.startsWith('data:')) this.#take(line.slice(5).trim());
    return events.length > 0;
  }

  #take(data: string): void {
    if (data === '[DONE]') {
      this.#isWhole = true;
      return;
    }
    const event = parsed(data);
    if (event?.type === 'message_stop') this.#isWhole = true;
    const text = event?.choices?.[0]?.delta?.content ?? event?.delta?.text ?? '';
    if (text !== '') {
      this.#text += text;
      this.#lastMs = performance.now();
      this.#firstMs ??= this.#lastMs;
    }
    this.#tokens = event?.usage?.completion_tokens ?? event?.usage?.output_tokens ?? this.#tokens;
  }
}

interface StreamEvent {
  readonly type?: string;
  readonly choices?: readonly { readonly delta?: { readonly content?: string } }[];
  readonly delta?: { readonly text?: string };
  readonly usage?: { readonly completion_tokens?: number; readonly output_tokens?: number } | null;
}

function parsed(data: string): StreamEvent | undefined {
  try {
    return JSON.parse(data) as StreamEvent;
  } catch {
    return undefined;
  }
}
