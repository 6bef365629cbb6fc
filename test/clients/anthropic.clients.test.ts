/**
 * The official Anthropic library, before and after its first major version, with its defaults, against a stack that is
 * switched to that surface. It comes from the folder that `node test/clients/install.mjs` fills.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { cachedModule } from './cache.ts';
import { failureOf, toolResult, weather } from './client.ts';
import { type ClientFleet, startClientFleet } from './client-fleet.ts';

let at: ClientFleet;
beforeAll(async () => {
  at = await startClientFleet();
});
afterAll(() => at.close());
beforeEach(() => at.reset());

const versions = [
  { version: '0', byHeader: 'x-api-key', foreign: ['AuthenticationError', 401, 'Unauthorized'] },
  { version: '1', byHeader: 'Authorization', foreign: ['NotFoundError', 404, 'TargetNotServingError'] },
];

describe.each(versions)('@anthropic-ai/sdk $version, its key in $byHeader', ({ version, foreign }) => {
  const model = 'echo-large';
  const open = async (apiKey: string) => {
    const { default: Anthropic } = await import(cachedModule(`anthropic${version}`, 'index.mjs'));
    return new Anthropic({ baseURL: at.switched.url.replace(/\/v1$/, ''), apiKey });
  };
  const bodyOf = (text: string) => ({ model, max_tokens: 100, messages: [{ role: 'user', content: text }] });

  test('a message, a stream and the listing', async () => {
    const client = await open(at.acme);
    const answer = await client.messages.create(bodyOf('good morning'));
    expect(answer.content[0].text).toMatch(/^echo: good morning/);
    const streamed = await client.messages.stream(bodyOf('say 20 words')).finalMessage();
    expect(streamed.content[0].text).toMatch(/^(\S+ ){19}\S+$/);
    expect(streamed.stop_reason).toBe('end_turn');
    const ids = [];
    for await (const { id } of client.models.list()) ids.push(id);
    expect(ids).toEqual([model]);
    expect(at.switched.sightings).toHaveLength(3);
  });

  test('a tool is called, and its result read', async () => {
    const client = await open(at.acme);
    const { name, description, parameters } = weather;
    const body = {
      ...bodyOf('call weather in Paris'),
      tools: [{ name, description, input_schema: parameters }],
    };
    const { content } = await client.messages.create(body);
    const call = content.find(({ type }: { type: string }) => type === 'tool_use');
    expect(call.input).toEqual({ city: 'text' });
    const result = { type: 'tool_result', tool_use_id: call.id, content: toolResult };
    const again = await client.messages.create({
      ...body,
      messages: [...body.messages, { role: 'assistant', content }, { role: 'user', content: [result] }],
    });
    expect(again.content[0].text).toContain(toolResult);
  });

  test.each([
    {
      type: 'Unauthorized',
      status: 401,
      name: 'AuthenticationError',
      as: () => at.traps.Unauthorized.key,
      more: {},
    },
    {
      type: 'TargetNotServingError',
      status: 404,
      name: 'NotFoundError',
      as: () => at.acme,
      more: { model: 'echo-small' },
    },
    {
      type: 'UnsupportedShapeError',
      status: 400,
      name: 'BadRequestError',
      as: () => at.acme,
      more: { no_such_field: 1 },
    },
  ])('Errors: $type is $name, after one request', async ({ type, status, name, as, more }) => {
    const client = await open(as());
    const thrown = await client.messages
      .create({ ...bodyOf('hello'), ...more })
      .catch((error: unknown) => error);
    expect(failureOf(thrown)).toEqual({ name, status, type });
    expect(at.switched.sightings).toHaveLength(1);
  });

  test('Authentication 2: on a stack of somebody else a key counts only as a bearer', async () => {
    const client = await open(at.pooled);
    const thrown = await client.messages.create(bodyOf('hello')).catch((error: unknown) => error);
    const { name, status, type } = failureOf(thrown);
    expect([name, status, type]).toEqual(foreign);
  });
});
