// Tests that models installed for a node reach engines that can load them, with their progress and failures, and that no
// other model is touched. Uses an HTTP server that answers like Ollama, llama.cpp's router or vLLM on the few paths needed.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { pino } from 'pino';
import { afterEach, expect, test } from 'vitest';
import type { Dialect } from '../schemas/names.ts';
import { portOf } from '../test/support/listen.ts';
import { until } from '../test/support/until.ts';
import type { Engine } from './engine.ts';
import { modelLoader } from './model-loader.ts';
import { ModelSync } from './model-sync.ts';

const logger = pino({ level: 'silent' });
const open: { stop(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one.stop();
});

type EngineCall = [path: string, body: Record<string, unknown>];
type Answer = (asked: EngineCall, response: ServerResponse) => void;

/** Starts a server that records its requests. Returns it together with the engine that an agent would see there. */
async function engineAt(
  dialect: Dialect,
  answer: Answer,
  loraFolder?: string,
): Promise<{
  engine: Engine & { view: Engine['view'] };
  asked: EngineCall[];
  serve(models: readonly string[]): void;
}> {
  const asked: EngineCall[] = [];
  const server: Server = createServer((request, response) => {
    const take = (body: Record<string, unknown>): void => {
      const one: EngineCall = [`${request.method} ${request.url}`, body];
      asked.push(one);
      answer(one, response);
    };
    readJson(request).then(take, () => response.destroy());
  });
  const port = await portOf(server);
  open.push({
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  });
  const url = `http://127.0.0.1:${port}`;
  const engine = {
    loader: modelLoader(dialect, { url, loraFolder }),
    view: {
      up: true,
      dialect,
      models: [] as readonly string[],
      windows: {},
      imageModels: [],
      rerankModels: [],
    },
    start: async () => undefined,
    stop: async () => undefined,
  };
  return {
    engine,
    asked,
    serve: (models) => {
      engine.view = { ...engine.view, models };
    },
  };
}

async function readJson(request: IncomingMessage): Promise<Record<string, unknown>> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
}

function syncOf(engine: Engine, retryMsMin = 20): ModelSync {
  const sync = new ModelSync({ engine, logger, retryMsMin });
  open.push(sync);
  return sync;
}

const line = (value: object): string => `${JSON.stringify(value)}\n`;

test('Ollama pulls a model, reports percentages, and may later be told to delete it', async () => {
  let pull: ServerResponse | undefined;
  const { engine, asked, serve } = await engineAt('ollama', ([path], response) => {
    if (path === 'POST /api/pull') pull = response;
    else response.end('{}');
  });
  const sync = syncOf(engine);
  sync.setDesired(1, ['llama3']);
  await until(() => pull !== undefined);
  expect(sync.states()).toEqual([{ model: 'llama3', state: 'loading' }]);
  // The line arrives in two parts, which can happen over a network.
  const progress = line({ status: 'pulling', total: 200, completed: 85 });
  pull!.write(progress.slice(0, 10));
  pull!.write(progress.slice(10));
  await until(() => sync.states()[0]?.percent === 42);
  pull!.end(line({ status: 'success' }));
  await until(() => sync.states().length === 0);
  // Must not pull the model again, although the engine does not list it yet.
  sync.reconcile();
  serve(['llama3']);
  sync.setDesired(2, []);
  await until(() => asked.length === 2);
  expect(asked).toEqual([
    ['POST /api/pull', { model: 'llama3', stream: true }],
    ['DELETE /api/delete', { model: 'llama3' }],
  ]);
});

test.each([
  [
    'an engine error',
    line({ error: 'pull model manifest: file\ndoes not exist' }),
    'pull model manifest: file does not exist',
  ],
  ['an end without success', line({ status: 'pulling' }), 'the pull ended early'],
  ['a line that is not JSON', 'oops\n', expect.stringContaining('JSON')],
] as const)('a pull with %s is reported as a failure and retried', async (_what, body, reason) => {
  let healed = false;
  const { engine, asked } = await engineAt('ollama', (_asked, response) =>
    response.end(healed ? line({ status: 'success' }) : body),
  );
  const sync = syncOf(engine);
  sync.setDesired(1, ['llama3']);
  await until(() => sync.states()[0]?.state === 'failed');
  expect(sync.states()).toEqual([{ model: 'llama3', state: 'failed', reason }]);
  healed = true;
  await until(() => {
    sync.reconcile();
    return sync.states().length === 0;
  });
  expect(asked.length).toBeGreaterThan(1);
});

test('a model loaded by an operator is neither pulled nor deleted', async () => {
  const { engine, asked, serve } = await engineAt('ollama', (_asked, response) => response.end('{}'));
  serve(['mine']);
  const sync = syncOf(engine);
  sync.setDesired(1, ['mine']);
  sync.setDesired(2, []);
  sync.reconcile();
  await new Promise((resolve) => setImmediate(resolve));
  expect(asked).toEqual([]);
});

test('an outdated message about installs is ignored', async () => {
  const { engine, asked } = await engineAt('ollama', (_asked, response) =>
    response.end(line({ status: 'success' })),
  );
  const sync = syncOf(engine);
  sync.setDesired(7, ['new']);
  await until(() => asked.length === 1 && sync.states().length === 0);
  sync.setDesired(6, ['old']);
  sync.reconcile();
  // Waits to see that nothing happens. A load of the old model would be requested within a few turns of the event loop.
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(asked.map(([, body]) => body['model'])).toEqual(['new']);
});

test('llama.cpp’s router loads in the background, and its failures are reported', async () => {
  let value = 'loading';
  const { engine, asked } = await engineAt('llamacpp', ([path, { model }], response) => {
    if (path === 'GET /v1/models')
      response.end(
        JSON.stringify({
          data: [
            { id: 'alpha', status: { value } },
            { id: 'beta', status: { value: 'unloaded', failed: true } },
          ],
        }),
      );
    else if (model === 'gamma') response.writeHead(404).end('{"error":{"message":"File Not Found"}}');
    else response.end('{"success":true}');
  });
  const sync = syncOf(engine, 60_000);
  sync.setDesired(1, ['alpha', 'beta', 'gamma']);
  await until(() => asked.some(([path]) => path === 'GET /v1/models'));
  expect(sync.states()).toEqual([{ model: 'alpha', state: 'loading' }]);
  value = 'loaded';
  await until(() => {
    sync.reconcile();
    return sync.states().filter(({ state }) => state === 'failed').length === 2;
  });
  expect(sync.states()).toEqual([
    { model: 'beta', state: 'failed', reason: 'the engine could not load it' },
    { model: 'gamma', state: 'failed', reason: 'the model is not on its disk, or it is not a router' },
  ]);
});

test('vLLM loads adapters from the configured folder, and no name escapes it', async () => {
  const { engine, asked } = await engineAt(
    'vllm',
    (_asked, response) => response.end('Success'),
    '/adapters',
  );
  const sync = syncOf(engine, 60_000);
  sync.setDesired(1, ['sql-lora', '../../etc', 'org/model']);
  await until(() => {
    sync.reconcile();
    return sync.states().filter(({ state }) => state === 'failed').length === 2;
  });
  expect(asked).toEqual([
    ['POST /v1/load_lora_adapter', { lora_name: 'sql-lora', lora_path: '/adapters/sql-lora' }],
  ]);
});

test('SGLang, and vLLM without such a folder, load no models', () => {
  expect(modelLoader('vllm', { url: 'http://127.0.0.1:9' })).toBeUndefined();
  expect(modelLoader('sglang', { url: 'http://127.0.0.1:9' })).toBeUndefined();
});
