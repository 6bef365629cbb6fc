/** Tests POST /v1/responses: its items, sealed thoughts, and refusals. events.test.ts tests its streams. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { FaultyNode } from '../simulator/faulty-node.ts';
import { type Answer, call, expectRefusal } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { readResponseEvents } from '../support/response-events.ts';
import { specFleet, stackHost } from '../support/spec-fleet.ts';

let fleet: TestFleet;
let node: FaultyNode;
let birch: string;
let acme: string;

beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet, recordBodies: true });
  node = fleet.nodes['birch-s1'];
  [birch, acme] = [(await fleet.key('birch')).value, (await fleet.key('acme')).value];
  await fleet.settle();
});
afterAll(() => fleet.close());

type Fields = Readonly<Record<string, unknown>>;
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
/** Removes the values that differ in each answer. */
const plain = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (name, inner) =>
      /^(id|call_id|encrypted_content)$/.test(name) ? undefined : inner,
    ),
  );

const turns = [
  { what: 'a text', input: 'hello there', more: {} },
  {
    what: 'thoughts and a text',
    input: 'hello there',
    more: { reasoning: { effort: 'high' }, store: false },
  },
  { what: 'a tool call', input: 'call weather', more: { tools: [weather] } },
];

test.each(turns)(
  'What the service does 1: $what has the same items and members, streamed or not',
  async ({ input, more }) => {
    const [whole, streamed] = [await ask(input, more), await ask(input, { ...more, stream: true })];
    const { items, end } = readResponseEvents(streamed.content);
    expect(plain(items)).toEqual(plain(itemsOf(whole)));
    expect(plain(end)).toMatchObject({ status: 'completed', store: false, model: 'echo-small' });
    expect(Object.keys(JSON.parse(whole.content))).toEqual(Object.keys(end ?? {}));
  },
);

test('sealed thoughts return to the model only from their organisation, and a seal that does not open is no error', async () => {
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

test('Endpoints: a request that needs a store or a server-side tool is refused, never silently changed', async () => {
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

test('Authentication 8: a response request without a key is refused like any other', async () => {
  const at = { port: fleet.port(), method: 'POST', path: '/v1/responses' };
  expectRefusal(await call({ ...at, body: { model: 'echo-small', input: 'hi' } }), 'Unauthorized');
});
