/** Specification, "Events", on the Anthropic-style API: how a stream of a message ends early, and what of it is recorded. */
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { defaultForwardSettings } from '../../data-plane/forward/forward.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import type { FaultyNode } from '../simulator/faulty-node.ts';
import { type Answer, call, expectRefusal } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { readMessageEvents } from '../support/message-events.ts';
import { specFleet, stackHost, stacks } from '../support/spec-fleet.ts';
import { spoiltBeginnings, spoiltStreams } from '../support/spoilt-streams.ts';
import { recordedIds, requestIdOf, usageOf } from '../support/witness.ts';

let fleet: TestFleet;
let node: FaultyNode;
let key: string;

beforeAll(async () => {
  fleet = await startFleet({
    fleet: specFleet,
    gateway: {
      forwarding: { ...defaultForwardSettings, firstEventMs: 3000, betweenEventsMs: 300 },
      stackPorts: [{ stack: stacks.heron, port: 0 }],
    },
  });
  node = fleet.nodes['birch-s1'];
  await fleet.admin.call('PUT', `/stacks/${stacks.heron}/surface`, { surface: 'anthropic' });
  key = (await fleet.key('birch')).value;
  await fleet.settle();
});
afterAll(() => fleet.close());
afterEach(() => node.setBehaviour(parseBehaviour({})));

type Fault = Parameters<typeof parseBehaviour>[0];
const spoil = (fault: Fault): void => node.setBehaviour(parseBehaviour({ rules: [{ fault }] }));
const weather = { name: 'weather', input_schema: { type: 'object', required: ['city', 'country', 'day'] } };

const bodyOf = (text: string, more: object = {}) => ({
  model: 'echo-small',
  max_tokens: 50,
  stream: true,
  messages: [{ role: 'user', content: text }],
  ...more,
});

function ask(text: string, more: object = {}): Promise<Answer> {
  const at = { port: fleet.port(), host: stackHost('heron'), key, method: 'POST', path: '/v1/messages' };
  return call({ ...at, body: bodyOf(text, more) });
}

/** Ids of birch's requests on record. */
async function idsOnRecord(): Promise<string[]> {
  node.setBehaviour(parseBehaviour({}));
  return recordedIds(fleet, 'birch', await ask('hello there', { stream: false }));
}

const textOf = (content: readonly Record<string, unknown>[]): string =>
  content.map((block) => String(block['text'] ?? block['input'])).join('');

test.each([
  { what: 'a text', text: 'hello there', more: {} },
  { what: 'thoughts and a text', text: 'hello there', more: { output_config: { effort: 'high' } } },
  { what: 'the call of a tool', text: 'call weather', more: { tools: [weather] } },
])(
  'Stream behaviour: $what that its node ends early has no message_stop, closes its connection, and is not recorded',
  async ({ text, more }) => {
    const uncut = await ask(text, more);
    const full = readMessageEvents(uncut.content);
    expect(full.isComplete).toBe(true);
    const cutIds: string[] = [];
    for (const fault of spoiltStreams) {
      spoil(fault);
      const answer = await ask(text, more);
      const why = JSON.stringify(fault);
      cutIds.push(requestIdOf(answer));
      expect(answer.status, why).toBe(200);
      expect(answer.whole, why).toBe(false);
      expect(answer.content, why).not.toMatch(/message_stop|message_delta|event: error|"error"/);
      const cut = readMessageEvents(answer.content);
      expect(cut.content.length, why).toBeGreaterThan(0);
      for (const [at, block] of cut.content.entries())
        expect(textOf(full.content.slice(at, at + 1)), why).toContain(textOf([block]));
    }
    const ids = await idsOnRecord();
    expect(ids).toContain(requestIdOf(uncut));
    expect(ids.filter((id) => cutIds.includes(id))).toEqual([]);
  },
);

test('Stream behaviour: what reads the body of a stream that ended early throws, after what was delivered', async () => {
  spoil({ kind: 'stall-after', afterEvents: 6 });
  const url = fleet.gateways[0]?.stacks[0]?.url ?? '';
  const response = await fetch(`${url}/messages`, {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    body: JSON.stringify(bodyOf('hello there')),
  });
  let text = '';
  const read = async (): Promise<void> => {
    for await (const chunk of response.body ?? []) text += Buffer.from(chunk).toString();
  };
  await expect(read()).rejects.toThrow('terminated');
  expect(textOf(readMessageEvents(text).content)).toMatch(/^echo: hello there/);
});

test('Stream behaviour: a stream that its client cancels is stopped at the node, and not recorded', async () => {
  spoil({ kind: 'stall-after', afterEvents: 3 });
  const leave = new AbortController();
  const url = fleet.gateways[0]?.stacks[0]?.url ?? '';
  const aborted = node.stats().abortedByClient;
  const response = await fetch(`${url}/messages`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(bodyOf('hello there')),
    signal: leave.signal,
  });
  await response.body?.getReader().read();
  leave.abort();
  await vi.waitUntil(() => node.stats().abortedByClient > aborted, { timeout: 5000, interval: 2 });
  expect(await idsOnRecord()).not.toContain(response.headers.get('request-id'));
});

test('Stream behaviour: a completed stream is recorded with the tokens that its last event reported', async () => {
  const before = await totalTokens();
  const { end } = readMessageEvents((await ask('say 12 words')).content);
  const usage = end?.['usage'] as { input_tokens: number; output_tokens: number };
  expect(usage.output_tokens).toBe(12);
  await expect.poll(totalTokens, { timeout: 10_000 }).not.toBe(before);
  expect((await totalTokens()) - before).toBe(usage.input_tokens + usage.output_tokens);
});

const totalTokens = async (): Promise<number> => (await usageOf(fleet, 'birch')).totalTokens;

test.each(spoiltBeginnings)(
  'Stream behaviour, Errors 6: a failure before the first event of a message is a refusal ($kind)',
  async (fault) => {
    spoil(fault);
    const answers = [await ask('hello there'), await ask('hello there', { stream: false })];
    for (const answer of answers) expectRefusal(answer, 'TargetNotServingError');
    const ids = await idsOnRecord();
    expect(ids.filter((id) => answers.some((answer) => requestIdOf(answer) === id))).toEqual([]);
  },
);
