/** Sets up the fleet of `headgate dev`, over simulated or the user's own servers. A second start continues with it. */
import { join } from 'node:path';
import { NodeAgent } from '../../agent/agent.ts';
import { EngineWatch } from '../../agent/engine.ts';
import { usingOption } from '../../cli/processes/options.ts';
import { fleetFileBytesMax, parseFleet } from '../../cli/terminal/fleet-file.ts';
import { type Fleet, fleetSchema } from '../../schemas/events/fleet.ts';
import { baseUrl, detectEngine } from '../../shared/engines/detect.ts';
import { createLogger } from '../../shared/runtime/logger.ts';
import { textOfNamed } from '../../shared/runtime/named-file.ts';
import { type SimNode, startSimNode } from '../simulator/sim-node.ts';
import { type DemoNodeId, demoFleet, demoNodes, engineFleet } from './demo-fleet.ts';
import type { DevAdmin } from './dev-admin.ts';
import { nodeTokens } from './dev-secrets.ts';

export interface DevFleetOptions {
  /** A fleet file to apply instead of the demo fleet. */
  readonly fleetFile?: string | undefined;
  /** Inference servers for the pool, instead of simulated nodes. */
  readonly engines: readonly string[];
  readonly demo: boolean;
  /** Port of the first simulated node; 0 gives each a free port. */
  readonly firstPort: number;
  /** Base URL of the control plane. */
  readonly controlPlane: string;
  readonly dataDir: string;
}

export interface DevFleet {
  /** Models of the pool, used in the printed commands. */
  readonly models: readonly string[];
  close(): Promise<void>;
}

/** Starts the nodes and agents that the fleet needs, and applies the fleet. */
export async function bringUpFleet(admin: DevAdmin, options: DevFleetOptions): Promise<DevFleet> {
  if (options.fleetFile !== undefined) {
    const { fleetFile } = options;
    await admin.applyOwn(usingOption('--fleet', () => parseFleetFile(fleetFile)));
    return nothingToClose;
  }
  if (options.engines.length > 0) return bringUpEngines(admin, options.engines);
  if (!options.demo) return nothingToClose;
  const simulated = await startSimulated(options.firstPort);
  const urls = Object.fromEntries(simulated.map(({ id, node }) => [id, node.url])) as Record<
    DemoNodeId,
    string
  >;
  const before = await admin.exportFleet();
  const exists = before.organisations?.length;
  await admin.applyOwn(exists ? withUrls(before, urls) : demoFleet(urls, true));
  const agents = await startAgents(admin, urls, options);
  return {
    models: (exists && before.pool?.models) || demoNodes[0].models,
    close: async () => {
      await Promise.all(agents.map((agent) => agent.stop()));
      await Promise.all(simulated.map(({ node }) => node.close()));
    },
  };
}

const nothingToClose: DevFleet = { models: [], close: async () => undefined };

/** Adds the user's inference servers. Also removes nodes of an earlier start that no longer run. */
async function bringUpEngines(admin: DevAdmin, addresses: readonly string[]): Promise<DevFleet> {
  const engines = await Promise.all(
    addresses.map(async (url) => ({ url: baseUrl(url), engine: await detectEngine(url) })),
  );
  const fleet = engineFleet(engines);
  await admin.applyOwn(fleet);
  const kept = new Set(fleet.pool?.nodes?.map(({ id }) => id));
  const simulated = new Set<string>(demoNodes.map(({ id }) => id));
  for (const { id } of await admin.nodes())
    if (!kept.has(id) && (simulated.has(id) || /^engine-\d+$/.test(id)))
      await admin.call('DELETE', `/nodes/${id}?force=true`);
  return { ...nothingToClose, models: fleet.pool?.models ?? [] };
}

async function startSimulated(firstPort: number): Promise<{ id: DemoNodeId; node: SimNode }[]> {
  return Promise.all(
    demoNodes.map(async ({ id, models }, index) => {
      const preferred = firstPort === 0 ? 0 : firstPort + index;
      // If the port is in use, any other will do, because only this fleet uses it.
      const node = await startSimNode({ models, port: preferred }).catch(() =>
        startSimNode({ models, port: 0 }),
      );
      return { id, node };
    }),
  );
}

/** Keeps the operator's changes and updates only the URLs of the simulated nodes. */
function withUrls(fleet: Fleet, urls: Readonly<Record<string, string>>): Fleet {
  return fleetSchema.parse(
    JSON.parse(JSON.stringify(fleet), (_name, value: unknown) => {
      if (typeof value !== 'object' || value === null || !('id' in value) || !('url' in value)) return value;
      const url = urls[String(value.id)];
      return url === undefined ? value : { ...value, url };
    }),
  );
}

/** Starts an agent for each simulated node that is registered with one; an operator may have changed that. */
async function startAgents(
  admin: DevAdmin,
  urls: Readonly<Record<string, string>>,
  { controlPlane, dataDir }: DevFleetOptions,
): Promise<NodeAgent[]> {
  const nodes = (await admin.nodes()).filter(({ id, agent }) => agent && urls[id] !== undefined);
  const tokens = await nodeTokens(
    admin,
    join(dataDir, 'node-tokens.json'),
    nodes.map(({ id }) => id),
  );
  return Promise.all(
    nodes.map(async ({ id: node, url }) => {
      const agent = new NodeAgent({
        controlPlanes: [controlPlane],
        node,
        token: tokens[node] ?? '',
        // The control plane stops first, so warnings about it would end every session.
        logger: createLogger('dev', 'error'),
        engine: new EngineWatch({ url }),
        loadsModels: true,
      });
      await agent.start();
      return agent;
    }),
  );
}

/** Parses a fleet file. Throws an error whose message lists every fault as FILE:LINE:COL. */
function parseFleetFile(path: string): Fleet {
  const parsed = parseFleet(textOfNamed(path, 2 * fleetFileBytesMax), path);
  if ('fleet' in parsed) return parsed.fleet;
  const faults = parsed.faults.map(({ line, column, message }) => `${path}:${line}:${column} ${message}`);
  throw new Error(`the fleet file is invalid\n${faults.join('\n')}`);
}
