/**
 * The machines of a simulated fleet: control planes, gateways and inference servers, each with its ports, data and settings.
 */
import { cpSync, existsSync, mkdirSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { pino } from 'pino';
import { startAgent } from '../../agent/main.ts';
import { startControlPlane } from '../../control-plane/main.ts';
import type { ControlPlaneSettings } from '../../control-plane/settings.ts';
import { startGateway } from '../../data-plane/main.ts';
import { defaultForwardSettings } from '../../data-plane/nodes/forward.ts';
import type { GatewaySettings } from '../../data-plane/settings.ts';
import { logOpener } from '../../shared/log/open-log.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { threads } from '../../shared/runtime/worker-thread.ts';
import { SimNode } from '../../tools/simulator/sim-node.ts';
import type { Journal } from './journal.ts';
import type { Network } from './network.ts';
import { Machine, type Scheduler } from './scheduler.ts';
import { Brokers } from './simulated-log.ts';
import type { NodePlan, NodePlans } from './world.ts';
// Loads these modules in advance, because loading them while events run would take a time that does not depend on the seed.
import '../../control-plane/history/history-thread.ts';
import '../../data-plane/body-worker/worker.ts';
import '../../data-plane/usage/open-usage-worker.ts';
import 'undici';

export const operatorToken = 'operator-token-of-the-simulation';
const gatewayToken = 'gateway-token-of-the-simulation-1';
export const stackDomain = 'stacks.test';
export const sharedHost = 'api.test';

type StartParts = [member: Member, dataDir: string, logger: Logger];

export class Member extends Machine {
  readonly port: number;
  /** Number of starts so far. Each start has a data folder of its own. */
  starts = 0;
  close: (() => Promise<void>) | undefined;
  readonly start: (...parts: StartParts) => Promise<{ close(): Promise<void> }>;

  constructor(name: string, port: number, start: Member['start']) {
    super(name);
    this.port = port;
    this.start = start;
  }
}

/** Is told which prompts the nodes answer, and when. */
export interface Serving {
  began(prompt: string, node: string): void;
  ended(prompt: string): void;
}

export interface FleetOptions {
  readonly scheduler: Scheduler;
  readonly network: Network;
  readonly journal: Journal;
  /** Folder that contains the data of all machines. */
  readonly folder: string;
  readonly gateways: number;
  readonly nodes: NodePlans;
  readonly serving: Serving;
}

export class Fleet {
  readonly controlPlanes: readonly Member[];
  readonly gateways: readonly Member[];
  readonly nodes: readonly Member[];
  readonly agents: readonly Member[];
  /** Each agent's token, keyed by the id of its node. */
  readonly tokens = new Map<string, string>();
  readonly brokers: Brokers;
  readonly #options: FleetOptions;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.brokers = new Brokers(options.scheduler);
    threads.areUsed = false;
    logOpener.open = async (_url, { topic }) => this.brokers.open(topic);
    this.controlPlanes = [1, 2].map(
      (n) => new Member(`control-${n}`, 20_000 + n, (...args) => startControlPlane(planeSettings(...args))),
    );
    const planes = this.controlPlanes.map(({ port }) => `http://127.0.0.1:${port}`);
    this.gateways = Array.from(
      { length: options.gateways },
      (_, n) =>
        new Member(`gateway-${n + 1}`, 21_001 + n, (...args) =>
          startGateway(gatewaySettings(planes, ...args)),
        ),
    );
    this.nodes = Object.entries(options.nodes).map(
      ([id, plan], n) => new Member(id, 22_001 + n, (member) => startNode(member, plan, options.serving)),
    );
    const watched = Object.keys(options.nodes).filter((node) => options.nodes[node]?.hasAgent);
    this.agents = watched.map(
      (node, n) =>
        new Member(`agent-${node}`, 23_001 + n, async ({ port }, _dataDir, logger) => {
          const token = this.tokens.get(node) ?? '';
          const settings = { controlPlanes: planes, node, token, engine: this.nodeUrl(node), logger };
          const listener = { metricsBind: '127.0.0.1', metricsPort: port };
          return startAgent({ ...settings, ...listener, loadsModels: false, drainTimeoutSeconds: 2 });
        }),
    );
  }

  get members(): readonly Member[] {
    return [...this.controlPlanes, ...this.gateways, ...this.nodes, ...this.agents];
  }

  nodeUrl(id: string): string {
    return `http://127.0.0.1:${this.nodes.find(({ name }) => name === id)?.port}`;
  }

  /**
   * Starts a process on its machine's data, and tries again if it fails, as a supervisor does. Resolves once the process is
   * ready.
   */
  async boot(member: Member): Promise<void> {
    while (!(await this.#start(member))) await this.#options.scheduler.sleep(2000);
  }

  #start(member: Member): Promise<boolean> {
    const { scheduler, journal, folder } = this.#options;
    const dataDir = join(folder, member.name, String(++member.starts));
    const before = join(folder, member.name, String(member.starts - 1));
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    // Files that a killed process had open cannot be closed, so the next process works on copies of them.
    if (existsSync(before)) cpSync(before, dataDir, { recursive: true });
    journal.note(member.name, 'start');
    return new Promise((resolve) => {
      const logger = this.#logger(member);
      const begin = async (): Promise<void> => {
        try {
          const started = await member.start(member, dataDir, logger);
          member.close = () => started.close();
        } catch (error) {
          journal.note(member.name, `failed to start: ${error}`);
          this.#end(member);
        }
        const isReady = member.close !== undefined;
        scheduler.after(0, () => resolve(isReady), scheduler.world);
      };
      scheduler.start(member, () => void begin());
    });
  }

  /** Ends a process immediately, as `kill -9` does. */
  kill(member: Member): void {
    this.#options.journal.note(member.name, 'killed');
    this.#end(member);
  }

  #end(member: Member): void {
    if (member.process === undefined) return;
    member.process.isOver = true;
    member.close = undefined;
    this.#options.network.ended(member.process);
  }

  /** Stops a process cleanly, as SIGTERM does. */
  stop(member: Member): Promise<void> {
    const { scheduler, journal } = this.#options;
    const { close, process } = member;
    if (close === undefined || process === undefined) return Promise.resolve();
    journal.note(member.name, 'stop');
    return new Promise((resolve) => {
      const end = async (): Promise<void> => {
        await close();
        this.#end(member);
        scheduler.after(0, resolve, scheduler.world);
      };
      scheduler.after(0, () => void end(), process);
    });
  }

  #logger({ name }: Member): Logger {
    const { journal } = this.#options;
    const write = (line: string): void => journal.log(name, line);
    return pino({ level: 'info', base: null, timestamp: false }, { write });
  }
}

/** Pause between verifications of the snapshot, in ms. With the usual pauses, verification takes a third of a run's time. */
const verifyPauseMs = 20_000;

function settings(...[{ name, port }, dataDir, logger]: StartParts) {
  const listener = { bind: '127.0.0.1', metricsPort: 0, port };
  return { logUrl: 'sqlite:simulated', name, dataDir, logger, gatewayToken, ...listener };
}

function planeSettings(...parts: StartParts): ControlPlaneSettings {
  return { ...settings(...parts), operatorToken, verifyPauseMs };
}

function gatewaySettings(controlPlanes: readonly string[], ...parts: StartParts): GatewaySettings {
  return {
    ...settings(...parts),
    ...{ controlPlanes, hosts: { shared: new Set([sharedHost]), stackDomain }, stackPorts: [] },
    ...{ whenStale: 'fence', connectMs: 2000, forwarding: defaultForwardSettings },
    ...{ drainDelaySeconds: 0, drainTimeoutSeconds: 2, intervals: { verifyPauseMs } },
  };
}

/** An inference server that reports which prompts it answers. */
class ServingNode extends SimNode {
  onPrompt: (prompt: string, response: ServerResponse) => void = () => undefined;

  protected override send(...[plan, request, response]: Parameters<SimNode['send']>): void {
    const prompt = /prompt-\d+\./.exec(JSON.stringify(request?.body ?? ''));
    if (prompt !== null) this.onPrompt(prompt[0], response);
    super.send(plan, request, response);
  }
}

async function startNode({ name, port }: Member, plan: NodePlan, serving: Serving): Promise<SimNode> {
  const { models, tokensPerSecond } = plan;
  const node = new ServingNode({ port, models, tokensPerSecond });
  node.onPrompt = (prompt, response) => {
    serving.began(prompt, name);
    response.once('close', () => serving.ended(prompt));
  };
  await node.open();
  return node;
}
