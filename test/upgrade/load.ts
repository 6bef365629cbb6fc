/** Clients behind a load balancer. Each request goes to a gateway whose /readyz succeeded a moment before. */
import { Agent, request } from 'undici';

interface Target {
  readonly api: string;
  readonly metrics: string;
  ready: boolean;
}

const clients = 4;
const probeEveryMs = 100;

export class Load {
  key = '';
  completed = 0;
  readonly failures: string[] = [];
  readonly #targets = new Map<string, Target>();
  readonly #dispatcher = new Agent({ keepAliveTimeout: 1 });
  #isPaused = false;
  #isStopped = false;
  #active = 0;
  #running: Promise<void>[] = [];
  readonly #probing: Promise<void> = this.#probe();

  add(name: string, { api, metrics }: { readonly api: string; readonly metrics: string }): void {
    this.#targets.set(name, { api, metrics, ready: false });
  }

  remove(name: string): void {
    this.#targets.delete(name);
  }

  isReady(name: string): boolean {
    return this.#targets.get(name)?.ready === true;
  }

  start(): void {
    this.#running = Array.from({ length: clients }, (_, n) => this.#client(n));
  }

  /** Resolves once no request is in flight. */
  async pause(): Promise<void> {
    this.#isPaused = true;
    while (this.#active > 0) await pauseMs(5);
  }

  resume(): void {
    this.#isPaused = false;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all([...this.#running, this.#probing]);
    await this.#dispatcher.close();
  }

  async #probe(): Promise<void> {
    while (!this.#isStopped) {
      for (const target of [...this.#targets.values()]) target.ready = await isReady(target.metrics);
      await pauseMs(probeEveryMs);
    }
  }

  async #client(first: number): Promise<void> {
    for (let n = first; !this.#isStopped; n++) {
      const ready = [...this.#targets].filter(([, target]) => target.ready);
      const [name, target] = ready[n % Math.max(ready.length, 1)] ?? [];
      if (this.#isPaused || name === undefined || target === undefined) await pauseMs(10);
      else {
        this.#active++;
        await this.#ask(name, target).finally(() => this.#active--);
        await pauseMs(10);
      }
    }
  }

  async #ask(name: string, { api }: Target): Promise<void> {
    const body = {
      model: 'echo-small',
      stream: this.completed % 2 === 0,
      messages: [{ role: 'user', content: 'hi' }],
    };
    try {
      const { statusCode, body: answer } = await request(`${api}/chat/completions`, {
        method: 'POST',
        dispatcher: this.#dispatcher,
        headers: { authorization: `Bearer ${this.key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      const text = await answer.text();
      if (statusCode === 200) this.completed++;
      else this.failures.push(`${name}: ${statusCode} ${text.slice(0, 200)}`);
    } catch (error) {
      this.failures.push(`${name}: ${String(error)}`);
    }
  }
}

async function isReady(metrics: string): Promise<boolean> {
  try {
    const response = await fetch(`${metrics}/readyz`, { signal: AbortSignal.timeout(1000) });
    await response.text();
    return response.status === 200;
  } catch {
    return false;
  }
}

function pauseMs(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
