/**
 * What `headgate dev` brings besides the service: simulated nodes or somebody's own engines, the demo fleet, and a key
 * for each of its organisations. A second start on the same folder goes on from what is there.
 */
import { existsSync, readFileSync } from 'node:fs';
import { type SimNode, startSimNode } from '../../node/sim-node.ts';
import { type Fleet, fleetSchema } from '../../schemas/fleet.ts';
import { detectEngine } from '../../shared/dialect/detect.ts';
import { writeJsonAtomically } from '../../shared/process/ready-file.ts';
import { type DemoNodeId, demoFleet, demoNodes, engineFleet } from './demo-fleet.ts';
import type { DevAdmin } from './dev-admin.ts';
import { parseFleetFile } from './fleet-source.ts';

export interface DevFleetOptions {
  /** A fleet file to apply in place of the demo's. */
  readonly fleetFile?: string | undefined;
  /** Engines to put into the pool in place of simulated nodes. */
  readonly engines: readonly string[];
  readonly demo: boolean;
  /** 0: every simulated node takes a free port. */
  readonly firstPort: number;
}

export interface DevFleet {
  readonly nodes: readonly { readonly id: string; readonly url: string }[];
  close(): Promise<void>;
}

/** Starts what the fleet needs and applies it. */
export async function bringUpFleet(admin: DevAdmin, options: DevFleetOptions): Promise<DevFleet> {
  if (options.fleetFile !== undefined) {
    await admin.apply(parseFleetFile(options.fleetFile));
    return { nodes: [], close: async () => undefined };
  }
  if (options.engines.length > 0) {
    const engines = await Promise.all(
      options.engines.map(async (url) => ({ url: baseOf(url), engine: await detectEngine(url) })),
    );
    await admin.apply(engineFleet(engines));
    return {
      nodes: engines.map(({ url }, index) => ({ id: `engine-${index + 1}`, url })),
      close: async () => undefined,
    };
  }
  if (!options.demo) return { nodes: [], close: async () => undefined };
  const simulated = await startSimulated(options.firstPort);
  const urls = Object.fromEntries(simulated.map(({ id, node }) => [id, node.url])) as Record<
    DemoNodeId,
    string
  >;
  const before = await admin.exportFleet();
  await admin.apply(before.organisations?.length ? withUrls(before, urls) : demoFleet(urls));
  return {
    nodes: simulated.map(({ id, node }) => ({ id, url: node.url })),
    close: async () => {
      await Promise.all(simulated.map(({ node }) => node.close()));
    },
  };
}

async function startSimulated(firstPort: number): Promise<{ id: DemoNodeId; node: SimNode }[]> {
  return Promise.all(
    demoNodes.map(async ({ id, models }, index) => {
      const wanted = firstPort === 0 ? 0 : firstPort + index;
      // A taken port is no reason to fail: nobody but the fleet needs to know it.
      const node = await startSimNode({ models, port: wanted }).catch(() =>
        startSimNode({ models, port: 0 }),
      );
      return { id, node };
    }),
  );
}

/** What an operator changed stays; only where the simulated nodes listen now is brought in. */
function withUrls(fleet: Fleet, urls: Readonly<Record<string, string>>): Fleet {
  return fleetSchema.parse(
    JSON.parse(JSON.stringify(fleet), (_name, value: unknown) => {
      if (typeof value !== 'object' || value === null || !('id' in value) || !('url' in value)) return value;
      const url = urls[String(value.id)];
      return url === undefined ? value : { ...value, url };
    }),
  );
}

function baseOf(url: string): string {
  return url.replace(/\/(v1\/?)?$/, '');
}

interface StoredKey {
  readonly id: string;
  readonly value: string;
}

/** One key an organisation, made at the first start; kept in a file of the data folder, because a key is shown once. */
export async function demoKeys(admin: DevAdmin, path: string): Promise<Record<string, string>> {
  const stored: Record<string, StoredKey> = existsSync(path)
    ? (JSON.parse(readFileSync(path, 'utf8')) as Record<string, StoredKey>)
    : {};
  const active = new Set(await admin.activeKeys());
  const kept: Record<string, StoredKey> = {};
  for (const organisation of await admin.organisations()) {
    const before = stored[organisation.id];
    kept[organisation.id] =
      before && active.has(before.id)
        ? before
        : await admin.createKey(organisation.id, 'made by headgate dev');
  }
  writeJsonAtomically(path, kept);
  return Object.fromEntries(Object.entries(kept).map(([organisation, { value }]) => [organisation, value]));
}
