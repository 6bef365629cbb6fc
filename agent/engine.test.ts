// Tests that an agent detects its engine by polling it, and notices when the engine is down. Uses simulated engines of each
// kind.
import { expect, onTestFinished, test } from 'vitest';
import { type FaultyNode, startFaultyNode } from '../test/simulator/faulty-node.ts';
import { stall } from '../test/support/stall.ts';
import { until } from '../test/support/until.ts';
import { EngineWatch, type EngineWatchOptions } from './engine.ts';

const empty = { up: false, models: [], windows: {}, imageModels: [], rerankModels: [] };

async function simNode(options: Parameters<typeof startFaultyNode>[0]): Promise<FaultyNode> {
  const node = await startFaultyNode(options);
  onTestFinished(() => node.close());
  return node;
}

async function watch(
  url: string,
  onChange: () => void = () => undefined,
  more: Partial<EngineWatchOptions> = {},
): Promise<EngineWatch> {
  const engine = new EngineWatch({ url, pollMs: 20, ...more });
  onTestFinished(() => engine.stop());
  await engine.start(onChange);
  return engine;
}

test.each(['vllm', 'sglang', 'llamacpp', 'ollama'] as const)(
  '%s is recognised by a response that only it gives',
  async (dialect) => {
    const models = ['echo-small', 'echo-large'];
    const node = await simNode({ models, dialect, contextTokens: 4096 });
    const { view } = await watch(node.url);
    const reported =
      dialect === 'ollama' ? {} : { windows: { 'echo-small': 4096, 'echo-large': 4096 }, inFlight: 0 };
    expect(view).toEqual({
      up: true,
      dialect,
      models,
      windows: {},
      imageModels: [],
      rerankModels: [],
      ...reported,
    });
  },
);

test('the engine’s requests in flight are polled', async () => {
  const node = await simNode({ models: ['echo-small'], tokensPerSecond: 50 });
  const engine = await watch(node.url);
  const abort = new AbortController();
  const asked = fetch(`${node.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      ...{ model: 'echo-small', stream: true, max_tokens: 5000 },
      messages: [{ role: 'user', content: 'say 4000 words' }],
    }),
    signal: abort.signal,
  });
  await until(() => engine.view.inFlight === 1);
  abort.abort();
  await asked.then((answer) => answer.text()).catch(() => undefined);
  await until(() => engine.view.inFlight === 0);
});

test('an engine that refuses connections is down at the next poll, and detected again when it returns', async () => {
  const node = await simNode({ models: ['echo-small'] });
  let changes = 0;
  const engine = await watch(node.url, () => changes++);
  changes = 0;
  node.setBehaviour({ connections: { mode: 'refused' }, rules: [] });
  await until(() => !engine.view.up);
  expect(engine.view).toEqual({ ...empty, reason: 'connection refused' });
  node.setBehaviour({ rules: [] });
  await until(() => engine.view.up);
  expect(engine.view).toMatchObject({ dialect: 'vllm', models: ['echo-small'] });
  expect(changes).toBe(2);
});

test('an engine that does not respond is down after several silent polls', async () => {
  const node = await simNode({ models: ['echo-small'] });
  const engine = await watch(node.url, undefined, { pollMs: 50, silenceMsMax: 200 });
  const polls = (): number => node.stats().requestsByPath['/health'] ?? 0;
  const before = polls();
  node.setBehaviour({ rules: [{ match: { path: '/health' }, fault: { kind: 'stall' } }] });
  await until(() => !engine.view.up);
  expect(polls() - before).toBeGreaterThan(1);
  expect(engine.view.reason).toBe('no answer in time');
});

test('responses that this process had no time to read do not make an engine down', async () => {
  const node = await simNode({ models: ['echo-small'] });
  let changes = 0;
  const engine = await watch(node.url, () => changes++, { pollMs: 100, silenceMsMax: 1000 });
  await until(() => engine.view.up);
  changes = 0;
  const polls = (): number => node.stats().requestsByPath['/health'] ?? 0;
  for (let stalls = 0; stalls < 2; stalls++) {
    const before = polls();
    stall(1500);
    await until(() => polls() > before + 2);
  }
  expect(engine.view.up).toBe(true);
  expect(changes).toBe(0);
});

test('an engine that reports itself unhealthy is down at once', async () => {
  const node = await simNode({ models: ['echo-small'] });
  const engine = await watch(node.url);
  node.setBehaviour({ rules: [{ match: { path: '/health' }, fault: { kind: 'status', status: 503 } }] });
  await until(() => !engine.view.up);
  expect(engine.view.reason).toBe('health answered 503');
});

test('without a response no engine is detected', async () => {
  const { view } = await watch('http://127.0.0.1:9');
  expect(view).toEqual({ ...empty, reason: 'no inference server has answered' });
});
