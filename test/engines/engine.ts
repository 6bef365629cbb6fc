/** An inference server as the claims see it: its identity, its abilities, and how to start it and make it fail. */
import type { Dialect } from '../../schemas/names.ts';

export interface Engine {
  readonly dialect: Dialect;
  /** Name under which the engine serves the chat model. */
  readonly model: string;
  /** Name under which the engine serves the embedding model. */
  readonly embeddingModel: string;
  /** Context window of the chat model in tokens. The engine reports it unless `reportsWindow` is false. */
  readonly windowTokens: number;
  readonly reportsWindow: boolean;
  readonly finishesOnSigterm: boolean;
  /** Reasons for the claims that this engine cannot fulfil, keyed by the claim's name. */
  readonly skips: Readonly<Record<string, string>>;
  start(dir: string): Promise<RunningEngine>;
}

export interface RunningEngine {
  readonly url: string;
  /** URL of the embedding server, if there is a separate one. */
  readonly embeddingUrl: string | undefined;
  /** Returns the number of requests that the chat server is processing. Undefined if the engine has no such gauge. */
  readonly busy: (() => Promise<number>) | undefined;
  /** Kills the chat server and its helpers with kill -9. */
  kill(): Promise<void>;
  /** Sends SIGTERM to the chat server and does not wait. */
  terminate(): void;
  ended(): Promise<void>;
  /** Restarts the chat server at the same address. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}
