/**
 * An agent: the engine beside it, the models it should have, and the link on which that is told. Knows no listener and
 * no flags, so that many may run in one process.
 */
import type { Beat } from '../schemas/node-messages.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { sleep } from '../shared/runtime/retry.ts';
import type { Engine } from './engine.ts';
import { ControlPlaneLink } from './link.ts';
import { Loads } from './loads.ts';

export interface NodeAgentOptions {
  readonly controlPlanes: readonly string[];
  readonly node: string;
  readonly token: string;
  readonly engine: Engine;
  /** Load what the node's place has installed, where the engine takes models. */
  readonly loadsModels: boolean;
  readonly logger: Logger;
}

const drainLookMs = 200;
const firstLookMsMax = 3000;

export class NodeAgent {
  readonly engine: Engine;
  readonly link: ControlPlaneLink;
  readonly #loads: Loads | undefined;
  #stopped = false;

  constructor({ controlPlanes, node, token, engine, loadsModels, logger }: NodeAgentOptions) {
    this.engine = engine;
    const loads = loadsModels ? new Loads({ engine, logger }) : undefined;
    this.#loads = loads;
    this.link = new ControlPlaneLink({
      ...{ controlPlanes, node, token, logger },
      beat: () => this.#beat(),
      onInstalls: (position, models) => loads?.want(position, models),
    });
  }

  /** Resolves once it has looked at its engine and set out for a control plane: what it tells first is already true. */
  async start(): Promise<void> {
    await Promise.race([this.engine.start(() => this.link.beatNow()), sleep(firstLookMsMax)]);
    if (!this.#stopped) this.link.start();
  }

  /**
   * Lets the node be taken out of service, then waits until its engine works on nothing, at most so long. An engine that
   * does not tell how busy it is, is not waited for.
   */
  async drain(timeoutSeconds: number): Promise<void> {
    await this.link.leave();
    if (this.engine.view.inFlight === undefined) return;
    const until = performance.now() + timeoutSeconds * 1000;
    // What the engine told before it was left may be the last it had.
    await sleep(Math.min(2000, timeoutSeconds * 1000));
    while (performance.now() < until && (this.engine.view.inFlight ?? 0) > 0) await sleep(drainLookMs);
  }

  /** Ends at once; the control plane sees a closed socket. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.link.stop();
    await this.#loads?.stop();
    await this.engine.stop();
  }

  #beat(): Beat {
    this.#loads?.consider();
    const { up, reason, dialect, models, windows, imageModels, inFlight } = this.engine.view;
    const installs = this.#loads?.states() ?? [];
    return {
      type: 'beat',
      up,
      models: [...models],
      windows,
      ...(imageModels.length > 0 && { imageModels: [...imageModels] }),
      ...(reason !== undefined && { reason }),
      ...(dialect !== undefined && { dialect }),
      ...(inFlight !== undefined && { inFlight }),
      ...(installs.length > 0 && { installs: [...installs] }),
    };
  }
}
