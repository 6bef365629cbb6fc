/** SGLang: one server that chats, one that embeds with the same weights. Both take a minute to start. */
import { join } from 'node:path';
import type { Engine } from './engine.ts';
import { freePort, installed, ServerProcess } from './server-process.ts';
import { writeHfModel } from './tiny-hf.ts';
import { tinyModel } from './tiny-model.ts';
import { pairOf } from './two-servers.ts';

const windowTokens = 1024;

export const sglang: Engine = {
  dialect: 'sglang',
  model: 'tiny-chat',
  embeddingModel: 'tiny-embed',
  windowTokens,
  reportsWindow: true,
  finishesOnSigterm: true,
  skips: {},
  start: async (dir) => {
    const model = join(dir, 'tiny');
    writeHfModel(model, tinyModel(), windowTokens);
    const server = async (name: string, args: readonly string[]): Promise<ServerProcess> => {
      const port = await freePort();
      return new ServerProcess({
        ...installed('sglang'),
        args: [
          ...[
            '--model-path',
            model,
            '--served-model-name',
            name,
            '--host',
            '127.0.0.1',
            '--port',
            String(port),
          ],
          ...['--device', 'cpu', '--attention-backend', 'torch_native', '--sampling-backend', 'pytorch'],
          ...[
            '--grammar-backend',
            'xgrammar',
            '--dtype',
            'float32',
            '--context-length',
            String(windowTokens),
          ],
          ...['--max-total-tokens', '8192', '--disable-overlap-schedule', '--disable-cuda-graph'],
          ...['--skip-server-warmup', ...args],
        ],
        dir,
        name,
        port,
        readyPath: '/health',
        startTimeoutMs: 400_000,
      });
    };
    const chat = await server('tiny-chat', ['--tool-call-parser', 'qwen25']);
    const embed = await server('tiny-embed', ['--is-embedding']);
    // Its gauge is brought up to date now and then only.
    return pairOf(chat, embed, undefined);
  },
};
