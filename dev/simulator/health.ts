/** Health, readiness and metrics of a simulated node that runs as a process. */
import { Counter, collectDefaultMetrics, Gauge, type Registry } from 'prom-client';
import type { Connections } from '../../shared/runtime/connections.ts';
import { type HealthServer, startHealthServer } from '../../shared/runtime/health-server.ts';
import type { ListenAddress } from '../../shared/runtime/listener.ts';
import type { Certificate } from '../../shared/runtime/tls.ts';
import { version } from '../../shared/runtime/version.ts';
import type { SimNode } from './sim-node.ts';

export interface SimHealthOptions extends ListenAddress {
  readonly registry: Registry;
  readonly connections: Connections;
  readonly certificate: Certificate | undefined;
}

/** Rejects where the listener cannot be had. */
export function startSimHealth(node: SimNode, options: SimHealthOptions): Promise<HealthServer> {
  const { registry, connections, certificate, host, port } = options;
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const build = { name: 'headgate_build_info', help: '1, by version of Headgate and of Node.js' };
  new Gauge({ ...build, labelNames: ['version', 'node'], registers })
    .labels({ version: version(), node: process.versions.node })
    .set(1);
  new Counter({
    name: 'headgate_sim_requests_total',
    help: 'requests begun since the start',
    registers,
    collect() {
      this.reset();
      this.inc(node.stats().requests);
    },
  });
  new Gauge({
    name: 'headgate_sim_in_flight',
    help: 'requests begun and not ended',
    registers,
    collect() {
      this.set(node.stats().inFlight);
    },
  });
  return startHealthServer({
    ...{ host, port, certificate, connections, metrics: registry },
    checks: () => [{ name: 'listening', ok: node.listening }],
  });
}
