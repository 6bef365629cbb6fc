/** Specification, on POST /v1/responses: who is answered, how a stream ends early, what is recorded, and what is refused. */
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { defaultForwardSettings } from '../../data-plane/forward/forward.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import type { FaultyNode } from '../simulator/faulty-node.ts';
import { type Answer, call, expectRefusal } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { readResponseEvents } from '../support/response-events.ts';
import { specFleet, stackHost } from '../support/spec-fleet.ts';
import { spoiltStreams } from '../support/spoilt-streams.ts';
import { recordedIds, requestIdOf, usageOf } from '../support/witness.ts';

let fleet: TestFleet;
let node: FaultyNode;
let birch: string;
let acme: string;

beforeAll(async () => {
  fleet = await startFleet({
    fleet: specFleet,
    recordBodies: true,
    gateway: { forwarding: { ...defaultForwardSettings, firstEventMs: 3000, betweenEventsMs: 300 } },
  });
  node = fleet.nodes['birch-s1'];
  [birch, acme] = [(await fleet.key('birch')).value, (await fleet.key('acme')).value];
  await fleet.settle();
});
afterAll(() => fleet.close());
afterEach(() => node.setBehaviour(parseBehaviour({})));

type Fields = Readonly<Record<string, unknown>>;
type Fault = Parameters<typeof parseBehaviour>[0];
const spoil = (fault: Fault): void => node.setBehaviour(parseBehaviour({ rules: [{ fault }] }));
const weather = {
  type: 'function',
  name: 'weather',
  parameters: { type: 'object', required: ['city', 'country', 'day'] },
};

function ask(input: unknown, more: object = {}, key = birch, host = stackHost('heron')): Promise<Answer> {
  const at = { port: fleet.port(), host, key, method: 'POST', path: '/v1/responses' };
  return call({ ...at, body: { model: 'echo-small', input, ...more } });
}

const itemsOf = (answer: Answer): Fields[] => (JSON.parse(answer.content) as { output: Fields[] }).output;
/** Without what is another in each answer. */
const plain = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (name, inner) =>
      /^(id|call_id|encrypted_content)$/.test(name) ? undefined : inner,
    ),
  );

/** Ids of birch's requests on record. */
async function idsOnRecord(): Promise<string[]> {
  node.setBehaviour(parseBehaviour({}));
  return recordedIds(fleet, 'birch', await ask('hello there'));
}

const turns = [
  { what: 'a text', input: 'hello there', more: {} },
  {
    what: 'thoughts and a text',
    input: 'hello there',
    more: { reasoning: { effort: 'high' }, store: false },
  },
  { what: 'the call of a tool', input: 'call weather', more: { tools: [weather] } },
];

test.each(turns)(
  'What the service does 1: $what has the same items streamed as not streamed, and its usage is recorded',
  async ({ input, more }) => {
    const [whole, streamed] = [await ask(input, more), await ask(input, { ...more, stream: true })];
    expect([whole.status, streamed.status]).toEqual([200, 200]);
    const { items, end } = readResponseEvents(streamed.content);
    expect(plain(items)).toEqual(plain(itemsOf(whole)));
    expect(plain(end)).toMatchObject({ status: 'completed', store: false, model: 'echo-small' });
    expect(Object.keys(JSON.parse(whole.content))).toEqual(Object.keys(end ?? {}));
    expect(await idsOnRecord()).toEqual(expect.arrayContaining([requestIdOf(whole), requestIdOf(streamed)]));
  },
);

test.each(turns)(
  'Stream behaviour: $what that its node ends early has no terminal event, closes its connection, and is not recorded',
  async ({ input, more }) => {
    const cutIds: string[] = [];
    for (const fault of spoiltStreams) {
      spoil(fault);
      const answer = await ask(input, { ...more, stream: true });
      const why = JSON.stringify(fault);
      cutIds.push(requestIdOf(answer));
      expect([answer.status, answer.whole], why).toEqual([200, false]);
      expect(answer.content, why).not.toMatch(/response\.(completed|incomplete|failed)|event: error/);
      const wire = answer.content.slice(0, answer.content.lastIndexOf('\n\n') + 2);
      expect(readResponseEvents(wire).end, why).toBeUndefined();
    }
    const ids = await idsOnRecord();
    expect(ids.filter((id) => cutIds.includes(id))).toEqual([]);
  },
);

test.each(turns)(
  'Errors: $what that is not streamed and that its node ends early is a refusal, with nothing of an answer, and is not recorded',
  async ({ input, more }) => {
    const refusedIds: string[] = [];
    for (const fault of [
      { kind: 'cut', afterEvents: 0 },
      { kind: 'cut', afterEvents: 1, reset: true },
      { kind: 'garbage' },
      { kind: 'finish-abort' },
      { kind: 'status', status: 500 },
    ] as const) {
      spoil(fault);
      const answer = await ask(input, more);
      refusedIds.push(requestIdOf(answer));
      expectRefusal(answer, 'TargetNotServingError');
      expect(answer.content, JSON.stringify(fault)).not.toMatch(/"output"|"usage"|resp_/);
    }
    const ids = await idsOnRecord();
    expect(ids.filter((id) => refusedIds.includes(id))).toEqual([]);
  },
);

test.each([true, false])(
  'Stream behaviour: what its client cancels is stopped at the node, and not recorded: streamed %s',
  async (stream) => {
    const own = fleet.nodes['acme-1'];
    const { requests: before } = await usageOf(fleet, 'acme');
    const body = JSON.stringify({ model: 'echo-small', input: 'hello there', stream });
    const headers = { authorization: `Bearer ${acme}`, 'content-type': 'application/json' };
    const send = (signal?: AbortSignal) =>
      fetch(`http://127.0.0.1:${fleet.port()}/v1/responses`, {
        ...{ method: 'POST', headers, body },
        ...(signal && { signal }),
      });
    const fault = stream ? { kind: 'stall-after', afterEvents: 3 } : { kind: 'stall' };
    own.setBehaviour(parseBehaviour({ rules: [{ match: { times: 1 }, fault }] }));
    const leave = new AbortController();
    const { requests, abortedByClient } = own.stats();
    const gone = send(leave.signal).catch(() => undefined);
    await vi.waitUntil(() => own.stats().requests > requests, { timeout: 5000, interval: 2 });
    if (stream) await (await gone)?.body?.getReader().read();
    leave.abort();
    await vi.waitUntil(() => own.stats().abortedByClient > abortedByClient, { timeout: 5000, interval: 2 });
    // Rows ship in order: once a later one is there, so is every earlier one.
    expect((await send()).status).toBe(200);
    await expect
      .poll(() => usageOf(fleet, 'acme'), { timeout: 10_000 })
      .toMatchObject({ requests: before + 1 });
  },
);

test('sealed thoughts come back to the model from their organisation alone; what does not open is never an error', async () => {
  const more = { reasoning: { effort: 'high' }, include: ['reasoning.encrypted_content'] };
  const thoughts = itemsOf(await ask('hello there', more)).find(({ type }) => type === 'reasoning') ?? {};
  const [{ text: expected = '' } = {}] = thoughts['summary'] as { text?: string }[];
  const sealed = String(thoughts['encrypted_content']);
  expect(sealed).toMatch(/^hg1\.[\w-]+$/);
  const thoughtBy = async (encrypted_content: string, key = birch): Promise<unknown> => {
    const item = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content };
    const input = [{ role: 'user', content: 'a' }, item, { role: 'assistant', content: 'b' }];
    const [host, at] = key === birch ? [stackHost('heron'), node] : ['127.0.0.1', fleet.nodes['acme-1']];
    const answer = await ask([...input, { role: 'user', content: 'c' }], {}, key, host);
    expect(answer.status, encrypted_content.slice(0, 20)).toBe(200);
    const { messages } = at.stats().bodies.at(-1) as { messages: Fields[] };
    const said = messages.find(({ role }) => role === 'assistant');
    return said?.['reasoning'] ?? said?.['reasoning_content'];
  };
  expect(expected).not.toBe('');
  expect(await thoughtBy(sealed)).toBe(expected);
  const changed = `${sealed.slice(0, 20)}${sealed[20] === 'A' ? 'B' : 'A'}${sealed.slice(21)}`;
  for (const spoiltSeal of [sealed.slice(0, -9), changed, 'hg1.', 'hg1.%', 'none'])
    expect(await thoughtBy(spoiltSeal), spoiltSeal.slice(0, 24)).toBeUndefined();
  expect(await thoughtBy(sealed, acme)).toBeUndefined();
});

test('Endpoints: what would need a store or a tool of the server is refused, and never silently dropped', async () => {
  for (const more of [
    { store: true },
    { previous_response_id: 'resp_1' },
    { background: true },
    { tools: [{ type: 'web_search' }] },
    { tools: [{ type: 'mcp', server_url: 'http://x' }] },
    { top_k: 1 },
  ]) {
    const refused = expectRefusal(await ask('hello there', more), 'UnsupportedShapeError');
    expect(refused.message).toContain(Object.keys(more)[0]);
    expect(refused.path).toBe('/v1/responses');
  }
});

test('Authentication 8: a response without a key is refused as every other request', async () => {
  const at = { port: fleet.port(), method: 'POST', path: '/v1/responses' };
  expectRefusal(await call({ ...at, body: { model: 'echo-small', input: 'hi' } }), 'Unauthorized');
});
