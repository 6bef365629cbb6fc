/**
 * Tests that rerank requests are routed, authenticated and limited like all others (specification, "Routing algorithm",
 * "Errors 2", "Authentication 7" and "Limits"). They may only reach nodes whose engine is known to rerank, which control
 * planes find out by probing or from an agent.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { NodeAgent } from '../../agent/agent.ts';
import { EngineWatch } from '../../agent/engine.ts';
import type { Dialect } from '../../schemas/names.ts';
import { post } from '../play/page-calls.ts';
import { type FaultyNode, startFaultyNode } from '../simulator/faulty-node.ts';
import { type Answer, call, chat, expectRefusal } from '../support/api.ts';
import { quiet, startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet, stackHost, stacks } from '../support/spec-fleet.ts';
import { usageReaches } from '../support/witness.ts';

/**
 * Reranking models by the engine that serves them. Each is in a different place: the pool, a stack of acme, acme's own nodes.
 */
const served = { vllm: 'judge-pool', sglang: 'judge-stack', llamacpp: 'judge-own' } as const;
const byAgent = 'judge-agent';
const judges = [...Object.values(served), byAgent];
const sims: Record<string, FaultyNode> = {};

let fleet: TestFleet;
let key: string;
let agent: NodeAgent;

async function sim(id: string, dialect: Dialect): Promise<void> {
  const options = { tokensPerSecond: 0, recordBodies: true, contextTokens: 500, reranks: true } as const;
  sims[id] = await startFaultyNode({ ...options, dialect, models: [id] });
}

const nodeOf = (id: string, dialect: Dialect) => ({ id: `${id}-1`, url: String(sims[id]?.url), dialect });

beforeAll(async () => {
  for (const [dialect, id] of Object.entries(served)) await sim(id, dialect as Dialect);
  await sim(byAgent, 'llamacpp');
  fleet = await startFleet({
    gateway: { play: { port: 0, hosts: [], trustedProxies: ['127.0.0.1'] } },
    fleet: (urls) => {
      const spec = specFleet(urls);
      const [acme, ...others] = spec.organisations ?? [];
      if (acme === undefined) throw new Error('acme must be there');
      const [otter, ...rest] = acme.stacks ?? [];
      if (otter === undefined) throw new Error('otter must be there');
      const stack = {
        ...otter,
        models: [...(otter.models ?? []), served.sglang],
        nodes: [...(otter.nodes ?? []), nodeOf(served.sglang, 'sglang')],
      };
      return {
        ...spec,
        models: [...(spec.models ?? []), ...judges.map((id) => ({ id, family: 'judge' }))],
        pool: {
          models: [...(spec.pool?.models ?? []), served.vllm, byAgent],
          nodes: [...(spec.pool?.nodes ?? []), nodeOf(served.vllm, 'vllm')],
        },
        organisations: [
          {
            ...acme,
            nodes: [...(acme.nodes ?? []), nodeOf(served.llamacpp, 'llamacpp')],
            stacks: [stack, ...rest],
          },
          ...others,
        ],
      };
    },
  });
  key = (await fleet.key('acme')).value;
  await startAgent();
  await fleet.settle();
});
afterAll(async () => {
  await agent.stop();
  await fleet.close();
  await Promise.all(Object.values(sims).map((node) => node.close()));
});

async function startAgent(): Promise<void> {
  const node = nodeOf(byAgent, 'llamacpp');
  await fleet.admin.call('POST', '/nodes', { ...node, place: { kind: 'pool' }, agent: true });
  const { value: token } = await fleet.admin.createNodeToken(node.id);
  agent = new NodeAgent({
    ...{ controlPlanes: [fleet.controlPlane.admin], node: node.id, token },
    ...{ engine: new EngineWatch({ url: node.url }), loadsModels: false, logger: quiet },
  });
  await agent.start();
  await fleet.seen(node.id, true);
}

const query = 'the deep water';
const documents = ['a well', 'deep water', { text: 'the sea' }, 'a'];
const places = [
  ['the pool', served.vllm, undefined],
  ['a stack', served.sglang, stackHost('otter')],
  ['an organisation’s node', served.llamacpp, undefined],
  ['a node with an agent', byAgent, undefined],
] as const;

function rerank(
  model: string,
  more: object = {},
  at: { host?: string; path?: string; key?: string } = {},
): Promise<Answer> {
  return call({
    ...{ port: fleet.port(), key, method: 'POST', path: '/v1/rerank' },
    body: { model, query, documents, ...more },
    ...at,
  });
}
const on = (host: string | undefined) => (host === undefined ? {} : { host });
const idsOf = (answer: Answer): string[] =>
  JSON.parse(answer.content).data.map((model: { readonly id: string }) => model.id);
const documentOf = (answer: Answer) => JSON.parse(answer.content);
const requestsOf = (id: string): number => sims[id]?.stats().promptTokens ?? 0;

test.each(places)(
  'Routing algorithm, pinned requests: documents are scored and sorted by %s',
  async (_, model, host) => {
    const answer = await rerank(model, {}, on(host));
    expect(answer.status).toBe(200);
    const { id, results, ...rest } = documentOf(answer);
    expect(id).toMatch(/^rerank-/);
    const usage = { prompt_tokens: 24, total_tokens: 24 };
    expect(rest).toEqual({ object: 'list', model, usage, meta: {} });
    expect(results.map(({ index }: { index: number }) => index)).toEqual([1, 2, 0, 3]);
    for (const one of results) expect(Object.keys(one)).toEqual(['index', 'relevance_score']);
    // The node does not receive the client's presentation options, `top_n` and `return_documents`.
    const cut = documentOf(await rerank(model, { top_n: 2, return_documents: true }, on(host)));
    expect(cut.results).toEqual([
      { ...results[0], document: { text: 'deep water' } },
      { ...results[1], document: { text: 'the sea' } },
    ]);
    const texts = ['a well', 'deep water', 'the sea', 'a'];
    expect(sims[model]?.stats().bodies.at(-1)).toEqual({ model, query, documents: texts });
  },
);

test.each(['/v2/rerank', '/rerank'])('%s gives the same result', async (path) => {
  const [here, there] = [await rerank(served.vllm), await rerank(served.vllm, {}, { path })].map(documentOf);
  expect(there.results).toEqual(here.results);
  const unknown = await rerank(served.vllm, { query: '' }, { path });
  expect(expectRefusal(unknown, 'UnsupportedShapeError').path).toBe(path);
});

test.each(places)(
  'Errors 2: a rerank model is listed and refuses everything else by name: %s',
  async (_, model, host) => {
    const port = fleet.port();
    const at = { port, key, ...on(host) };
    const before = requestsOf(model);
    for (const answer of [
      await chat({ ...at, model }),
      await chat({ ...at, model, more: { stream: true } }),
      await call({ ...at, method: 'POST', path: '/v1/embeddings', body: { model, input: 'a' } }),
    ])
      expect(expectRefusal(answer, 'UnsupportedShapeError').message).toContain('/v1/rerank');
    expect(requestsOf(model)).toBe(before);
    if (model === served.llamacpp) return;
    const listed = documentOf(await call(at)).data.map(({ id }: { id: string }) => id);
    expect(listed).toContain(model);
  },
);

test.each(['echo-small', 'echo-embed'])('Errors 2: %s, which does not rerank, refuses to', async (model) => {
  const { message } = expectRefusal(await rerank(model), 'UnsupportedShapeError');
  expect(message).toContain('not known to rerank');
});

test('Errors 5, Errors 6, Authentication 7: refusals are the same as for any other request', async () => {
  const port = fleet.port();
  expectRefusal(await call({ port, method: 'POST', path: '/v1/rerank', body: {} }), 'Unauthorized');
  expectRefusal(await rerank('no-such-model'), 'DedicatedOnlyModelError');
  expectRefusal(await rerank(served.sglang), 'DedicatedOnlyModelError');
  const cedar = (await fleet.key('cedar')).value;
  expectRefusal(await rerank(served.vllm, {}, { key: cedar }), 'ModelNotInPlanError');
  for (const stack of ['idle', 'heron', 'missing'] as const)
    expectRefusal(await rerank(served.sglang, {}, { host: stackHost(stack) }), 'TargetNotServingError');
  expectRefusal(await rerank(served.vllm, { priority: 1 }), 'UnsupportedShapeError');
  const get = await call({ port, key, path: '/v1/rerank' });
  expectRefusal(get, 'NotFoundError');
});

test('What the service does 4, Endpoints rule 3: an Anthropic-style stack does not rerank or list rerank models', async () => {
  const path = `/stacks/${stacks.otter}/surface`;
  const host = stackHost('otter');
  const listed = async (): Promise<string[]> => idsOf(await call({ port: fleet.port(), host, key })).sort();
  expect(await listed()).toEqual(['echo-embed', 'echo-large', served.sglang]);
  await fleet.admin.call('PUT', path, { surface: 'anthropic' });
  await fleet.settle();
  expectRefusal(await rerank(served.sglang, {}, { host }), 'UnsupportedShapeError');
  expect(await listed()).toEqual(['echo-embed', 'echo-large']);
  const entry = await call({ port: fleet.port(), host, key, path: `/v1/models/${served.sglang}` });
  expectRefusal(entry, 'TargetNotServingError');
  await fleet.admin.call('PUT', path, { surface: 'openai' });
  await fleet.settle();
});

test('the playground shows a key only models that can answer turns, and none to a key without a tier', async () => {
  const shown = async (value: string) => {
    const headers = { authorization: `Bearer ${value}` };
    const { json } = await post(
      new URL('/api/key', fleet.gateways[0]?.play),
      {},
      { address: '203.0.113.1', headers },
    );
    return json as { models: string[]; stacks: { id: string; models: string[] }[] };
  };
  const { models, stacks: own } = await shown(key);
  expect(models).toContain('echo-small');
  expect(own.find(({ id }) => id === stacks.otter)?.models).toEqual(['echo-embed', 'echo-large']);
  expect(models.filter((id) => judges.includes(id))).toEqual([]);
  const none = [{ id: stacks.moth, surface: 'openai', models: [] }];
  expect(await shown((await fleet.key('dormant')).value)).toEqual({
    organisation: 'dormant',
    models: [],
    stacks: none,
  });
  await fleet.admin.call('PATCH', '/organisations/acme', { suspended: true });
  await fleet.settle();
  const suspended = await shown(key);
  expect([suspended.models, ...suspended.stacks.map((stack) => stack.models)].flat()).toEqual([]);
  await fleet.admin.call('PATCH', '/organisations/acme', { suspended: false });
  await fleet.settle();
});

test.each(places)(
  'Limits 3: a document too long for the model together with the query is refused: %s',
  async (_, model, host) => {
    const answer = await rerank(model, { documents: ['a', 'long '.repeat(800)] }, on(host));
    expect(expectRefusal(answer, 'ContextWindowExceededError').message).toContain('window');
    const many = await rerank(model, { documents: Array.from({ length: 600 }, () => 'a word') }, on(host));
    expect(many.status).toBe(200);
  },
);

test('a body shaped by the worker is scored like any other, and its documents are returned', async () => {
  const long = Array.from({ length: 1000 }, (_, index) => `${'word '.repeat(60)}${index}`);
  const answer = await rerank(served.vllm, {
    documents: long,
    query: '777 word',
    return_documents: true,
    top_n: 1,
  });
  expect(documentOf(answer).results).toEqual([
    { index: 777, relevance_score: 1, document: { text: long[777] } },
  ]);
  const larger = await rerank(served.vllm, { documents: Array.from({ length: 1001 }, () => 'a') });
  expect(expectRefusal(larger, 'UnsupportedShapeError').message).toContain('documents');
});

test('Stream behaviour: the node’s count of each query with its document is billed once', async () => {
  await fleet.admin.call('POST', '/organisations', { id: 'newcomer', name: 'Newcomer', tier: 'Platinum' });
  const { value } = await fleet.key('newcomer');
  await fleet.settle();
  const { usage } = documentOf(await rerank(served.vllm, {}, { key: value }));
  expect(usage.total_tokens).toBe(24);
  expect(await usageReaches(fleet, 'newcomer', 1)).toEqual({ requests: 1, totalTokens: 24 });
});
