/**
 * Tests the chapters "Endpoints" and "Versioning" of the specification: the operations, the model listings of both kinds of
 * host, and strict schemas.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Answer, answerOf, call, chat, chatBody, expectRefusal, framesOf } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { rawRequest } from '../support/raw-http.ts';
import { slashModel, specFleet, stackHost, stacks } from '../support/spec-fleet.ts';
import { askedDuring } from '../support/witness.ts';

const chatPath = '/v1/chat/completions';
let fleet: TestFleet;
let port: number;
let acme: string;
let birch: string;
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet, recordBodies: true });
  port = fleet.port();
  acme = (await fleet.key('acme')).value;
  birch = (await fleet.key('birch')).value;
  await fleet.settle();
});
afterAll(() => fleet.close());

const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  call({ port, key: acme, method: 'POST', path, body, headers });
const idsOf = (answer: Answer): string[] =>
  JSON.parse(answer.content).data.map(({ id }: { id: string }) => id);

test('What the service does 1, Endpoints 1: a chat completion takes a model and messages of role and content', async () => {
  const answer = await post(chatPath, {
    model: 'echo-small',
    messages: [
      { role: 'system', content: 'be brief' },
      { role: 'user', content: 'ping pong' },
    ],
  });
  expect(answer.status).toBe(200);
  const { id, object, model, choices, usage } = JSON.parse(answer.content);
  expect(id).toMatch(/^chatcmpl-/);
  expect([object, model]).toEqual(['chat.completion', 'echo-small']);
  expect(choices).toHaveLength(1);
  expect(choices[0]).toMatchObject({ index: 0, message: { role: 'assistant' } });
  expect(choices[0].message.content).toContain('ping pong');
  expect(usage.total_tokens).toBe(usage.prompt_tokens + usage.completion_tokens);
});

test('Endpoints 1: a response can be streamed, and contains the same words', async () => {
  const whole = await chat({ port, key: acme, model: 'echo-small' });
  const streamed = await chat({ port, key: acme, model: 'echo-small', more: { stream: true } });
  expect(streamed.fields['content-type']).toBe('text/event-stream; charset=utf-8');
  const frames = framesOf(streamed);
  expect(frames.at(-1)).toBe('[DONE]');
  const said = frames
    .slice(0, -1)
    .map((frame) => JSON.parse(frame).choices[0]?.delta.content ?? '')
    .join('');
  expect(said).toBe(JSON.parse(whole.content).choices[0].message.content);
});

test.each([
  { missing: 'model', body: { messages: [{ role: 'user', content: 'a' }] } },
  { missing: 'messages', body: { model: 'echo-small' } },
  { missing: 'messages', body: { model: 'echo-small', messages: [] } },
  { missing: 'model', body: { model: 7, messages: [{ role: 'user', content: 'a' }] } },
  { missing: 'role', body: { model: 'echo-small', messages: [{ content: 'a' }] } },
  { missing: 'content', body: { model: 'echo-small', messages: [{ role: 'user' }] } },
])(
  'Endpoints 1: a chat completion without a valid $missing is refused ($body)',
  async ({ missing, body }) => {
    const { message } = expectRefusal(await post(chatPath, body), 'UnsupportedShapeError');
    expect(message).toContain(missing);
  },
);

test('Endpoints 2: the listing needs no key on the shared host, and one on a stack host', async () => {
  expect((await call({ port })).status).toBe(200);
  expectRefusal(await call({ port, host: stackHost('otter') }), 'Unauthorized');
  expect((await call({ port, host: stackHost('otter'), key: acme })).status).toBe(200);
});

test('What the service does 1, Endpoints 3, Endpoints rule 7: embeddings need a key and give a vector per input, in order', async () => {
  const path = '/v1/embeddings';
  const body = { model: 'echo-embed', input: ['one', 'two', 'three'] };
  expectRefusal(await call({ port, method: 'POST', path, body }), 'Unauthorized');
  const { object, model, data, usage } = JSON.parse((await post(path, body)).content);
  expect({ object, model }).toEqual({ object: 'list', model: 'echo-embed' });
  expect(data.map(({ index }: { index: number }) => index)).toEqual([0, 1, 2]);
  expect(usage.total_tokens).toBe(usage.prompt_tokens);
  expectRefusal(await post(path, { ...body, messages: [] }), 'UnsupportedShapeError');
});

test.each(['application/json', 'application/json; charset=utf-8', 'APPLICATION/JSON;charset=UTF-8'])(
  'Endpoints rule 1: a body of the type %s is accepted',
  async (type) => {
    const text = JSON.stringify(chatBody('echo-small'));
    expect((await typed(type, text)).status).toBe(200);
  },
);

test.each([
  undefined,
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/jsonl',
  'application/json; charset=utf-16',
])('Endpoints rule 1: a body of the type %s is refused', async (type) => {
  const text = JSON.stringify(chatBody('echo-small'));
  expectRefusal(await typed(type, text), 'UnsupportedShapeError');
});

/** Sends a chat completion with the given content type, or with none. */
async function typed(type: string | undefined, text: string): Promise<Answer> {
  const lines = [
    `POST ${chatPath} HTTP/1.1`,
    'Host: 127.0.0.1',
    'Connection: close',
    `Authorization: Bearer ${acme}`,
    `Content-Length: ${text.length}`,
    ...(type === undefined ? [] : [`Content-Type: ${type}`]),
  ];
  return answerOf(await rawRequest(port, `${lines.join('\r\n')}\r\n\r\n${text}`));
}

test('Endpoints rule 2: the shared listing contains exactly the models that the pool’s nodes have loaded', async () => {
  // The listing omits echo-idle and echo-locked, which no node has loaded, and echo-private, which only an organisation's own
  // node serves.
  expect(idsOf(await call({ port })).sort()).toEqual(['echo-embed', 'echo-large', 'echo-small', slashModel]);
});

test('Endpoints rule 2: the shared listing follows the pool, and nothing that organisations own', async () => {
  const before = await call({ port });
  await fleet.admin.call('POST', '/nodes/acme-1/drain?force=true');
  await fleet.admin.call('POST', '/nodes/acme-s1/drain?force=true');
  await fleet.settle();
  const without = await call({ port });
  await fleet.admin.call('POST', '/nodes/pool-1/drain?force=true');
  await fleet.settle();
  const empty = await call({ port });
  for (const node of ['acme-1', 'acme-s1', 'pool-1'])
    await fleet.admin.call('POST', `/nodes/${node}/undrain`);
  await fleet.settle();
  expect(without.content).toBe(before.content);
  expect(JSON.parse(empty.content)).toEqual({
    object: 'list',
    data: [],
    has_more: false,
    first_id: null,
    last_id: null,
  });
});

test('Endpoints rule 2: the shared listing reveals no organisation, stack, node or address', async () => {
  const { text } = await call({ port });
  for (const secret of ['acme', 'birch', 'stk-', 'pool-1', '127.0.0.1:', 'private'])
    expect(text).not.toContain(secret);
});

test.each(['echo-small', slashModel, encodeURIComponent(slashModel), 'team%2Fecho:v1.0'])(
  'Endpoints rule 2: a listing entry is found by its id, as /v1/models/%s',
  async (id) => {
    const answer = await call({ port, path: `/v1/models/${id}` });
    const entry = JSON.parse(answer.content);
    expect(entry.id).toBe(decodeURIComponent(id));
    expect(JSON.parse((await call({ port })).content).data).toContainEqual(entry);
  },
);

test.each(['echo-private', 'echo-bare', 'no-such-model', 'team', '__proto__', '%00', '..%2f..%2fetc'])(
  'Endpoints rule 2: the entry /v1/models/%s does not exist, whatever it may be elsewhere',
  async (id) => {
    const { message } = expectRefusal(
      await call({ port, path: `/v1/models/${id}` }),
      'DedicatedOnlyModelError',
    );
    expect(message).not.toContain(id);
  },
);

test.each(['echo-small/', 'no-such-model/', 'team/', `${slashModel}/`])(
  'Endpoints rule 2: /v1/models/%s is not a path, whatever is named before the slash',
  async (id) => {
    const answer = await call({ port, path: `/v1/models/${id}` });
    const { message } = expectRefusal(answer, 'NotFoundError');
    expect(message).toBe('No endpoint has this method and path. Remove the extra slash.');
  },
);

test.each([
  { stack: 'otter', models: ['echo-embed', 'echo-large'] },
  { stack: 'idle', models: [] },
] as const)(
  'Endpoints rule 3: the listing of $stack contains exactly the models that it answers for',
  async ({ stack, models }) => {
    const host = stackHost(stack);
    expect(idsOf(await call({ port, host, key: acme })).sort()).toEqual(models);
    for (const model of ['echo-small', 'echo-large', 'echo-private', 'echo-bare']) {
      const listed = (models as readonly string[]).includes(model);
      expect((await chat({ port, host, key: acme, model })).status).toBe(listed ? 200 : 404);
      expect((await call({ port, host, key: acme, path: `/v1/models/${model}` })).status).toBe(
        listed ? 200 : 404,
      );
    }
  },
);

test('Endpoints rule 3: even without a tier, the listing shows what an own stack’s nodes could answer', async () => {
  const { value: key } = await fleet.key('dormant');
  await fleet.settle();
  expect(idsOf(await call({ port, host: stackHost('moth'), key }))).toEqual([]);
  const one = await call({ port, host: stackHost('moth'), key, path: '/v1/models/echo-large' });
  expectRefusal(one, 'ModelNotInPlanError');
  expectRefusal(
    await chat({ port, host: stackHost('moth'), key, model: 'echo-large' }),
    'ModelNotInPlanError',
  );
});

test('Endpoints rule 3: another organisation’s listing is not available', async () => {
  expectRefusal(await call({ port, host: stackHost('otter'), key: birch }), 'TargetNotServingError');
});

test('Endpoints rule 4: on a stack host the key is checked before anything else', async () => {
  for (const stack of ['otter', 'missing'] as const)
    for (const path of ['/v1/models', '/nothing', '/%zz', '/v1/chat/completions'])
      expectRefusal(await call({ port, path, host: stackHost(stack) }), 'Unauthorized');
});

test.each([
  ...['top_k', 'no_such_field', 'chat_template', 'priority', 'metadata_', 'functions', 'audio'],
  ...['ignore_eos', 'think', 'extra_body', 'input', 'constructor'],
])(
  'Endpoints rule 5, Errors 2: the field %s, which the shape does not contain, is refused and not dropped',
  async (field) => {
    const asked = await askedDuring(fleet, async () => {
      const answer = await post(chatPath, { ...chatBody('echo-small'), [field]: 'secret value' });
      const { message } = expectRefusal(answer, 'UnsupportedShapeError');
      expect(message).toContain(field);
      expect(message).not.toContain('secret');
    });
    expect(asked).toEqual({});
  },
);

test('Endpoints rule 5: an unknown field inside a message is refused by its path too', async () => {
  const messages = [{ role: 'user', content: 'a', nonsense: 1 }];
  const { message } = expectRefusal(
    await post(chatPath, { model: 'echo-small', messages }),
    'UnsupportedShapeError',
  );
  expect(message).toContain('messages[0].nonsense');
});

test('Endpoints rule 6: other fields of the OpenAI-style shape reach the node unchanged and take effect', async () => {
  const plain = {
    temperature: 0.25,
    top_p: 0.5,
    seed: 1,
    stop: ['END'],
    frequency_penalty: 0.5,
    presence_penalty: -0.5,
    logit_bias: { '5': 1 },
    n: 2,
  };
  const answer = await post(chatPath, { ...chatBody('echo-small'), ...plain, max_tokens: 3 });
  expect(fleet.nodes['acme-1'].stats().bodies.at(-1)).toMatchObject({ ...plain, max_tokens: 3 });
  const { choices } = JSON.parse(answer.content);
  expect(choices).toHaveLength(2);
  for (const choice of choices) expect(choice.finish_reason).toBe('length');
});

test('What the service does 4, Endpoints rule 8: an OpenAI-style host answers no Anthropic-style path', async () => {
  const body = { ...chatBody('echo-large'), max_tokens: 5 };
  const asked = await askedDuring(fleet, async () => {
    for (const host of ['127.0.0.1', stackHost('otter')])
      for (const path of ['/v1/messages', '/v1/messages/count_tokens'])
        expectRefusal(
          await call({ port, host, key: acme, method: 'POST', path, body }),
          'UnsupportedShapeError',
        );
  });
  expect(asked).toEqual({});
});

test('Endpoints rule 8: a switched stack answers Anthropic-style paths, embeddings and its listing, but no chat', async () => {
  const host = stackHost('otter');
  const surface = async (to: string): Promise<void> => {
    await fleet.admin.call('PUT', `/stacks/${stacks.otter}/surface`, { surface: to });
    await fleet.settle();
  };
  const at = { port, host, headers: { 'x-api-key': acme }, method: 'POST' };
  const question = chatBody('echo-large');
  await surface('anthropic');
  const messages = await call({ ...at, path: '/v1/messages', body: { ...question, max_tokens: 9 } });
  const count = await call({ ...at, path: '/v1/messages/count_tokens', body: question });
  const embeddings = await call({ ...at, path: '/v1/embeddings', body: { model: 'echo-embed', input: 'a' } });
  const listing = await call({ ...at, method: 'GET', path: '/v1/models' });
  const refused = await call({ ...at, path: chatPath, body: question });
  await surface('openai');
  expect([messages, count, embeddings, listing].map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect(JSON.parse(messages.content)).toMatchObject({ type: 'message', model: 'echo-large' });
  expect(JSON.parse(count.content).input_tokens).toBeGreaterThan(0);
  expect(messages.fields['request-id']).toBe(messages.fields['x-request-id']);
  expectRefusal(refused, 'UnsupportedShapeError');
});

test.each([
  ['POST', '/chat/completions'],
  ['POST', '/v2/chat/completions'],
  ['POST', '/V1/chat/completions'],
  ['POST', '/v1/chat/completions/'],
  ['POST', '//v1/chat/completions'],
  ['POST', '/v1//chat/completions'],
  ['POST', '/v1/./chat/completions'],
  ['POST', '/v1/chat%2Fcompletions'],
  ['POST', '/v1/completions'],
  ['GET', '/v1/responses'],
  ['GET', '/v1/responses/resp_1'],
  ['DELETE', '/v1/responses/resp_1'],
  ['POST', '/v1/responses/compact'],
  ['POST', '/v1/responses/input_tokens'],
  ['GET', '/v1/chat/completions'],
  ['GET', '/models'],
  ['GET', '/v1/models/'],
  ['PUT', '/v1/models'],
  ['GET', '/v1'],
  ['GET', '/metrics'],
  ['GET', '/readyz'],
  ['GET', '/admin/v1/status'],
])('Versioning: %s %s is not a path of the service', async (method, path) => {
  const answer = await call({
    port,
    key: acme,
    method,
    path,
    ...(method === 'POST' && { body: chatBody('echo-small') }),
  });
  expect(expectRefusal(answer, 'NotFoundError').path).toBe(path);
});

test('Errors 3, Errors 5: a model of the public listing is answered like a request for it', async () => {
  for (const model of ['echo-small', 'echo-idle', 'echo-bare', 'no-such-model']) {
    const asked = await chat({ port, key: acme, model });
    const one = await call({ port, path: `/v1/models/${model}` });
    expect([model, one.status]).toEqual([model, asked.status]);
    if (one.status !== 200)
      expect(JSON.parse(one.content).error.type).toBe(JSON.parse(asked.content).error.type);
  }
});

test('Endpoints 2: HEAD is answered wherever GET is, with the same head and no body', async () => {
  for (const path of ['/v1/models', '/v1/models/echo-small', '/v1/models/echo-bare']) {
    const text = (method: string) =>
      `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`;
    const [head, get] = [await rawRequest(port, text('HEAD')), await rawRequest(port, text('GET'))];
    expect([head.status, head.body]).toEqual([get.status, '']);
    const length = (answer: typeof get) => answer.headers.find((line) => /^content-length/i.test(line));
    expect(length(head)).toBe(length(get));
  }
});

test.each([
  ['an unknown method', 'FOO /v1/models?a=1 HTTP/1.1\r\nHost: a\r\n\r\n', '/v1/models'],
  ['large headers', `GET /v1/models HTTP/1.1\r\nHost: a\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`, '/v1/models'],
  [
    'two lengths',
    'POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
    '/v1/embeddings',
  ],
  [
    'the absolute form',
    'GET http://127.0.0.1/v1/models?a=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n',
    '/v1/models',
  ],
  ['no request line', 'garbage\r\n\r\n', '/'],
])('Error envelope: %s is refused with the requested path', async (_what, text, path) => {
  const answer = await rawRequest(port, text);
  expect([400, 413]).toContain(answer.status);
  expect(JSON.parse(answer.body).error.path).toBe(path);
});
