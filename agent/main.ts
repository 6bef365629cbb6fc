/** Starts all parts of an agent process. `close()` first drains the node. An agent never sees a client's request. */
import { Registry } from 'prom-client';
import { baseUrl } from '../shared/engines/detect.ts';
import { type Closers, openAll } from '../shared/runtime/closers.ts';
import { Connections } from '../shared/runtime/connections.ts';
import { type Check, startHealthServer } from '../shared/runtime/health-server.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { ObservedMetrics } from '../shared/runtime/observed-metrics.ts';
import type { Certificate } from '../shared/runtime/tls.ts';
import { NodeAgent } from './agent.ts';
import { EngineWatch } from './engine.ts';

export interface AgentSettings {
  readonly controlPlanes: readonly string[];
  readonly node: string;
  readonly token: string;
  /** URL of the engine, with or without `/v1`. */
  readonly engine: string;
  /** Credential that the engine itself requires, if any. */
  readonly credential?: string | undefined;
  readonly loadsModels: boolean;
  readonly loraFolder?: string | undefined;
  /** Address on which the listener for health and metrics accepts connections. */
  readonly metricsBind: string;
  readonly metricsPort: number;
  /** Certificate of the listener for health and metrics. */
  readonly certificate?: Certificate | undefined;
  readonly drainTimeoutSeconds: number;
  readonly logger: Logger;
}

export interface RunningAgent {
  readonly metrics: string;
  /** Takes the node out of service, waits for requests in flight, and then stops. */
  close(): Promise<void>;
}

/** Starts the agent. Rejects if the listener cannot be opened. Retries if the engine or control plane is unreachable. */
export function startAgent(settings: AgentSettings): Promise<RunningAgent> {
  return openAll(settings.logger, (closers) => openAgent(settings, closers));
}

async function openAgent(settings: AgentSettings, closers: Closers): Promise<RunningAgent> {
  const { controlPlanes, node, token, loadsModels, logger } = settings;
  const engine = new EngineWatch({
    url: baseUrl(settings.engine).replace(/\/+$/, ''),
    credential: settings.credential,
    loraFolder: settings.loraFolder,
  });
  const agent = new NodeAgent({ controlPlanes, node, token, engine, loadsModels, logger });
  let draining = false;
  const metrics = createMetrics(agent);
  const health = await startHealthServer({
    host: settings.metricsBind,
    port: settings.metricsPort,
    certificate: settings.certificate,
    connections: new Connections({ registry: metrics, logger }),
    checks: () => checks(agent, draining),
    metrics,
  });
  closers.add(() => health.close());
  closers.add(() => agent.stop());
  await agent.start();
  logger.info({ node, metrics: health.url }, 'agent started');
  return {
    metrics: health.url,
    close: async () => {
      draining = true;
      await agent.drain(settings.drainTimeoutSeconds);
      await closers.close();
    },
  };
}

function checks({ link, engine }: NodeAgent, draining: boolean): Check[] {
  return [
    { name: 'control-plane', ok: link.connected, detail: link.connected ? 'attached' : 'not attached' },
    { name: 'engine', ok: engine.view.up, detail: engine.view.reason ?? engine.view.dialect ?? '' },
    { name: 'draining', ok: !draining },
  ];
}

function createMetrics({ link, engine }: NodeAgent): Registry {
  const registry = new Registry();
  const metrics = new ObservedMetrics(registry);
  metrics.gauge('headgate_agent_attached', '1 while attached to a control plane', () =>
    Number(link.connected),
  );
  metrics.counter(
    'headgate_agent_sessions_total',
    'sessions opened with control planes',
    () => link.connects,
  );
  metrics.gauge('headgate_agent_engine_up', '1 while the engine is up', () => Number(engine.view.up));
  metrics.gauge(
    'headgate_agent_engine_in_flight',
    'requests in flight in the engine; -1 if it does not report them',
    () => engine.view.inFlight ?? -1,
  );
  return registry;
}
