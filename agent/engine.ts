/**
 * Watches the inference server beside the agent: asks it each second what it is, whether it is well, what it serves and
 * how busy it is, and keeps the latest answer. A refused connection or a bad answer is a down at once; an engine that only
 * gives no answer has three seconds.
 */
import type { Dialect } from '../schemas/names.ts';
import { beatIntervalMs, beatsMissedMax, modelsPerNodeMax } from '../schemas/node-messages.ts';
import { detectDialect } from '../shared/engines/detect.ts';
import { ImageModels } from '../shared/engines/image-models.ts';
import { type Probed, probe } from '../shared/engines/probe.ts';
import type { EngineTarget } from './engine-http.ts';
import { inFlightOf } from './in-flight.ts';
import { type ModelLoader, modelLoader } from './model-loader.ts';

export interface EngineView {
  readonly up: boolean;
  /** Why it is down. */
  readonly reason?: string;
  /** undefined until an engine has answered. */
  readonly dialect?: Dialect;
  readonly models: readonly string[];
  readonly windows: Readonly<Record<string, number>>;
  readonly imageModels: readonly string[];
  /** undefined where the engine does not tell. */
  readonly inFlight?: number;
}

/** What an agent asks of the engine beside it. */
export interface Engine {
  readonly view: EngineView;
  /** How models get into it; undefined where that is not known, or it takes none. */
  readonly loader: ModelLoader | undefined;
  /** Calls `onChange` when it goes up or down, until it is stopped. Resolves once there is a first answer, or none. */
  start(onChange: () => void): Promise<void>;
  stop(): Promise<void>;
}

export interface EngineWatchOptions extends EngineTarget {
  /** Folder in which vLLM finds adapters by their names; none: it loads none. */
  readonly loraFolder?: string | undefined;
}

interface Answered {
  readonly dialect: Dialect;
  readonly answer: Probed;
  readonly inFlight: number | undefined;
  readonly askedMs: number;
}

const nothing = { models: [], windows: {}, imageModels: [] } as const;
const silenceMsMax = beatIntervalMs * beatsMissedMax;
/** An engine that does not tell how busy it is, is asked again after this. */
const askBusyAgainMs = 30_000;

export class EngineWatch implements Engine {
  readonly #options: EngineWatchOptions;
  readonly #stopped = new AbortController();
  #onChange: () => void = () => undefined;
  #view: EngineView = { up: false, reason: 'no inference server has answered', ...nothing };
  readonly #imageModels = new ImageModels();
  #timer: NodeJS.Timeout | undefined;
  #asking = 0;
  #detecting = false;
  #answeredMs = Number.NEGATIVE_INFINITY;
  #busyNotBeforeMs = 0;
  #loader: ModelLoader | undefined;

  constructor(options: EngineWatchOptions) {
    this.#options = options;
  }

  get view(): EngineView {
    return this.#view;
  }

  get loader(): ModelLoader | undefined {
    return this.#loader;
  }

  async start(onChange: () => void): Promise<void> {
    this.#onChange = onChange;
    await this.#detect();
    if (!this.#stopped.signal.aborted) this.#timer = setInterval(() => this.#tick(), beatIntervalMs);
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    clearInterval(this.#timer);
  }

  #tick(): void {
    const nowMs = performance.now();
    if (this.#view.up && nowMs - this.#answeredMs > silenceMsMax) this.#down('no answer in time');
    const { dialect } = this.#view;
    if (dialect === undefined) {
      if (!this.#detecting) this.#detect().catch(() => undefined);
    } else if (this.#asking < beatsMissedMax) {
      // A slow answer does not keep the next question back: each is a sign of life of its own.
      this.#ask(dialect, nowMs).catch(() => undefined);
    }
  }

  async #detect(): Promise<void> {
    this.#detecting = true;
    const { url, credential } = this.#options;
    const dialect = await detectDialect(url, credential);
    this.#detecting = false;
    if (dialect === undefined || this.#stopped.signal.aborted) return;
    this.#view = { ...this.#view, dialect };
    this.#busyNotBeforeMs = 0;
    this.#loader = modelLoader(dialect, this.#options);
    await this.#ask(dialect, performance.now());
  }

  async #ask(dialect: Dialect, askedMs: number): Promise<void> {
    this.#asking++;
    try {
      const [answer, inFlight] = await Promise.all([
        probe({ ...this.#options, dialect }, this.#imageModels, silenceMsMax),
        this.#busy(dialect, askedMs),
      ]);
      // A later question may have been answered first.
      if (!this.#stopped.signal.aborted && askedMs > this.#answeredMs)
        this.#take({ dialect, answer, inFlight, askedMs });
    } finally {
      this.#asking--;
    }
  }

  #take({ dialect, answer, inFlight, askedMs }: Answered): void {
    if (answer.up) {
      this.#answeredMs = askedMs;
      const models = [...new Set(answer.models)].slice(0, modelsPerNodeMax);
      const { windows } = answer;
      const imageModels = [...new Set(answer.imageModels)];
      const busy = inFlight !== undefined && { inFlight };
      this.#replace({ up: true, dialect, models, windows, imageModels, ...busy });
    } else if (!answer.silent) {
      this.#answeredMs = askedMs;
      this.#down(answer.reason);
    }
  }

  /** What stands at the address may be replaced by something else, so it is found anew once it is down. */
  #down(reason: string): void {
    this.#replace({ up: false, reason, ...nothing });
  }

  #replace(view: EngineView): void {
    const changed = view.up !== this.#view.up;
    this.#view = view;
    if (changed) this.#onChange();
  }

  async #busy(dialect: Dialect, nowMs: number): Promise<number | undefined> {
    if (nowMs < this.#busyNotBeforeMs) return undefined;
    const inFlight = await inFlightOf(dialect, this.#options);
    if (inFlight === undefined) this.#busyNotBeforeMs = nowMs + askBusyAgainMs;
    return inFlight;
  }
}
