/**
 * A whole small fleet in one process, over an embedded log in a folder of its own: a control plane, gateways, simulated
 * nodes. Real HTTP, real SQLite files, free ports. `settle` waits until all gateways have what was last commanded.
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

/** Silent unless HEADGATE_LOG_LEVEL says otherwise. */
export const quiet = pino({ level: process.env['HEADGATE_LOG_LEVEL'] ?? 'silent' });
export { operatorToken };

/** For tests of the recovery of a snapshot: they prove what happens, and production only waits longer in between. */
export const quickRecovery: Partial<SnapshotIntervals> = {
  verifyPauseMs: 50,
  rebuildPauseMs: 20,
  rebuildPauseMsMax: 100,
  retryPauseMs: 20,
  retryPauseMsMax: 100,
  downloadSpreadMs: 0,
};

/** Of a control plane of tests, in a folder of its own below this one. */
export function planeSettings(dir: string, logUrl: string): ControlPlaneSettings {
  return {
    ...{ logUrl, name: 'control-plane-1', dataDir: join(dir, 'control-plane'), logger: quiet },
    ...{ bind: '127.0.0.1', port: 0, metricsPort: 0, operatorToken, gatewayToken: operatorToken },
  };
}

/** Of a gateway of tests, which asks no control plane for snapshots. */
export function gatewayAlone(dir: string, logUrl: string, name = 'gateway-1'): GatewaySettings {
  return {
    ...{ logUrl, name, dataDir: join(dir, name), logger: quiet },
    ...{ bind: '127.0.0.1', port: 0, metricsPort: 0, gatewayToken: operatorToken },
    hosts: { shared: new Set(['127.0.0.1', 'localhost']), stackDomain: 'stacks.test' },
    ...{ stackPorts: [], whenStale: 'fence', controlPlanes: [], connectMs: 2000 },
    ...{ forwarding: defaultForwardSettings, drainDelaySeconds: 0, drainTimeoutSeconds: 2 },
  };
}

/** Addresses for the demo's nodes, of which nobody is there. */
export const nobodyThere = new Proxy({}, { get: () => 'http://127.0.0.1:9' }) as Record<DemoNodeId, string>;

export interface TestFleetOptions {
  /** Made from the simulated nodes' addresses; the demo's where none is given. */
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
  /** With which gateway n was started. */
  gatewaySettings(gateway: number): GatewaySettings;
  /** Port of gateway n on loopback. */
  port(gateway?: number): number;
  /** A new key's id and value, once every gateway knows it. */
  key(organisation: string, expires?: ExpiryChoice): Promise<{ id: string; value: string }>;
  /** Waits until every gateway has everything commanded so far in force. */
  settle(): Promise<void>;
  /** Waits until the node is seen as wanted by the control plane and the gateways. */
  seen(node: string, up: boolean): Promise<void>;
  close(): Promise<void>;
}

export async function startFleet(options: TestFleetOptions = {}): Promise<TestFleet> {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-fleet-'));
  const logUrl = `sqlite:${join(dir, 'log')}`;
  const nodes = await startNodes(options);
  const controlPlane = await startControlPlane({
    ...planeSettings(dir, logUrl),
    // New nodes are found at once; what a test does to one is seen at the pace of production unless it says otherwise.
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
    // What is counted goes with each report of the status, not with every fifth.
    intervals: { trafficMs: 100, ...options.gateway?.intervals },
  };
}
