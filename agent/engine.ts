/**
 * Watches the inference server next to the agent: polls its kind, health, models and requests in flight each second, and
 * keeps the latest result. After a refused connection or an error response it is down at once, without a response after
 * three seconds.
 */
import type { Dialect } from '../schemas/names.ts';
import {
  heartbeatIntervalMs,
  heartbeatsMissedMax,
  modelsPerNodeMax,
} from '../schemas/records/node-messages.ts';
import { AskedModels } from '../shared/engines/asked-models.ts';
import { detectDialect } from '../shared/engines/detect.ts';
import { type Probed, probe, provesNothing } from '../shared/engines/probe.ts';
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
  readonly rerankModels: readonly string[];
  /** undefined where the engine does not report it. */
  readonly inFlight?: number;
}

/** The engine as an agent sees it. */
export interface Engine {
  readonly view: EngineView;
  /** Loads and unloads models; undefined where the engine cannot, or its kind is not known yet. */
  readonly loader: ModelLoader | undefined;
  /** Calls `onChange` when it goes up or down, until it is stopped. Resolves after the first poll. */
  start(onChange: () => void): Promise<void>;
  stop(): Promise<void>;
}

export interface EngineWatchOptions extends EngineTarget {
  /** The folder of vLLM's adapters, by name; without it none are loaded. */
  readonly loraFolder?: string | undefined;
  /** Between two polls; a second unless it is given. */
  readonly pollMs?: number;
  /** Without a response for so long it is down; three seconds unless it is given. */
  readonly silenceMsMax?: number;
}

interface PollResult {
  readonly dialect: Dialect;
  readonly probed: Probed;
  readonly inFlight: number | undefined;
  /** Number of the poll. */
  readonly poll: number;
}

const nothing = { models: [], windows: {}, imageModels: [], rerankModels: [] } as const;
/** An engine that did not report its requests in flight is polled for them again after this. */
const inFlightRetryMs = 30_000;

export class EngineWatch implements Engine {
  readonly #options: EngineWatchOptions;
  readonly #silenceMsMax: number;
  readonly #pollMs: number;
  readonly #stopped = new AbortController();
  #onChange: () => void = () => undefined;
  #view: EngineView = { up: false, reason: 'no inference server has answered', ...nothing };
  readonly #asked = new AskedModels();
  #timer: NodeJS.Timeout | undefined;
  #pendingPolls = 0;
  #detecting = false;
  /** Counted, because a stall of this process is one poll, and what it answered meanwhile is read after it. */
  #polls = 0;
  /** The latest poll that was answered. */
  #answeredPoll = -1;
  #inFlightNotBeforeMs = 0;
  #loader: ModelLoader | undefined;

  constructor(options: EngineWatchOptions) {
    this.#options = options;
    this.#silenceMsMax = options.silenceMsMax ?? heartbeatIntervalMs * heartbeatsMissedMax;
    this.#pollMs = options.pollMs ?? heartbeatIntervalMs;
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
    if (this.#stopped.signal.aborted) return;
    this.#timer = setInterval(() => this.#tick(), this.#pollMs);
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    clearInterval(this.#timer);
  }

  #tick(): void {
    this.#polls++;
    const silentMs = (this.#polls - this.#answeredPoll) * this.#pollMs;
    if (this.#view.up && silentMs >= this.#silenceMsMax) this.#down('no answer in time');
    const { dialect } = this.#view;
    if (dialect === undefined) {
      if (!this.#detecting) this.#detect().catch(() => undefined);
    } else if (this.#pendingPolls < heartbeatsMissedMax) {
      // Polls overlap: a slow response does not delay the next poll.
      this.#poll(dialect).catch(() => undefined);
    }
  }

  async #detect(): Promise<void> {
    this.#detecting = true;
    const { url, credential } = this.#options;
    const dialect = await detectDialect(url, credential);
    this.#detecting = false;
    if (dialect === undefined || this.#stopped.signal.aborted) return;
    this.#view = { ...this.#view, dialect };
    this.#inFlightNotBeforeMs = 0;
    this.#loader = modelLoader(dialect, this.#options);
    await this.#poll(dialect);
  }

  async #poll(dialect: Dialect): Promise<void> {
    const poll = this.#polls;
    this.#pendingPolls++;
    try {
      const [probed, inFlight] = await Promise.all([
        probe({ ...this.#options, dialect }, this.#asked, this.#silenceMsMax),
        this.#pollInFlight(dialect, performance.now()),
      ]);
      // The response to a later poll may have arrived first.
      if (!this.#stopped.signal.aborted && poll > this.#answeredPoll)
        this.#apply({ dialect, probed, inFlight, poll });
    } finally {
      this.#pendingPolls--;
    }
  }

  #apply({ dialect, probed, inFlight, poll }: PollResult): void {
    if (probed.up) {
      this.#answeredPoll = poll;
      const models = [...new Set(probed.models)].slice(0, modelsPerNodeMax);
      const { windows } = probed;
      const imageModels = [...new Set(probed.imageModels)];
      const rerankModels = [...new Set(probed.rerankModels)];
      const busy = inFlight !== undefined && { inFlight };
      this.#replace({ up: true, dialect, models, windows, imageModels, rerankModels, ...busy });
    } else if (provesNothing(probed)) {
      this.#answeredPoll = poll;
    } else if (!probed.silent) {
      this.#answeredPoll = poll;
      this.#down(probed.reason);
    }
  }

  /** Drops the dialect, because another engine may be started at the address: it is detected again. */
  #down(reason: string): void {
    this.#replace({ up: false, reason, ...nothing });
  }

  #replace(view: EngineView): void {
    const changed = view.up !== this.#view.up;
    this.#view = view;
    if (changed) this.#onChange();
  }

  async #pollInFlight(dialect: Dialect, nowMs: number): Promise<number | undefined> {
    if (nowMs < this.#inFlightNotBeforeMs) return undefined;
    const inFlight = await inFlightOf(dialect, this.#options);
    if (inFlight === undefined) this.#inFlightNotBeforeMs = nowMs + inFlightRetryMs;
    return inFlight;
  }
}
