/** vLLM: one server that chats, one that embeds with the same weights. Both take a minute to start. */
import { join } from 'node:path';
import type { Engine } from './engine.ts';
import { freePort, installed, ServerProcess } from './server-process.ts';
import { writeHfModel } from './tiny-hf.ts';
import { tinyModel } from './tiny-model.ts';
import { pairOf } from './two-servers.ts';

const windowTokens = 1024;

export const vllm: Engine = {
  dialect: 'vllm',
  model: 'tiny-chat',
  embeddingModel: 'tiny-embed',
  windowTokens,
  reportsWindow: true,
  finishesOnSigterm: false,
  skips: {},
  start: async (dir) => {
    const model = join(dir, 'tiny');
    writeHfModel(model, tinyModel(), windowTokens);
    const server = async (name: string, args: readonly string[]): Promise<ServerProcess> => {
      const port = await freePort();
      return new ServerProcess({
        ...installed('vllm'),
        args: [
          ...[model, '--served-model-name', name, '--host', '127.0.0.1', '--port', String(port)],
          ...['--dtype', 'float32', '--enforce-eager', '--max-model-len', String(windowTokens)],
          ...args,
        ],
        dir,
        name,
        port,
        readyPath: '/health',
        startTimeoutMs: 400_000,
      });
    };
    const chat = await server('tiny-chat', ['--enable-auto-tool-choice', '--tool-call-parser', 'hermes']);
    const embed = await server('tiny-embed', ['--runner', 'pooling', '--convert', 'embed']);
    return pairOf(chat, embed, async () => {
      const metrics = await (await fetch(`${chat.url}/metrics`)).text();
      return Number(/^vllm:num_requests_running\{.*\} (\S+)$/m.exec(metrics)?.[1]);
    });
  },
};
