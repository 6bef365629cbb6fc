// Tests that few requests are enough to find out which models of a node accept images, and that the node's health result
// never waits for an engine. Uses a server with Ollama's routes, whose responses about single models each test controls.
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { AskedModels } from './asked-models.ts';
import { type ProbeResult, probe } from './probe.ts';

interface Model {
  readonly id: string;
  readonly created?: number;
}
type Show = (model: string, response: ServerResponse) => void;

interface Engine {
  models: readonly Model[];
  show: Show;
  readonly asked: string[];
  probe(): Promise<ProbeResult>;
}

const open: (() => void)[] = [];
afterEach(() => {
  for (const close of open.splice(0)) close();
});

const capable =
  (...capabilities: unknown[]): Show =>
  (_, response) =>
    response.end(JSON.stringify({ capabilities }));

async function startEngine(models: readonly Model[], show: Show): Promise<Engine> {
  const asked: string[] = [];
  const server = createServer(async (request, response) => {
    if (request.url === '/api/version') return response.end('{}');
    if (request.url === '/v1/models') return response.end(JSON.stringify({ data: engine.models }));
    let body = '';
    for await (const part of request) body += String(part);
    expect([request.method, request.url]).toEqual(['POST', '/api/show']);
    const { model } = JSON.parse(body) as { model: string };
    asked.push(model);
    return engine.show(model, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const known = new AskedModels();
  const engine: Engine = { models, show, asked, probe: () => probe({ url, dialect: 'ollama' }, known) };
  return engine;
}

async function imageModels(engine: Engine): Promise<readonly string[]> {
  const answer = await engine.probe();
  if (!answer.up) throw new Error(answer.reason);
  return answer.imageModels;
}

test('a model with the capability `vision` accepts images under both its names, and is asked about once', async () => {
  const engine = await startEngine([{ id: 'a:latest', created: 1 }, { id: 'b:1b' }], (model, response) =>
    capable('completion', ...(model === 'a:latest' ? ['vision'] : []))(model, response),
  );
  for (let at = 0; at < 3; at++) expect(await imageModels(engine)).toEqual(['a:latest', 'a']);
  expect(engine.asked).toEqual(['a:latest', 'b:1b']);
});

test('a model that is replaced or returns is asked about again, but no other', async () => {
  const engine = await startEngine([{ id: 'a:1b', created: 1 }, { id: 'b:1b' }], capable('vision'));
  await engine.probe();
  engine.show = capable('completion');
  engine.models = [{ id: 'a:1b', created: 2 }, { id: 'b:1b' }];
  expect(await imageModels(engine)).toEqual(['b:1b']);
  engine.models = [{ id: 'a:1b', created: 2 }];
  await engine.probe();
  engine.models = [{ id: 'a:1b', created: 2 }, { id: 'b:1b' }];
  expect(await imageModels(engine)).toEqual([]);
  expect(engine.asked).toEqual(['a:1b', 'b:1b', 'a:1b', 'b:1b']);
});

test.each([
  ['no capabilities', (_, response) => response.end('{}')],
  ['other capabilities', capable('completion', 'Vision', 'visionary', ['vision'])],
  ['a string in place of capabilities', (_, response) => response.end('{"capabilities":"vision"}')],
  ['null', (_, response) => response.end('null')],
  ['something other than JSON', (_, response) => response.end('vision')],
  ['JSON nested too deeply', (_, response) => response.end(`${'['.repeat(100)}${']'.repeat(100)}`)],
  [
    'too many bytes',
    (_, response) => response.end(JSON.stringify({ x: 'x'.repeat(2 ** 20), capabilities: ['vision'] })),
  ],
  ['a refusal', (_, response) => response.writeHead(404).end('{"capabilities":["vision"]}')],
  ['a redirect', (_, response) => response.writeHead(307, { location: '/api/version' }).end()],
  ['a reset', (_, response) => response.destroy()],
] as [string, Show][])('with %s, no model is known to accept images, and the node is up', async (_, show) => {
  const engine = await startEngine([{ id: 'a:1b' }], show);
  expect(await engine.probe()).toMatchObject({ up: true, models: ['a:1b'], imageModels: [] });
  // A failed request must not be repeated at once, so the engine is not asked again here.
  expect(await imageModels(engine)).toEqual([]);
  expect(engine.asked).toEqual(['a:1b']);
});

test('an engine that answers no question about a model is up, and is not asked again for a while', async () => {
  const engine = await startEngine([{ id: 'a:1b' }, { id: 'b:1b' }], () => undefined);
  for (let at = 0; at < 3; at++) expect(await engine.probe()).toMatchObject({ up: true, imageModels: [] });
  expect(engine.asked).toEqual(['a:1b']);
});

test('one probe asks about a few models, and later probes about the rest', async () => {
  const models = Array.from({ length: 40 }, (_, index) => ({ id: `m${index}:1b` }));
  const engine = await startEngine(models, capable('vision'));
  await engine.probe();
  expect(engine.asked.length).toBeGreaterThan(0);
  expect(engine.asked.length).toBeLessThanOrEqual(16);
  for (let at = 0; at < 40 && engine.asked.length < 40; at++) await engine.probe();
  expect(await imageModels(engine)).toEqual(models.map(({ id }) => id));
  expect(engine.asked).toEqual(models.map(({ id }) => id));
});

test('simultaneous probes ask once', async () => {
  const engine = await startEngine([{ id: 'a:1b' }], capable('vision'));
  const answers = await Promise.all([imageModels(engine), imageModels(engine), imageModels(engine)]);
  expect(answers).toEqual([['a:1b'], ['a:1b'], ['a:1b']]);
  expect(engine.asked).toEqual(['a:1b']);
});
