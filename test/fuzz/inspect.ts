/**
 * Inspects a running process through its debugger port: its heap after a garbage collection, and its open resources.
 * Comparing them before and after a run reveals leaks that no answer shows.
 */
import WebSocket from 'ws';

export interface Level {
  /** Reachable memory on and off the heap, in bytes. */
  readonly heldBytes: number;
  /** Number of open sockets and timers, by kind. */
  readonly resources: Readonly<Record<string, number>>;
}

interface Reply {
  readonly id?: number;
  readonly result?: { readonly result?: { readonly value?: unknown } };
}

/** Environment variables that make Node open its inspector on a free loopback port. */
export const inspectable = { NODE_OPTIONS: '--inspect=127.0.0.1:0' } as const;

/** Finds the inspector's address in what the process printed when it started. */
export function inspectorIn(stderr: string): string | undefined {
  return /Debugger listening on (ws:\/\/\S+)/.exec(stderr)?.[1];
}

export async function levelOf(address: string): Promise<Level> {
  const socket = new WebSocket(address, { maxPayload: 16 * 1024 * 1024 });
  const waiting = new Map<number, (reply: Reply) => void>();
  try {
    await new Promise<void>((resolve, reject) => {
      socket.on('open', resolve);
      socket.on('error', reject);
    });
    socket.on('message', (data) => {
      const reply = JSON.parse(String(data)) as Reply;
      if (reply.id !== undefined) waiting.get(reply.id)?.(reply);
    });
    const ask = (id: number, method: string, params: object = {}): Promise<Reply> =>
      new Promise((resolve, reject) => {
        waiting.set(id, resolve);
        socket.once('close', () => reject(new Error('the inspector closed')));
        socket.send(JSON.stringify({ id, method, params }));
      });
    for (let round = 1; round <= 2; round++) await ask(round, 'HeapProfiler.collectGarbage');
    const expression =
      '(() => { const m = process.memoryUsage(); const kinds = {};' +
      ' for (const kind of process.getActiveResourcesInfo()) kinds[kind] = (kinds[kind] ?? 0) + 1;' +
      ' return { heldBytes: m.heapUsed + m.external, resources: kinds }; })()';
    const reply = await ask(3, 'Runtime.evaluate', { expression, returnByValue: true });
    return reply.result?.result?.value as Level;
  } finally {
    socket.terminate();
  }
}
