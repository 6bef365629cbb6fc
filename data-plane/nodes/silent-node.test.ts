/**
 * Tests a node that falls silent in the middle of a stream: how long the gateway waits, and what the client receives
 * meanwhile.
 */
import { createServer, type ServerResponse } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { type PendingRequest, post, routeTo, startForwardServer } from '../../test/support/forward-server.ts';
import { portOf } from '../../test/support/listen.ts';
import type { ForwardSettings } from './forward.ts';

const frame = (choice: object): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`;
const text = frame({ delta: { content: 'I write it.' } });
const called = { index: 0, id: 'c', function: { name: 'write_file', arguments: '{"text":"x"}' } };
const call = `${frame({ delta: { tool_calls: [called] } })}${frame({ delta: {}, finish_reason: 'tool_calls' })}`;
const done = 'data: [DONE]\n\n';
const [comment, ping] = [': keep-alive\n\n', 'event: ping\ndata: {"type":"ping"}\n\n'];

/** Sends a request to a new node, which calls `answer` once the request has arrived. */
async function ask(
  answer: (response: ServerResponse) => void,
  settings: Partial<ForwardSettings>,
  more: object = {},
  path = '/v1/chat/completions',
) {
  const node = createServer((request, response) => {
    request.resume().once('end', () => answer(response));
  });
  const port = await portOf(node);
  const candidates = [routeTo(`http://127.0.0.1:${port}`)];
  const server = await startForwardServer({ candidates, settings: { keepAliveMs: 30, ...settings } });
  onTestFinished(async () => {
    await server.close();
    node.closeAllConnections();
    node.close();
  });
  const body = { model: 'asked', stream: true, messages: [{ role: 'user', content: 'a' }], ...more };
  return { asked: post(server.url + path, body), server };
}

const head = (response: ServerResponse): ServerResponse =>
  response.writeHead(200, { 'content-type': 'text/event-stream' });
const tools = [{ type: 'function', function: { name: 'write_file' } }];
const surfaces = [
  ['/v1/chat/completions', comment, { tools }],
  [
    '/v1/messages',
    ping,
    { max_tokens: 9, tools: [{ name: 'write_file', input_schema: { type: 'object' } }] },
  ],
  [
    '/v1/responses',
    comment,
    { messages: undefined, input: 'a', tools: [{ type: 'function', name: 'write_file' }] },
  ],
] as const;

test.each(surfaces)(
  'a tool call sent only once it is whole is waited for, and the client gets keep-alives: %s',
  async (path, signOfLife, more) => {
    let node: ServerResponse | undefined;
    const begin = (response: ServerResponse): void => {
      node = head(response);
      node.write(text);
    };
    const { asked, server } = await ask(begin, { betweenEventsMs: 60 }, more, path);
    // When the fifth sign of life arrives, more time has passed than is allowed between two events.
    await asked.until(signOfLife.repeat(5));
    node?.end(`${call}${done}`);
    const { clean, text: received } = await asked.answer;
    expect(clean).toBe(true);
    expect(received).toContain('write_file');
    expect(await server.next()).toMatchObject({ kind: 'completed' });
  },
);

function keepCommenting(response: ServerResponse, sign = ': here\n\n'): void {
  const commenting = setInterval(() => response.write(sign), 10);
  response.once('close', () => clearInterval(commenting));
}

async function afterComments(asked: PendingRequest, finish: () => void): Promise<boolean> {
  await asked.until(comment.repeat(5));
  finish();
  return (await asked.answer).clean;
}

test.each([': here\n\n', 'data:\n\n', 'event: status\ndata: busy\n\n'])(
  'a node’s comments and empty events prolong the wait for its next event: %j',
  async (sign) => {
    let node: ServerResponse | undefined;
    const begin = (response: ServerResponse): void => {
      node = head(response);
      node.write(text);
      keepCommenting(node, sign);
    };
    const { asked, server } = await ask(begin, { betweenEventsMs: 60 });
    const finish = (): void => void node?.end(`${frame({ delta: {}, finish_reason: 'stop' })}${done}`);
    expect(await afterComments(asked, finish)).toBe(true);
    expect(await server.next()).toMatchObject({ kind: 'completed' });
  },
);

test('a node that sends nothing but comments is given no longer than a first event may take', async () => {
  const begin = (response: ServerResponse): void => {
    head(response).write(text);
    keepCommenting(response);
  };
  const { asked, server } = await ask(begin, { betweenEventsMs: 60, firstEventMs: 200 });
  expect((await asked.answer).clean).toBe(false);
  expect(await server.next()).toMatchObject({ kind: 'ended-early', by: 'deadline' });
});

test('nothing is sent before the node’s head, so a failure until then is a refusal', async () => {
  const { asked, server } = await ask(() => undefined, { firstEventMs: 200 });
  expect((await asked.answer).status).toBe(503);
  expect(await server.next()).toMatchObject({ kind: 'refused' });
});

test('a failure after a keep-alive closes the connection without a frame', async () => {
  const { asked, server } = await ask((response) => head(response).flushHeaders(), { firstEventMs: 200 });
  const { status, clean, text: received } = await asked.answer;
  expect([status, clean, received.replaceAll(comment, '')]).toEqual([200, false, '']);
  expect(received).not.toBe('');
  expect(await server.next()).toMatchObject({ kind: 'ended-early', by: 'deadline' });
});
