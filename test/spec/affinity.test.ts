/**
 * Tests how prompts are placed among equal nodes and how cached prompts are isolated, as far as callers can see it in
 * `usage`.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type FaultyNode, startFaultyNode } from '../simulator/faulty-node.ts';
import { chat } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';

type Message = { readonly role: string; readonly content: string };

const shared = ['shared-1', 'shared-2', 'shared-3', 'shared-4'];
const slow = ['slow-1', 'slow-2', 'slow-3', 'slow-4'];
const sims = new Map<string, FaultyNode>();
let fleet: TestFleet;
const keys: Record<string, string> = {};

beforeAll(async () => {
  const options = { tokensPerSecond: 0, cacheTokens: 1_000_000, recordBodies: true } as const;
  for (const id of shared) sims.set(id, await startFaultyNode({ ...options, models: ['grouped', 'spread'] }));
  // These nodes need longer to answer than a gateway needs to report the placement to the other gateway.
  for (const id of slow)
    sims.set(id, await startFaultyNode({ ...options, tokensPerSecond: 10, models: ['slow'] }));
  sims.set('acme-own', await startFaultyNode({ ...options, models: ['private'] }));
  const node = (id: string) => ({ id, url: String(sims.get(id)?.url), dialect: 'vllm' as const });
  fleet = await startFleet({
    gateways: 2,
    fleet: (urls) => {
      const spec = specFleet(urls);
      const [acme, ...others] = spec.organisations ?? [];
      if (acme === undefined) throw new Error('acme must be there');
      return {
        ...spec,
        models: [
          ...(spec.models ?? []),
          { id: 'grouped', family: 'echo' },
          { id: 'spread', family: 'echo', affinity: 'none' },
          { id: 'private', family: 'echo' },
          { id: 'slow', family: 'echo' },
        ],
        tiers: spec.tiers?.map((tier) => ({ ...tier, models: '*' as const })),
        pool: {
          models: [...(spec.pool?.models ?? []), 'grouped', 'spread', 'slow'],
          nodes: [...shared, ...slow].map(node),
        },
        organisations: [{ ...acme, nodes: [...(acme.nodes ?? []), node('acme-own')] }, ...others],
      };
    },
  });
  for (const organisation of ['acme', 'birch']) keys[organisation] = (await fleet.key(organisation)).value;
  await fleet.settle();
});
afterAll(async () => {
  await fleet.close();
  await Promise.all([...sims.values()].map((node) => node.close()));
});

interface AskOptions {
  readonly gateway?: number;
  readonly organisation?: string;
  readonly model?: string;
  readonly more?: object;
}

/**
 * Sends the conversation. Returns the number of tokens that the node had cached, and the conversation with the answer
 * appended.
 */
async function ask(
  messages: readonly Message[],
  { gateway = 0, organisation = 'acme', model = 'grouped', more = {} }: AskOptions = {},
): Promise<{ cached: number; next: Message[] }> {
  const port = fleet.port(gateway);
  const answer = await chat({ port, key: String(keys[organisation]), model, more: { messages, ...more } });
  expect(answer.status).toBe(200);
  const { usage, choices } = JSON.parse(answer.content);
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  return { cached, next: [...messages, choices[0].message, { role: 'user', content: 'and then?' }] };
}

const opening = (name: string): Message[] => [
  { role: 'user', content: `${name} ${'shows a story. '.repeat(40)}` },
];
const bodiesOf = (model: string): { cache_salt?: string }[] =>
  [...sims.values()]
    .flatMap((node) => node.stats().bodies as { model: string; cache_salt?: string }[])
    .filter((body) => body.model === model);

/**
 * Runs twelve conversations of three turns. Returns how many of them found the previous turn in a cache in every later turn.
 */
async function foundAgain(model: string): Promise<number> {
  let found = 0;
  for (let at = 0; at < 12; at += 1) {
    let messages = opening(`${model} ${at}`);
    const cached: number[] = [];
    for (let turn = 0; turn < 3; turn += 1) {
      const answer = await ask(messages, { model, gateway: turn % 2 });
      cached.push(answer.cached);
      messages = answer.next;
    }
    if (cached.slice(1).every((tokens) => tokens > 100)) found += 1;
  }
  return found;
}

test('a conversation’s next turn goes where the previous one is cached, through any gateway', async () => {
  expect(await foundAgain('grouped')).toBe(12);
  expect(
    shared.filter((id) => (sims.get(id)?.stats().requestsByPath['/v1/chat/completions'] ?? 0) > 0).length,
  ).toBeGreaterThan(1);
});

test('conversations for which their home had no room stay where they went, through any gateway', async () => {
  const system = { role: 'system', content: 'answers in few words. '.repeat(40) };
  const talk = async (at: number): Promise<number> => {
    let messages: Message[] = [system, { role: 'user', content: `${at} ${'shows a story. '.repeat(40)}` }];
    let again = 0;
    for (let turn = 0; turn < 4; turn += 1) {
      const { cached, next } = await ask(messages, {
        model: 'slow',
        gateway: (at + turn) % 2,
        more: { max_tokens: 12 },
      });
      // If more tokens were cached than the system prompt has, the earlier turns of the conversation were cached too.
      if (turn > 0 && cached > 300) again += 1;
      messages = next;
    }
    return again;
  };
  const found = await Promise.all(Array.from({ length: 16 }, (_, at) => talk(at)));
  expect(found.reduce((sum, again) => sum + again, 0)).toBeGreaterThanOrEqual(43);
  const used = slow.map((id) => sims.get(id)?.stats().requestsByPath['/v1/chat/completions'] ?? 0);
  expect(Math.min(...used)).toBeGreaterThan(0);
});

test('a model with affinity `none` uses its nodes regardless of the prompt', async () => {
  expect(await foundAgain('spread')).toBeLessThan(12);
});

test('one organisation’s requests make nothing faster for another', async () => {
  const prompt = opening('the same');
  await ask(prompt);
  expect((await ask(prompt)).cached).toBeGreaterThan(100);
  await ask(prompt, { model: 'spread' });
  for (let i = 0; i < 8; i += 1) {
    const { cached } = await ask([...prompt.slice(0, 1), { role: 'user', content: `${i}` }], {
      organisation: 'birch',
      model: 'spread',
    });
    if (i === 0) expect(cached).toBe(0);
  }
  const salts = new Set(bodiesOf('spread').map(({ cache_salt }) => cache_salt));
  // Two organisations sent requests. Each has one salt, which is the same at both gateways.
  expect(salts.size).toBe(2);
  for (const salt of salts) expect(salt).toMatch(/^[\w-]{43}$/);
});

test('an organisation’s own nodes receive no salt, and its prompts have no such field', async () => {
  await ask(opening('own'), { model: 'private' });
  expect(bodiesOf('private')).toHaveLength(1);
  expect(bodiesOf('private')[0]).not.toHaveProperty('cache_salt');
});

test('the metrics count hits and cached tokens', async () => {
  const metrics = await (await fetch(`${String(fleet.gateways[0]?.metrics)}/metrics`)).text();
  const value = (name: string): number =>
    Number(new RegExp(`^${name.replace(/[{}]/g, '\\$&')} (\\d+)`, 'm').exec(metrics)?.[1]);
  await until(() => value('headgate_affinity_hits_total{by="home"}') > 0);
  expect(value('headgate_cached_prompt_tokens_total{model="grouped"}')).toBeGreaterThan(100);
});
