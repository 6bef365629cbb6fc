/**
 * Tests "Errors 2" of the specification for images. An image may reach an Ollama node only if the engine lists `vision` among
 * the model's capabilities, because Ollama drops images for other models. Covers nodes that the control plane probes, and
 * agents.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { NodeAgent } from '../../agent/agent.ts';
import { EngineWatch } from '../../agent/engine.ts';
import type { Dialect } from '../../schemas/names.ts';
import { type FaultyNode, startFaultyNode } from '../simulator/faulty-node.ts';
import { call, chat, expectRefusal } from '../support/api.ts';
import { quiet, startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet } from '../support/spec-fleet.ts';

const stack = 'stk-seeing-otter-5c5c';
/** Models by whether they accept images. The model `both` accepts images on some of its nodes and not on others. */
const models = ['sees:7b', 'blind:1b', 'both:3b', 'by-agent:7b', 'blind-by-agent:1b'];
const dot =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const content = [
  { type: 'text', text: 'what is this' },
  { type: 'image_url', image_url: { url: `data:image/png;base64,${dot}` } },
];

let fleet: TestFleet;
let key: string;
let agent: NodeAgent;
const sims: Record<string, FaultyNode> = {};

async function sim(id: string, served: readonly string[], imageModels: readonly string[]): Promise<void> {
  const options = { dialect: 'ollama', tokensPerSecond: 0, recordBodies: true } as const;
  sims[id] = await startFaultyNode({ ...options, models: served, imageModels });
}

const nodeOf = (id: string): { id: string; url: string; dialect: Dialect } => ({
  id,
  url: String(sims[id]?.url),
  dialect: 'ollama',
});

beforeAll(async () => {
  await sim('sees', ['sees:7b', 'both:3b'], ['sees:7b', 'both:3b']);
  await sim('blind', ['blind:1b', 'both:3b'], []);
  await sim('blind-too', ['both:3b'], []);
  await sim('by-agent', ['by-agent:7b', 'blind-by-agent:1b'], ['by-agent:7b']);
  fleet = await startFleet({
    fleet: (urls) => {
      const spec = specFleet(urls);
      const [acme, ...others] = spec.organisations ?? [];
      if (acme === undefined) throw new Error('acme must be there');
      const messages = { id: stack, surface: 'anthropic' as const, models: ['sees:7b'] };
      return {
        ...spec,
        models: [...(spec.models ?? []), ...models.map((id) => ({ id, family: 'echo', weight: 1 }))],
        pool: {
          models: [...(spec.pool?.models ?? []), ...models],
          nodes: ['sees', 'blind', 'blind-too'].map(nodeOf),
        },
        organisations: [
          { ...acme, stacks: [{ ...messages, nodes: [{ ...nodeOf('sees'), id: 'sees-s1' }] }] },
          ...others,
        ],
      };
    },
  });
  key = (await fleet.key('acme')).value;
  await startAgent('by-agent');
  await fleet.settle();
});
afterAll(async () => {
  await agent.stop();
  await fleet.close();
  await Promise.all(Object.values(sims).map((node) => node.close()));
});

async function startAgent(id: string): Promise<void> {
  await fleet.admin.call('POST', '/nodes', { ...nodeOf(id), place: { kind: 'pool' }, agent: true });
  const { value: token } = await fleet.admin.createNodeToken(id);
  agent = new NodeAgent({
    ...{ controlPlanes: [fleet.controlPlane.admin], node: id, token },
    ...{ engine: new EngineWatch({ url: nodeOf(id).url }), loadsModels: false, logger: quiet },
  });
  await agent.start();
  await fleet.seen(id, true);
}

const look = (model: string, more: object = {}) =>
  chat({
    ...{ port: fleet.port(), key, model },
    more: { messages: [{ role: 'user', content }], max_tokens: 5, ...more },
  });
const lastBody = (id: string): unknown => sims[id]?.stats().bodies.at(-1);
const chatsAt = (id: string): number => sims[id]?.stats().requestsByPath['/v1/chat/completions'] ?? 0;

test.each([
  ['a probed node', 'sees:7b', 'sees', {}],
  ['a probed node, as a stream', 'sees:7b', 'sees', { stream: true }],
  ['a node with an agent', 'by-agent:7b', 'by-agent', {}],
  ['a probed node, in a body that the worker shapes', 'sees:7b', 'sees', { pad: 300_000 }],
])('an image reaches an Ollama model that accepts images, unchanged: %s', async (_, model, node, more) => {
  const { pad, ...fields } = { pad: 0, ...more };
  const parts = [{ type: 'text', text: 'a'.repeat(pad) }, ...content];
  const messages = [{ role: 'user', content: pad > 0 ? parts : content }];
  const { status } = await look(model, { ...fields, messages });
  expect(status).toBe(200);
  expect(lastBody(node)).toMatchObject({ model, messages });
});

test('an image in the Anthropic-style API reaches the model as a data URI', async () => {
  const source = { type: 'base64', media_type: 'image/png', data: dot };
  const { status } = await call({
    ...{ port: fleet.port(), key, host: `${stack}.stacks.test`, method: 'POST', path: '/v1/messages' },
    headers: { 'anthropic-version': '2023-06-01' },
    body: {
      model: 'sees:7b',
      max_tokens: 5,
      messages: [{ role: 'user', content: [{ type: 'image', source }] }],
    },
  });
  expect(status).toBe(200);
  expect(lastBody('sees')).toMatchObject({ messages: [{ role: 'user', content: content.slice(1) }] });
});

test.each([
  ['a probed node', 'blind:1b', 'blind'],
  ['a node with an agent', 'blind-by-agent:1b', 'by-agent'],
])(
  'Errors 2: an image for a model without image support is refused by name and not sent: %s',
  async (_, model, node) => {
    const before = chatsAt(node);
    const { message } = expectRefusal(await look(model), 'UnsupportedShapeError');
    expect(message).toContain('messages[0].content[1]');
    expect(chatsAt(node)).toBe(before);
    expect((await look(model, { messages: [{ role: 'user', content: 'hello' }] })).status).toBe(200);
    expect(chatsAt(node)).toBe(before + 1);
  },
);

test('a request with an image goes only to nodes where the model accepts images', async () => {
  const before = chatsAt('sees');
  for (let at = 0; at < 12; at++) expect((await look('both:3b')).status).toBe(200);
  expect(chatsAt('sees')).toBe(before + 12);
});
