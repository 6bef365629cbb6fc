/** Sets up the fleet of `headgate dev`, over simulated nodes or the user's own servers. A later start reuses the fleet. */
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
  /** Path of a fleet file to apply instead of the demo fleet. */
  readonly fleetFile?: string | undefined;
  /** URLs of inference servers that form the pool instead of simulated nodes. */
  readonly engines: readonly string[];
  readonly demo: boolean;
  /** Port of the first simulated node. With 0, each node gets a free port. */
  readonly firstPort: number;
  readonly controlPlane: string;
  readonly dataDir: string;
}

export interface DevFleet {
  /** Names of the pool's models, for use in the printed commands. */
  readonly models: readonly string[];
  close(): Promise<void>;
}

/** Starts the nodes and agents that the fleet needs, and applies the fleet file. */
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

/** Adds the user's inference servers, and removes nodes from an earlier start that are no longer running. */
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
      // If the port is in use, any free port will do, because only this fleet uses it.
      const node = await startSimNode({ models, port: preferred }).catch(() =>
        startSimNode({ models, port: 0 }),
      );
      return { id, node };
    }),
  );
}

/** Replaces only the URLs of the simulated nodes, so that changes by the operator are kept. */
function withUrls(fleet: Fleet, urls: Readonly<Record<string, string>>): Fleet {
  return fleetSchema.parse(
    JSON.parse(JSON.stringify(fleet), (_name, value: unknown) => {
      if (typeof value !== 'object' || value === null || !('id' in value) || !('url' in value)) return value;
      const url = urls[String(value.id)];
      return url === undefined ? value : { ...value, url };
    }),
  );
}

/** Starts agents for the simulated nodes that are still registered with one. Operators may have changed registrations. */
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
        // Only errors are logged, because at the end of each session, agents would warn that the control plane is gone.
        logger: createLogger('dev', 'error'),
        engine: new EngineWatch({ url }),
        loadsModels: true,
      });
      await agent.start();
      return agent;
    }),
  );
}

/** Parses a fleet file. Throws an error whose message lists every fault in the form FILE:LINE:COL. */
function parseFleetFile(path: string): Fleet {
  const parsed = parseFleet(textOfNamed(path, 2 * fleetFileBytesMax), path);
  if ('fleet' in parsed) return parsed.fleet;
  const faults = parsed.faults.map(({ line, column, message }) => `${path}:${line}:${column} ${message}`);
  throw new Error(`the fleet file is invalid\n${faults.join('\n')}`);
}
