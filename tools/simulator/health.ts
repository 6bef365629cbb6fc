/** Health, readiness and metrics of a simulated node that runs as a process of its own. */
import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client';
import type { Connections } from '../../shared/runtime/connections.ts';
import { type HealthServer, startHealthServer } from '../../shared/runtime/health-server.ts';
import type { ListenAddress } from '../../shared/runtime/listener.ts';
import { ObservedMetrics } from '../../shared/runtime/observed-metrics.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import { version } from '../../shared/runtime/version.ts';
import type { SimNode } from './sim-node.ts';

export interface SimHealthOptions extends ListenAddress {
  readonly registry: Registry;
  readonly connections: Connections;
  readonly certificate: Certificate | undefined;
}

/** Starts the health listener. Rejects if the listener cannot be opened. */
export function startSimHealth(node: SimNode, options: SimHealthOptions): Promise<HealthServer> {
  const { registry, connections, certificate, host, port } = options;
  collectDefaultMetrics({ register: registry });
  const build = {
    name: 'headgate_build_info',
    help: 'always 1; the labels give the versions of Headgate and of Node.js',
  };
  new Gauge({ ...build, labelNames: ['version', 'node'], registers: [registry] })
    .labels({ version: version(), node: process.versions.node })
    .set(1);
  const metrics = new ObservedMetrics(registry);
  metrics.counter('headgate_sim_requests_total', 'requests begun since the start', () => node.requests);
  metrics.gauge('headgate_sim_in_flight', 'requests that have begun and not ended', () => node.inFlight);
  return startHealthServer({
    ...{ host, port, certificate, connections, metrics: registry },
    checks: () => [{ name: 'listening', ok: node.listening }],
  });
}
