/** An inference server as the claims see it: what it is, what it can, and how it is brought up and made to fail. */
import type { Dialect } from '../../schemas/names.ts';

export interface Engine {
  readonly dialect: Dialect;
  /** The model that chats, by the name that the engine serves. */
  readonly model: string;
  /** The model that embeds. */
  readonly embeddingModel: string;
  /** Tokens that the chat model holds; the engine reports them unless `reportsWindow` is false. */
  readonly windowTokens: number;
  readonly reportsWindow: boolean;
  /** On SIGTERM it ends once its streams are done. */
  readonly finishesOnSigterm: boolean;
  /** Claims that do not hold for this engine, and why. */
  readonly skips: Readonly<Record<string, string>>;
  /** Starts servers in the folder, and waits until they serve. */
  start(dir: string): Promise<RunningEngine>;
}

export interface RunningEngine {
  /** The server of the chat model. */
  readonly url: string;
  /** The server of the embedding model, where that is another. */
  readonly embeddingUrl: string | undefined;
  /** Requests that the chat server works on now; undefined where it has no gauge. */
  readonly busy: (() => Promise<number>) | undefined;
  /** kill -9 to the chat server and its helpers. */
  kill(): Promise<void>;
  /** SIGTERM to the chat server; resolves at once. */
  terminate(): void;
  /** Resolves once the chat server has ended. */
  ended(): Promise<void>;
  /** Starts the chat server again at the same address. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}
