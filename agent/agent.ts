/**
 * An agent: watches the engine next to it, keeps its models in sync, and reports on the link to a control plane. It has
 * no listener and no flags, so that many can run in one process.
 */
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
  /** Load the models that the node's place has installed, where the engine can load models. */
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

  /** Resolves once the engine was probed and the link was started, so that the first heartbeat is already true. */
  async start(): Promise<void> {
    await within(
      this.engine.start(() => this.link.sendHeartbeat()),
      firstProbeMsMax,
    );
    if (!this.#stopped) this.link.start();
  }

  /**
   * Takes the node out of service, then waits until its engine has no request in flight, up to a time-out. An engine that
   * does not report its requests in flight is not waited for.
   */
  async drain(timeoutSeconds: number): Promise<void> {
    await this.link.leave();
    if (this.engine.view.inFlight === undefined) return;
    const until = performance.now() + timeoutSeconds * 1000;
    // Requests that were sent before the node left may not be counted yet.
    await sleep(Math.min(2000, timeoutSeconds * 1000));
    while (performance.now() < until && (this.engine.view.inFlight ?? 0) > 0) await sleep(drainPollMs);
  }

  /** Ends at once; the control plane sees a closed socket. */
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
