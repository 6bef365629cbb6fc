/**
 * Polls the engine next to the agent once per second: its kind, health, models and requests in flight. Keeps the latest
 * result. A refused connection or an error response counts as down at once, silence only after three seconds.
 */
import type { Dialect } from '../schemas/names.ts';
import {
  heartbeatIntervalMs,
  heartbeatsMissedMax,
  modelsPerNodeMax,
} from '../schemas/records/node-messages.ts';
import { AskedModels } from '../shared/engines/asked-models.ts';
import { detectDialect } from '../shared/engines/detect.ts';
import { type ProbeResult, probe, provesNothing } from '../shared/engines/probe.ts';
import type { EngineTarget } from './engine-http.ts';
import { readInFlight } from './in-flight.ts';
import { type ModelLoader, modelLoader } from './model-loader.ts';

export interface EngineView {
  readonly up: boolean;
  readonly reason?: string;
  /** Kind of the engine, or undefined until an engine has answered. */
  readonly dialect?: Dialect;
  readonly models: readonly string[];
  readonly windows: Readonly<Record<string, number>>;
  readonly imageModels: readonly string[];
  readonly rerankModels: readonly string[];
  /** Number of requests in flight, or undefined if the engine does not report it. */
  readonly inFlight?: number;
}

export interface Engine {
  readonly view: EngineView;
  /** Loads and unloads models. Undefined if the engine cannot do this or its kind is not known yet. */
  readonly loader: ModelLoader | undefined;
  /** Starts polling. Calls `onChange` whenever the engine goes up or down. Resolves after the first poll. */
  start(onChange: () => void): Promise<void>;
  stop(): Promise<void>;
}

export interface EngineWatchOptions extends EngineTarget {
  /** Folder with adapters for vLLM, one subfolder for each. If absent, no adapters are loaded. */
  readonly loraFolder?: string | undefined;
  /** Time in ms between two polls. Default: 1000. */
  readonly pollMs?: number;
  /** Time in ms without a response after which the engine counts as down. Default: 3000. */
  readonly silenceMsMax?: number;
}

interface PollResult {
  readonly dialect: Dialect;
  readonly probed: ProbeResult;
  readonly inFlight: number | undefined;
  readonly poll: number;
}

const nothing = { models: [], windows: {}, imageModels: [], rerankModels: [] } as const;
/** Time in ms before an engine is asked for its requests in flight again, after it did not report them. */
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
  /** Number of polls so far. Silence is measured in polls, so that a stall of this process counts as one missed poll. */
  #polls = 0;
  /** Number of the latest poll that the engine answered. */
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
      // Polls may overlap, so that a slow response does not delay the next poll.
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
      // Ignores this response if the response to a later poll arrived first.
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

  /** Marks the engine as down and forgets its kind, because another engine may be started at this address. */
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
    const inFlight = await readInFlight(dialect, this.#options);
    if (inFlight === undefined) this.#inFlightNotBeforeMs = nowMs + inFlightRetryMs;
    return inFlight;
  }
}
