/** Agent for one node: watches the engine, syncs its models, and reports to a control plane. A process can run several. */
import type { Beat } from '../schemas/records/node-messages.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { sleep, within } from '../shared/runtime/retry.ts';
import type { Engine } from './engine.ts';
import { ControlPlaneLink } from './link.ts';
import { ModelSync } from './model-sync.ts';

export interface NodeAgentOptions {
  readonly controlPlanes: readonly string[];
  readonly node: string;
  readonly token: string;
  readonly engine: Engine;
  /** Whether to make the engine load the models installed at the node's place. Ignored if the engine cannot do so. */
  readonly loadsModels: boolean;
  readonly logger: Logger;
}

const drainPollMs = 200;
const firstProbeMsMax = 3000;

export class NodeAgent {
  readonly engine: Engine;
  readonly link: ControlPlaneLink;
  readonly #models: ModelSync | undefined;
  #stopped = false;

  constructor({ controlPlanes, node, token, engine, loadsModels, logger }: NodeAgentOptions) {
    this.engine = engine;
    const models = loadsModels ? new ModelSync({ engine, logger }) : undefined;
    this.#models = models;
    this.link = new ControlPlaneLink({
      controlPlanes,
      node,
      token,
      logger,
      heartbeat: () => this.#heartbeat(),
      onInstalls: (position, installed) => models?.setDesired(position, installed),
    });
  }

  /** Starts the engine watch, then the link. Resolves after the first probe, so that the first heartbeat is correct. */
  async start(): Promise<void> {
    await within(
      this.engine.start(() => this.link.sendHeartbeat()),
      firstProbeMsMax,
    );
    if (!this.#stopped) this.link.start();
  }

  /** Takes the node out of service, then waits until no request is in flight, for at most `timeoutSeconds`. */
  async drain(timeoutSeconds: number): Promise<void> {
    await this.link.leave();
    if (this.engine.view.inFlight === undefined) return;
    const until = performance.now() + timeoutSeconds * 1000;
    // Requests sent just before the node left may not appear in the engine's count yet, so wait before reading it.
    await sleep(Math.min(2000, timeoutSeconds * 1000));
    while (performance.now() < until && (this.engine.view.inFlight ?? 0) > 0) await sleep(drainPollMs);
  }

  /** Stops immediately, without telling the control plane, which sees only that the socket is closed. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.link.stop();
    await this.#models?.stop();
    await this.engine.stop();
  }

  #heartbeat(): Beat {
    this.#models?.reconcile();
    const { up, reason, dialect, models, windows, imageModels, rerankModels, inFlight } = this.engine.view;
    const installs = this.#models?.states() ?? [];
    return {
      type: 'beat',
      up,
      models: [...models],
      windows,
      ...(imageModels.length > 0 && { imageModels: [...imageModels] }),
      ...(rerankModels.length > 0 && { rerankModels: [...rerankModels] }),
      ...(reason !== undefined && { reason }),
      ...(dialect !== undefined && { dialect }),
      ...(inFlight !== undefined && { inFlight }),
      ...(installs.length > 0 && { installs: [...installs] }),
    };
  }
}
