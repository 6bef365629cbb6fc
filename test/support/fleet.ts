/**
 * A small but complete fleet in one process, on an embedded log in a folder of its own: a control plane, gateways and
 * simulated nodes. HTTP, SQLite files and ports are real. `settle` waits until all gateways have applied the last command.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { type ControlPlane, startControlPlane } from '../../control-plane/main.ts';
import type { ControlPlaneSettings } from '../../control-plane/settings.ts';
import { type RunningGateway, startGateway } from '../../data-plane/main.ts';
import { defaultForwardSettings } from '../../data-plane/nodes/forward.ts';
import type { GatewaySettings } from '../../data-plane/settings.ts';
import type { SnapshotIntervals } from '../../data-plane/snapshot/intervals.ts';
import type { Fleet } from '../../schemas/events/fleet.ts';
import type { ExpiryChoice } from '../../schemas/names.ts';
import { type DemoNodeId, demoFleet, demoNodes } from '../../tools/dev/demo-fleet.ts';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { type FaultyNode, startFaultyNode } from '../simulator/faulty-node.ts';
import { operatorToken } from './ask-admin.ts';

/** Logger that is silent unless HEADGATE_LOG_LEVEL is set. */
export const quiet = pino({ level: process.env['HEADGATE_LOG_LEVEL'] ?? 'silent' });
export { operatorToken };

/** Short pauses for tests of snapshot recovery. Production uses longer ones. */
export const quickRecovery: Partial<SnapshotIntervals> = {
  verifyPauseMs: 50,
  rebuildPauseMs: 20,
  rebuildPauseMsMax: 100,
  retryPauseMs: 20,
  retryPauseMsMax: 100,
  downloadSpreadMs: 0,
};

/** Settings of a test control plane, whose data is in a subfolder of `dir`. */
export function planeSettings(dir: string, logUrl: string): ControlPlaneSettings {
  return {
    ...{ logUrl, name: 'control-plane-1', dataDir: join(dir, 'control-plane'), logger: quiet },
    ...{ bind: '127.0.0.1', port: 0, metricsPort: 0, operatorToken, gatewayToken: operatorToken },
  };
}

/** Settings of a test gateway that does not ask a control plane for snapshots. */
export function gatewayAlone(dir: string, logUrl: string, name = 'gateway-1'): GatewaySettings {
  return {
    ...{ logUrl, name, dataDir: join(dir, name), logger: quiet },
    ...{ bind: '127.0.0.1', port: 0, metricsPort: 0, gatewayToken: operatorToken },
    hosts: { shared: new Set(['127.0.0.1', 'localhost']), stackDomain: 'stacks.test' },
    ...{ stackPorts: [], whenStale: 'fence', controlPlanes: [], connectMs: 2000 },
    ...{ forwarding: defaultForwardSettings, drainDelaySeconds: 0, drainTimeoutSeconds: 2 },
  };
}

/** Addresses for the demo's nodes. Nothing listens on them. */
export const nobodyThere = new Proxy({}, { get: () => 'http://127.0.0.1:9' }) as Record<DemoNodeId, string>;

export interface TestFleetOptions {
  /** Builds the fleet file from the addresses of the simulated nodes. Defaults to the demo's fleet. */
  readonly fleet?: (urls: Readonly<Record<DemoNodeId, string>>) => Fleet;
  readonly gateways?: number;
  readonly gateway?: Partial<GatewaySettings>;
  readonly controlPlane?: Partial<ControlPlaneSettings>;
  readonly nodeIntervals?: ControlPlaneSettings['nodeIntervals'];
  readonly tokensPerSecond?: number;
  readonly recordBodies?: boolean;
}

export interface TestFleet {
  readonly admin: DevAdmin;
  readonly controlPlane: ControlPlane;
  readonly gateways: readonly RunningGateway[];
  readonly nodes: Readonly<Record<DemoNodeId, FaultyNode>>;
  readonly dir: string;
  readonly logUrl: string;
  gatewaySettings(gateway: number): GatewaySettings;
  port(gateway?: number): number;
  /** Creates a key and waits until every gateway knows it. */
  key(organisation: string, expires?: ExpiryChoice): Promise<{ id: string; value: string }>;
  /** Waits until every gateway has applied all commands so far. */
  settle(): Promise<void>;
  /** Waits until the control plane and all gateways see the node as up, or as down if `up` is false. */
  seen(node: string, up: boolean): Promise<void>;
  close(): Promise<void>;
}

export async function startFleet(options: TestFleetOptions = {}): Promise<TestFleet> {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-fleet-'));
  const logUrl = `sqlite:${join(dir, 'log')}`;
  const nodes = await startNodes(options);
  const controlPlane = await startControlPlane({
    ...planeSettings(dir, logUrl),
    // Scans often, so that new nodes are found at once. Changes to a node are noticed as slowly as in production, unless the
    // test sets other intervals.
    nodeIntervals: { scanMs: 20, ...options.nodeIntervals },
    ...options.controlPlane,
  });
  const admin = new DevAdmin(controlPlane.admin, operatorToken);
  const urls = Object.fromEntries(Object.entries(nodes).map(([id, node]) => [id, node.url])) as Record<
    DemoNodeId,
    string
  >;
  await admin.apply((options.fleet ?? demoFleet)(urls));
  const gateways = await Promise.all(
    Array.from({ length: options.gateways ?? 1 }, (_, index) =>
      startGateway(gatewaySettings({ dir, logUrl, index, controlPlane, options })),
    ),
  );
  const fleet: TestFleet = {
    admin,
    controlPlane,
    gateways,
    nodes,
    dir,
    logUrl,
    gatewaySettings: (index) => gatewaySettings({ dir, logUrl, index, controlPlane, options }),
    port: (gateway = 0) => Number(new URL(gateways[gateway]?.api ?? '').port),
    key: async (organisation, expires) => {
      const created = await admin.createKey(organisation, 'test', expires);
      await fleet.settle();
      return created;
    },
    settle: async () => {
      const { complete } = await admin.confirmed(await admin.position(), 10);
      if (!complete) throw new Error('the gateways did not settle in 10 s');
    },
    seen: async (node, up) => {
      const until = performance.now() + 20_000;
      while ((await admin.nodes()).find(({ id }) => id === node)?.up !== up) {
        if (performance.now() > until)
          throw new Error(`node ${node} was not seen ${up ? 'up' : 'down'} in 20 s`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      await fleet.settle();
    },
    close: async () => {
      await Promise.all(gateways.map((gateway) => gateway.close()));
      await controlPlane.close();
      await Promise.all(Object.values(nodes).map((node) => node.close()));
      rmSync(dir, { recursive: true, force: true });
    },
  };
  for (const { id } of await admin.nodes()) await fleet.seen(id, true);
  return fleet;
}

async function startNodes({
  tokensPerSecond = 0,
  recordBodies = false,
}: TestFleetOptions): Promise<Record<DemoNodeId, FaultyNode>> {
  const started = await Promise.all(
    demoNodes.map(
      async ({ id, models }) =>
        [id, await startFaultyNode({ models, tokensPerSecond, recordBodies })] as const,
    ),
  );
  return Object.fromEntries(started) as Record<DemoNodeId, FaultyNode>;
}

interface GatewayPlan {
  readonly dir: string;
  readonly logUrl: string;
  readonly index: number;
  readonly controlPlane: ControlPlane;
  readonly options: TestFleetOptions;
}

function gatewaySettings({ dir, logUrl, index, controlPlane, options }: GatewayPlan): GatewaySettings {
  const name = `gateway-${index + 1}`;
  return {
    ...gatewayAlone(dir, logUrl, name),
    controlPlanes: [controlPlane.admin],
    ...options.gateway,
    // Sends traffic counts with every status report instead of every fifth.
    intervals: { trafficMs: 100, ...options.gateway?.intervals },
  };
}
