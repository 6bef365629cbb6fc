/** `headgate sim-node` runs a deterministic inference server for demos, tests and load. */
import type { Command } from 'commander';
import type { Dialect } from '../../schemas/names.ts';
import {
  addOptions,
  connectionLimits,
  flag,
  isOn,
  type OptionValues,
  option,
  parseCount,
  pickShared,
  portOption,
} from './options.ts';
import { runProcess } from './run-process.ts';

const count = (flags: string, description: string, value: number) =>
  option(flags, description, { parse: parseCount, default: value });

const rerank = '--rerank';

const simOptions = {
  ...pickShared('bind'),
  port: portOption('--port <port>', 'port to listen on', 9001),
  ...pickShared('metricsBind'),
  metricsPort: portOption('--metrics-port <port>', 'port for health and metrics; 0 for a free port', 0),
  ...pickShared('maxConnections', 'maxConnectionsPerAddress'),
  models: option('--models <names>', 'models to serve, separated by commas', { default: 'echo-small' }),
  tokensPerSecond: count('--tokens-per-second <n>', 'speed of a stream; 0 for no limit', 200),
  dialect: option<Dialect>('--dialect <engine>', 'engine to simulate', {
    ...{ choices: ['vllm', 'sglang', 'llamacpp', 'ollama'] as const, default: 'vllm' as const },
  }),
  rerank: flag(rerank, 'serve models that rerank, and no others'),
  contextTokens: count('--context-tokens <n>', 'context window of each model', 131_072),
  cacheTokens: count('--cache-tokens <n>', 'size of the prefix cache in tokens; 0 for none', 0),
  promptTokensPerSecond: count(
    '--prompt-tokens-per-second <n>',
    'speed of reading an uncached prompt; 0 for no limit',
    0,
  ),
  ...pickShared('tlsCert', 'tlsKey', 'readyFile'),
};
type Options = OptionValues<typeof simOptions>;

export function simNodeCommand(program: Command): void {
  const command = program.command('sim-node').description('run a simulated inference server');
  addOptions(command, simOptions).action(run);
}

async function run(options: Options): Promise<void> {
  const { startSimNode } = await import('../../tools/simulator/sim-node.ts');
  const { startSimHealth } = await import('../../tools/simulator/health.ts');
  const { Registry } = await import('prom-client');
  const { Connections } = await import('../../shared/runtime/connections.ts');
  await runProcess('sim-node', options, async ({ logger, certificate, closers }) => {
    const registry = new Registry();
    const connections = new Connections({ registry, logger, limits: connectionLimits(options, logger) });
    const node = await startSimNode({
      bind: options.bind,
      port: options.port,
      models: options.models.split(','),
      tokensPerSecond: options.tokensPerSecond,
      contextTokens: options.contextTokens,
      cacheTokens: options.cacheTokens,
      promptTokensPerSecond: options.promptTokensPerSecond,
      dialect: options.dialect,
      reranks: isOn(rerank, options.rerank),
      certificate,
      connections,
    });
    closers.add(() => node.close());
    const health = await startSimHealth(node, {
      registry,
      connections,
      certificate,
      host: options.metricsBind,
      port: options.metricsPort,
    });
    closers.add(() => health.close());
    logger.info({ url: node.url, metrics: health.url, models: options.models }, 'simulated node is ready');
    return {
      ready: { url: node.url, api: `${node.url}/v1`, metrics: health.url },
      name: 'sim-node',
      drainSeconds: 0,
      close: () => closers.close(),
    };
  });
}
