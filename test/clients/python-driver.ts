/**
 * Runs a Python library as a test client. Each library has a process of `python/drive.py`, which reads each request as a line
 * of JSON and answers with another line.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { cached } from './cache.ts';
import { type Client, type Failure, type ToolTurn, toolResult, weather } from './client.ts';

const script = fileURLToPath(new URL('./python/drive.py', import.meta.url));

class PythonFailure extends Error {
  override readonly name = 'PythonFailure';
  readonly failure: Failure;

  constructor({ message, ...failure }: Failure & { readonly message: string }) {
    super(message);
    this.failure = failure;
  }
}

export interface PythonLibrary {
  /** Name of the Python module in the file `with_<module>.py`. */
  readonly module: string;
  /** Name of the environment in the folder `python-<environment>`, which contains the library. */
  readonly environment: string;
  /** Features of the library besides chats. */
  readonly has?: readonly ('embed' | 'models')[];
  readonly more?: object;
}

type Reply = { readonly value: unknown } | { readonly failure: Failure & { readonly message: string } };

export interface PythonProcess {
  /** Calls the module's function `what`. Rejects with the library's error. */
  order<T>(what: string, parts: object): Promise<T>;
  failure(error: unknown): Failure;
}

const running: (() => Promise<void>)[] = [];

export async function stopPython(): Promise<void> {
  await Promise.all(running.splice(0).map((stop) => stop()));
}

export async function pythonClient({ module, environment, has = [], more }: PythonLibrary): Promise<Client> {
  const { order: bare, failure } = await pythonProcess(module, environment);
  const order = <T>(what: string, parts: object) => bare<T>(what, { ...parts, ...more });
  return {
    name: module,
    chat: (ask) => order<string>('chat', ask),
    stream: (ask) => order<string>('stream', ask),
    tools: (ask) => order<ToolTurn>('tools', { ...ask, tool: weather, toolResult }),
    ...(has.includes('embed') && { embed: (ask, texts) => order<number[][]>('embed', { ...ask, texts }) }),
    ...(has.includes('models') && { models: (target) => order<string[]>('models', target) }),
    failure,
  };
}

/** Starts the library's process. Rejects if it ends before it is ready, for example because a package is missing. */
export async function pythonProcess(module: string, environment: string): Promise<PythonProcess> {
  const child = spawn(cached(`python-${environment}/bin/python`), ['-B', script, module], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const read = async (): Promise<Reply> => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`the Python driver of ${module} ended`);
    return JSON.parse(value) as Reply;
  };
  running.push(async () => {
    child.stdin.end();
    await ended;
  });
  await read();
  return {
    order: async <T>(what: string, parts: object): Promise<T> => {
      child.stdin.write(`${JSON.stringify({ do: what, ...parts })}\n`);
      const reply = await read();
      if ('failure' in reply) throw new PythonFailure(reply.failure);
      return reply.value as T;
    },
    failure: (error) => {
      if (!(error instanceof PythonFailure)) throw error;
      const { name, status, type } = error.failure;
      return { name, status: status ?? undefined, type: type ?? undefined };
    },
  };
}
