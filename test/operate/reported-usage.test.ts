/**
 * Tests that whatever usage a node reports, neither the bill nor the client's response contains more usage than the request
 * can cause.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { call, chatBody } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { specFleet, stackHost } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';
import { usageOf } from '../support/witness.ts';

let fleet: TestFleet;
let organisation: string;
let key: string;
let count = 0;
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet });
  await fleet.admin.call('PUT', '/stacks/stk-quiet-heron-4m7q/surface', { surface: 'anthropic' });
});
afterAll(() => fleet.close());
beforeEach(async () => {
  organisation = `reader-${++count}`;
  await fleet.admin.call('POST', '/organisations', {
    id: organisation,
    name: organisation,
    tier: 'Platinum',
  });
  ({ value: key } = await fleet.key(organisation));
  await fleet.settle();
});

function spoil(usage?: unknown): void {
  const fault = { kind: 'wrong-usage', ...(usage !== undefined && { usage }) };
  for (const node of Object.values(fleet.nodes)) node.setBehaviour(parseBehaviour({ rules: [{ fault }] }));
}

interface TokenUse {
  readonly prompt: number;
  readonly completion: number;
  readonly cached: number;
  readonly reasoning: number;
}

const chat = (more: object): { path: string; body: object } => ({
  path: '/v1/chat/completions',
  body: { ...chatBody('echo-small'), max_tokens: 5, ...more },
});
const messages = { model: 'echo-small', max_tokens: 5, messages: [{ role: 'user', content: 'hello' }] };
interface Entry {
  readonly code: string;
  readonly object?: string;
}
interface Way {
  readonly path: string;
  readonly body: object;
  readonly own?: true;
  readonly most: readonly [number, number];
}
const ways: Readonly<Record<string, Way>> = {
  chat: { ...chat({}), most: [600, 5] },
  'two choices': { ...chat({ n: 2 }), most: [600, 10] },
  'a stream': { ...chat({ stream: true, stream_options: { include_usage: true } }), most: [600, 5] },
  messages: { path: '/v1/messages', body: messages, own: true, most: [600, 5] },
  'a stream of messages': {
    ...{ path: '/v1/messages', body: { ...messages, stream: true }, own: true, most: [600, 5] },
  },
};

/** Returns the usage that the client read and the usage that was billed. */
async function used(way: string): Promise<{ shown: TokenUse; billed: number }> {
  const { path, body, own } = ways[way] as Way;
  const caller = own ? (await fleet.key('birch')).value : key;
  const before = await usageOf(fleet, own ? 'birch' : organisation);
  await fleet.settle();
  const to = { port: fleet.port(), ...(own && { host: stackHost('heron') }) };
  const answer = await call({ ...to, method: 'POST', path, key: caller, body });
  expect(answer.status, answer.content).toBe(200);
  let shown: TokenUse = { prompt: 0, completion: 0, cached: 0, reasoning: 0 };
  for (const [, text = ''] of answer.content.matchAll(/"usage":(\{(?:[^{}]|\{[^{}]*\})*\})/g))
    shown = usedIn(JSON.parse(text));
  await until(async () => (await usageOf(fleet, own ? 'birch' : organisation)).requests > before.requests);
  const { totalTokens } = await usageOf(fleet, own ? 'birch' : organisation);
  return { shown, billed: totalTokens - before.totalTokens };
}

function usedIn(usage: Record<string, never>): TokenUse {
  const { prompt_tokens_details: ofPrompt, completion_tokens_details: ofCompletion } = usage;
  const { input_tokens: input, output_tokens: output, output_tokens_details: thoughts } = usage;
  if (input === undefined)
    return {
      prompt: usage['prompt_tokens'] ?? 0,
      completion: usage['completion_tokens'] ?? 0,
      cached: ofPrompt?.['cached_tokens'] ?? 0,
      reasoning: ofCompletion?.['reasoning_tokens'] ?? 0,
    };
  const cached = usage['cache_read_input_tokens'] ?? 0;
  const reasoning = thoughts?.['thinking_tokens'] ?? 0;
  return { prompt: input + cached, completion: output ?? 0, cached, reasoning };
}

const huge = (most: number) => ({
  ...{ prompt_tokens: most, completion_tokens: most, total_tokens: 2 * most },
  prompt_tokens_details: { cached_tokens: most },
  completion_tokens_details: { reasoning_tokens: most },
});

test.each(Object.keys(ways).flatMap((way) => [10_000, 1e9, 1e15].map((tokens) => [way, tokens] as const)))(
  '%s with %d tokens reported by a node is billed within bounds',
  async (way, tokens) => {
    spoil(huge(tokens));
    const { shown, billed } = await used(way);
    const [prompt, completion] = ways[way]?.most ?? [0, 0];
    expect(shown.prompt).toBeLessThanOrEqual(prompt);
    expect(shown.completion).toBeLessThanOrEqual(completion);
    expect(shown.cached).toBeLessThanOrEqual(shown.prompt);
    expect(shown.reasoning).toBeLessThanOrEqual(shown.completion);
    expect(billed).toBe(shown.prompt + shown.completion);
  },
);

test('a metric and doctor name the node', async () => {
  spoil(huge(1e6));
  await used('chat');
  const metrics = await (await fetch(`${fleet.gateways[0]?.metrics}/metrics`)).text();
  const [, named = ''] = /headgate_node_usage_clamped_total\{node="([^"]+)"\} \d+/.exec(metrics) ?? [];
  expect(named).toBe('pool-1');
  await until(async () => {
    const { checks } = (await fleet.admin.call('GET', '/doctor')) as unknown as { checks: Entry[] };
    return checks.some(({ code, object }) => code === 'HG5005' && object === 'pool-1');
  });
});

test.each([undefined, null, '7', { prompt_tokens: -1, completion_tokens: 3 }, { prompt_tokens: '7' }])(
  'usage of %j is estimated the same, streamed or not, within max_tokens',
  async (usage) => {
    const estimated: TokenUse[] = [];
    for (const way of ['chat', 'a stream']) {
      spoil(usage);
      const { shown, billed } = await used(way);
      expect(billed).toBe(shown.prompt + shown.completion);
      estimated.push(shown);
    }
    const [whole, streamed] = estimated;
    expect(streamed).toEqual(whole);
    expect(whole?.completion).toBeGreaterThan(0);
    expect(whole?.completion).toBeLessThanOrEqual(5);
  },
);

test('plausible reports are billed unchanged', async () => {
  for (const node of Object.values(fleet.nodes)) node.setBehaviour(parseBehaviour({}));
  for (const way of Object.keys(ways)) {
    const { shown, billed } = await used(way);
    expect(shown.prompt).toBeGreaterThan(0);
    expect(billed).toBe(shown.prompt + shown.completion);
  }
});
