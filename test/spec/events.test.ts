/** Specification, "Events": how a stream ends early, what stays delivered, and what of it is recorded. */

import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { defaultForwardSettings } from '../../data-plane/forward/forward.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { call, chat, expectRefusal, framesOf } from '../support/api.ts';
import { scaledMs } from '../support/budget.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { hold } from '../support/held.ts';
import { specFleet, stackHost } from '../support/spec-fleet.ts';
import { spoiltBeginnings, spoiltStreams } from '../support/spoilt-streams.ts';
import { usageOf, usageReaches } from '../support/witness.ts';

let fleet: TestFleet;
let port: number;
beforeAll(async () => {
  fleet = await startFleet({
    fleet: specFleet,
    gateway: { forwarding: { ...defaultForwardSettings, firstEventMs: 3000, betweenEventsMs: 300 } },
  });
  port = fleet.port();
});
afterAll(() => fleet.close());
const healthy = parseBehaviour({});
afterEach(() => {
  for (const node of Object.values(fleet.nodes)) node.setBehaviour(healthy);
});

let organisations = 0;
/** An organisation of its own, so that its usage is this test's alone. */
async function newcomer(): Promise<{ id: string; key: string }> {
  const id = `newcomer-${++organisations}`;
  await fleet.admin.call('POST', '/organisations', { id, name: id, tier: 'Pro' });
  const { value: key } = await fleet.key(id);
  await fleet.settle();
  return { id, key };
}

/** Rows ship in order, so once this request is in the totals, everything before it that was recorded is too. */
async function usageWithout(id: string, key: string): Promise<{ requests: number; totalTokens: number }> {
  const answer = await chat({ port, key, model: 'echo-small' });
  expect(answer.status).toBe(200);
  const { total_tokens: tokens } = JSON.parse(answer.content).usage;
  await vi.waitUntil(async () => (await usageOf(fleet, id)).requests > 0, { timeout: 10_000, interval: 20 });
  const { requests, totalTokens } = await usageOf(fleet, id);
  return { requests: requests - 1, totalTokens: totalTokens - tokens };
}
const nothing = { requests: 0, totalTokens: 0 };

test.each(spoiltStreams)(
  'Stream behaviour: a stream that its node ends early closes without a terminal frame ($kind)',
  async (fault) => {
    const { id, key } = await newcomer();
    const full = framesOf(
      await chat({ port, key: (await newcomer()).key, model: 'echo-small', more: { stream: true } }),
    );
    fleet.nodes['pool-1'].setBehaviour(parseBehaviour({ rules: [{ fault }] }));
    const answer = await chat({ port, key, model: 'echo-small', more: { stream: true } });
    fleet.nodes['pool-1'].setBehaviour(healthy);
    expect(answer.status).toBe(200);
    expect(answer.whole, 'a clean end of the body').toBe(false);
    expect(answer.content).not.toContain('[DONE]');
    expect(answer.content).not.toContain('error');
    const words = (frames: string[]): string[] =>
      frames.flatMap((frame) =>
        frame === '[DONE]' ? [] : (JSON.parse(frame).choices[0]?.delta.content ?? []),
      );
    const delivered = words(framesOf(answer));
    expect(delivered.length, 'data already delivered stays delivered').toBeGreaterThan(0);
    expect(words(full).slice(0, delivered.length)).toEqual(delivered);
    expect(await usageWithout(id, key)).toEqual(nothing);
  },
);

test.each([
  { where: 'the pool', organisation: 'birch', host: '127.0.0.1', node: 'pool-1', model: 'echo-large' },
  {
    where: 'a stack',
    organisation: 'birch',
    host: stackHost('heron'),
    node: 'birch-s1',
    model: 'echo-small',
  },
] as const)(
  'Stream behaviour: a stream that its client cancels is stopped at the node of $where, and not recorded',
  async ({ organisation, host, node: nodeId, model }) => {
    const node = fleet.nodes[nodeId];
    const { value: key } = await fleet.key(organisation);
    await fleet.settle();
    const before = await usageOf(fleet, organisation);
    for (const stream of [true, false]) {
      node.setBehaviour(
        parseBehaviour({
          rules: [{ fault: { kind: stream ? 'stall-after' : 'stall', ...(stream && { afterEvents: 3 }) } }],
        }),
      );
      const aborted = node.stats().abortedByClient;
      const held = await hold({ port, key, model, host, more: { stream }, at: node });
      if (stream)
        await vi.waitUntil(() => held.received().includes('"content"'), { timeout: 5000, interval: 2 });
      held.leave();
      // Without the cancellation it would stall until its time-out.
      await vi.waitUntil(() => node.stats().inFlight === 0, { timeout: scaledMs(1000), interval: 2 });
      expect(node.stats().abortedByClient).toBe(aborted + 1);
    }
    node.setBehaviour(healthy);
    const answer = await chat({ port, key, model, host });
    const { total_tokens: tokens } = JSON.parse(answer.content).usage;
    const after = await usageReaches(fleet, organisation, before.requests + 1);
    expect(after.totalTokens - before.totalTokens).toBe(tokens);
  },
);

test('Stream behaviour: a completed stream is recorded once, with the tokens that the client received', async () => {
  const { id, key } = await newcomer();
  const more = { stream: true, stream_options: { include_usage: true } };
  const frames = framesOf(await chat({ port, key, model: 'echo-small', more }));
  const usage = frames
    .filter((frame) => frame !== '[DONE]')
    .map((frame) => JSON.parse(frame).usage)
    .findLast(Boolean);
  expect(usage.total_tokens).toBeGreaterThan(0);
  expect(await usageReaches(fleet, id, 1)).toEqual({ requests: 1, totalTokens: usage.total_tokens });
});

test('Stream behaviour: a stream is recorded also where its client did not ask for usage', async () => {
  const { id, key } = await newcomer();
  const whole = JSON.parse((await chat({ port, key, model: 'echo-small' })).content).usage.total_tokens;
  const answer = await chat({ port, key, model: 'echo-small', more: { stream: true } });
  expect(answer.content).not.toContain('total_tokens');
  expect(await usageReaches(fleet, id, 2)).toEqual({ requests: 2, totalTokens: 2 * whole });
});

test.each(spoiltBeginnings)(
  'Stream behaviour, Errors 3: a failure before the first event is a refusal, and not recorded ($kind)',
  async (fault) => {
    const { id, key } = await newcomer();
    fleet.nodes['pool-1'].setBehaviour(parseBehaviour({ rules: [{ fault }] }));
    const answers = [
      await chat({ port, key, model: 'echo-small', more: { stream: true } }),
      await chat({ port, key, model: 'echo-small' }),
      await call({
        port,
        key,
        method: 'POST',
        path: '/v1/embeddings',
        body: { model: 'echo-embed', input: 'a' },
      }),
    ];
    fleet.nodes['pool-1'].setBehaviour(healthy);
    for (const answer of answers) expectRefusal(answer, 'InferenceUnavailableError');
    expect(await usageWithout(id, key)).toEqual(nothing);
  },
);
