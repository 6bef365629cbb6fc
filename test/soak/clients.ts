/**
 * The concurrent clients of a soak test, some of which leave at a random moment. Each client asks for a model of its own, so
 * that the work of nodes and bills can be attributed to it. What the clients see is the first of the three accounts.
 */
import { Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

/** A client with its key and a model that no other client asks for. */
export interface Client {
  readonly key: string;
  readonly model: string;
}

export interface Plan {
  readonly kind: 'stream' | 'whole' | 'embeddings';
  /** Number of words in the response, or 0 for embeddings. */
  readonly words: number;
  /** Time after which the client leaves, in ms. Undefined if it stays. */
  readonly leavesMs: number | undefined;
}

export interface Result extends Plan {
  readonly model: string;
  /** Request id from the response headers, or undefined if no headers arrived. */
  readonly requestId: string | undefined;
  /** HTTP status, or 0 if no response headers arrived. */
  readonly status: number;
  /** Whether a 200 arrived with its terminator or its complete body. */
  readonly completed: boolean;
  /** Whether the response arrived in full. Refusals count too. */
  readonly whole: boolean;
  /** Whether the client ended the request. */
  readonly left: boolean;
  readonly refusal: string | undefined;
  /** Time at which the request ended, on the monotonic clock in ms. */
  readonly endedMs: number;
}

export interface Call {
  readonly seen: Promise<Result>;
  /** Resolves with the status once the headers arrive, or with 0 if they never do. */
  readonly head: Promise<number>;
  leave(): void;
}

/** Longest time that a response may take, in ms. */
const answerMsMax = 30_000;
/** Pause before a client retries after a refusal for too many requests in flight, in ms. */
const pauseMs = 25;

export function wantedFrom(random: () => number, leaving = 0.2): Plan {
  const kinds: readonly Plan['kind'][] = ['stream', 'stream', 'stream', 'whole', 'whole', 'embeddings'];
  const kind = kinds[Math.floor(random() * kinds.length)] ?? 'stream';
  const words = 1 + Math.floor(random() * 60);
  const leavesMs = random() < leaving ? Math.floor(random() * 80) : undefined;
  return { kind, words: kind === 'embeddings' ? 0 : words, leavesMs };
}

/** Returns the number of prompt tokens as a simulated node counts them. */
export function promptTokensOf({ kind, words }: Plan): number {
  const bytes = Buffer.byteLength(promptOf(words));
  return kind === 'embeddings' ? Math.ceil(bytes / 4) : Math.ceil(bytes / 4) + 3;
}

function promptOf(words: number): string {
  return `say ${words} words`;
}

function bodyOf(model: string, { kind, words }: Plan): string {
  if (kind === 'embeddings') return JSON.stringify({ model, input: promptOf(words) });
  const messages = [{ role: 'user', content: promptOf(words) }];
  return JSON.stringify({ model, messages, stream: kind === 'stream' });
}

/** Sends one request. `seen` never rejects, whatever happens to the request. `api` ends in /v1. */
export function ask(api: string, agent: Agent, client: Client, wanted: Plan): Call {
  const body = bodyOf(client.model, wanted);
  const path = wanted.kind === 'embeddings' ? '/embeddings' : '/chat/completions';
  const outgoing = request(api + path, {
    method: 'POST',
    agent,
    headers: {
      authorization: `Bearer ${client.key}`,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    },
  });
  let left = false;
  const leave = (): void => {
    left = true;
    outgoing.destroy();
  };
  let onHead: (status: number) => void = () => undefined;
  const head = new Promise<number>((resolve) => {
    onHead = resolve;
  });
  const seen = new Promise<Result>((resolve) => {
    let answer: IncomingMessage | undefined;
    let tail = '';
    let endedMs: number | undefined;
    const tooLong = setTimeout(() => outgoing.destroy(), answerMsMax);
    const leaving = wanted.leavesMs === undefined ? undefined : setTimeout(leave, wanted.leavesMs);
    outgoing.on('error', () => undefined);
    outgoing.on('response', (incoming) => {
      answer = incoming;
      onHead(incoming.statusCode ?? 0);
      incoming.setEncoding('latin1');
      incoming.on('error', () => undefined);
      incoming.on('data', (chunk: string) => {
        tail = incoming.statusCode === 200 ? (tail + chunk).slice(-20) : tail + chunk;
      });
      incoming.on('end', () => {
        endedMs = performance.now();
      });
    });
    outgoing.on('close', () => {
      clearTimeout(tooLong);
      clearTimeout(leaving);
      onHead(0);
      const status = answer?.statusCode ?? 0;
      const whole = endedMs !== undefined && answer?.complete === true;
      const completed =
        whole && status === 200 && (wanted.kind !== 'stream' || tail.endsWith('data: [DONE]\n\n'));
      const id = answer?.headers['x-request-id'];
      resolve({
        ...wanted,
        model: client.model,
        requestId: typeof id === 'string' ? id : undefined,
        status,
        completed,
        whole,
        left: left && !whole,
        refusal: whole && status >= 400 ? refusalIn(tail) : undefined,
        endedMs: endedMs ?? performance.now(),
      });
    });
    outgoing.end(body);
  });
  return { seen, head, leave };
}

function refusalIn(text: string): string {
  return /"type":"(\w+)"/.exec(text)?.[1] ?? 'no envelope';
}

export interface LoadOptions {
  readonly api: string;
  readonly clients: readonly Client[];
  /** Returns the next request to send, or undefined to end the load. */
  readonly next: () => Plan | undefined;
  readonly onSeen?: (seen: Result) => void;
}

/** Lets every client send one request after another, until `next` returns undefined or the gateway is gone. */
export async function load({ api, clients, next, onSeen }: LoadOptions): Promise<Result[]> {
  const agent = new Agent({ keepAlive: true });
  const all: Result[] = [];
  const work = async (client: Client): Promise<void> => {
    for (let wanted = next(); wanted !== undefined; wanted = next()) {
      const seen = await ask(api, agent, client, wanted).seen;
      all.push(seen);
      onSeen?.(seen);
      if (seen.refusal === 'InferenceConcurrencyLimitedError') await pause(pauseMs);
    }
  };
  await Promise.all(clients.map(work));
  agent.destroy();
  return all;
}
