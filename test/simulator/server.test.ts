/**
 * Tests that a healthy simulated node answers like the engine that it imitates, identically each time, and counts what it
 * did.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { parseBehaviour } from './behaviour.ts';
import { type FaultyNode, type FaultyNodeOptions, startFaultyNode } from './faulty-node.ts';

async function start(options: Partial<FaultyNodeOptions> = {}): Promise<FaultyNode> {
  const node = await startFaultyNode({ models: ['m'], tokensPerSecond: 0, ...options });
  onTestFinished(() => node.close());
  return node;
}

async function post(node: FaultyNode, path: string, body: unknown) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const init = { method: 'POST', body: text, headers: { 'content-type': 'application/json' } };
  const response = await fetch(`${node.url}${path}`, init);
  return { status: response.status, headers: response.headers, text: await response.text() };
}

// biome-ignore lint/suspicious/noExplicitAny: the tests look at fields of many shapes
async function chat(node: FaultyNode, more: object = {}, text = 'hello there'): Promise<any> {
  const body = { model: 'm', messages: [{ role: 'user', content: text }], ...more };
  return JSON.parse((await post(node, '/v1/chat/completions', body)).text);
}

// biome-ignore lint/suspicious/noExplicitAny: the tests look at fields of many shapes
async function stream(node: FaultyNode, more: object = {}, text = 'hello there'): Promise<any[]> {
  const body = { model: 'm', stream: true, messages: [{ role: 'user', content: text }], ...more };
  const answer = (await post(node, '/v1/chat/completions', body)).text;
  const frames = answer.split('\n\n').filter((frame) => frame !== '');
  expect(frames.at(-1)).toBe('data: [DONE]');
  return frames.slice(0, -1).map((frame) => JSON.parse(frame.replace(/^data: /, '')));
}

const weather = {
  type: 'function',
  function: {
    name: 'weather',
    parameters: { type: 'object', required: ['city'], properties: { city: { type: 'string' } } },
  },
};
const time = { type: 'function', function: { name: 'time' } };
const city = '{"city":"text"}';

test('the same request gets the same words and usage, streamed or not', async () => {
  const node = await start();
  const more = { max_tokens: 5 };
  const first = await chat(node, more);
  expect(first.choices[0].message.content).toBe('echo: hello there echo: hello');
  expect(first.choices[0].finish_reason).toBe('length');
  expect(first.usage).toMatchObject({ prompt_tokens: 6, completion_tokens: 5, total_tokens: 11 });
  const again = await chat(node, more);
  expect([again.choices, again.usage]).toEqual([first.choices, first.usage]);
  const frames = await stream(node, { ...more, stream_options: { include_usage: true } });
  const deltas = frames.flatMap((frame) => frame.choices);
  expect(deltas.map((choice) => choice.delta.content ?? '').join('')).toBe('echo: hello there echo: hello');
  expect(deltas.at(-1).finish_reason).toBe('length');
  expect(frames.at(-1)).toMatchObject({ choices: [], usage: first.usage });
});

test('an answer has 16 words, or the number in the behaviour or in the message', async () => {
  const node = await start();
  const words = async (text?: string) => (await chat(node, {}, text)).usage.completion_tokens;
  expect(await words()).toBe(16);
  expect(await words('say 40 words')).toBe(40);
  node.setBehaviour(parseBehaviour({ answerWords: 3 }));
  expect(await words()).toBe(3);
});

test('without include_usage no frame reports usage, and continuous usage reports it in each', async () => {
  const node = await start();
  expect((await stream(node)).filter((frame) => 'usage' in frame)).toEqual([]);
  const options = { include_usage: true, continuous_usage_stats: true };
  const frames = await stream(node, { max_tokens: 2, stream_options: options });
  expect(frames.map((frame) => frame.usage.completion_tokens)).toEqual([0, 1, 2, 2, 2]);
});

test('a stop sequence ends the answer before itself', async () => {
  const choice = (await chat(await start(), { stop: ['xx', 'there'] })).choices[0];
  expect(choice).toMatchObject({
    message: { content: 'echo: hello ' },
    finish_reason: 'stop',
    stop_reason: 'there',
  });
});

test.each([
  [
    'required, and named in the message',
    { tools: [weather, time], tool_choice: 'required' },
    ['weather', 'time'],
    'tool_calls',
  ],
  [
    'required, and not named',
    { tools: [{ type: 'function', function: { name: 'other' } }], tool_choice: 'required' },
    ['other'],
    'tool_calls',
  ],
  [
    'named',
    { tools: [weather, time], tool_choice: { type: 'function', function: { name: 'time' } } },
    ['time'],
    'stop',
  ],
  ['requested in the message', { tools: [weather, time] }, ['weather', 'time'], 'tool_calls'],
  ['not in parallel', { tools: [weather, time], parallel_tool_calls: false }, ['weather'], 'tool_calls'],
  ['none', { tools: [weather], tool_choice: 'none' }, [], 'stop'],
])('tools are called as the request demands: %s', async (_name, more, calls, reason) => {
  const node = await start();
  const text = 'please call weather, then call time.';
  const choice = (await chat(node, more, text)).choices[0];
  const called = choice.message.tool_calls ?? [];
  expect(called.map((call: { function: { name: string } }) => call.function.name)).toEqual(calls);
  expect(choice.finish_reason).toBe(reason);
  if (calls[0] === 'weather') expect(called[0].function.arguments).toBe(city);
  const pieces = (await stream(node, more, text)).flatMap((frame) => frame.choices[0].delta.tool_calls ?? []);
  expect(pieces.filter((piece) => piece.id !== undefined).map((piece) => piece.function.name)).toEqual(calls);
  for (const [index, call] of called.entries()) {
    const fragments = pieces
      .filter((piece) => piece.index === index)
      .map((piece) => piece.function.arguments);
    expect(fragments.join('')).toBe(call.function.arguments);
  }
});

test('each line of calls is a separate turn, and a call gets the input that the user wrote', async () => {
  const node = await start();
  const said = 'call weather with {"city":"{Oslo}"} and call weather with {"city":"Rome"}\nthen call time';
  const turns: [name: string, input: string][][] = [];
  const messages: object[] = [{ role: 'user', content: said }];
  for (let round = 0; round < 3; round += 1) {
    const { message } = (await chat(node, { messages, tools: [weather, time] })).choices[0];
    const calls: { id: string; function: { name: string; arguments: string } }[] = message.tool_calls ?? [];
    turns.push(calls.map(({ function: called }) => [called.name, called.arguments]));
    messages.push(message, ...calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'noon' })));
    if (round === 0)
      messages.push({ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:' } }] });
  }
  expect(turns).toEqual([
    [
      ['weather', '{"city":"{Oslo}"}'],
      ['weather', '{"city":"Rome"}'],
    ],
    [['time', '{}']],
    [],
  ]);
  expect(messages.at(-1)).toMatchObject({ content: expect.stringMatching(/^echo: noon/) });
});

test.each(['call weather with {"city":', 'call weather with {city}', 'call weather with [1]'])(
  'an input that is not an object is replaced by the smallest valid one: %s',
  async (text) => {
    const { message } = (await chat(await start(), { tools: [weather] }, text)).choices[0];
    expect(message.tool_calls[0].function.arguments).toBe(city);
  },
);

test('a structured answer satisfies its schema', async () => {
  const node = await start();
  const schema = weather.function.parameters;
  const format = { type: 'json_schema', json_schema: { name: 'a', schema } };
  expect((await chat(node, { response_format: format })).choices[0].message.content).toBe(city);
  expect((await chat(node, { response_format: { type: 'json_object' } })).choices[0].message.content).toBe(
    '{}',
  );
});

test.each([
  { dialect: 'vllm', field: 'reasoning' },
  { dialect: 'sglang', field: 'reasoning_content' },
] as const)('thinking is returned in $dialect’s field and counted', async ({ dialect, field }) => {
  const node = await start({ dialect });
  const answer = await chat(node, { reasoning_effort: 'low' });
  expect(answer.choices[0].message[field]).toMatch(/^thinking about it/);
  expect(answer.usage).toMatchObject({
    completion_tokens: 22,
    completion_tokens_details: { reasoning_tokens: 6 },
  });
  expect((await chat(node, { reasoning_effort: 'none' })).usage.completion_tokens).toBe(16);
});

test('several choices are counted together and sent side by side', async () => {
  const node = await start();
  expect((await chat(node, { n: 3, max_tokens: 2 })).usage.completion_tokens).toBe(6);
  const indices = (await stream(node, { n: 2, max_tokens: 2 })).map((frame) => frame.choices[0].index);
  expect(indices).toEqual([0, 1, 0, 1, 0, 1, 0, 1]);
});

test('log probabilities are returned for every token', async () => {
  const { content } = (await chat(await start(), { logprobs: true, top_logprobs: 2, max_tokens: 2 }))
    .choices[0].logprobs;
  expect(content).toHaveLength(2);
  expect(content[1]).toMatchObject({ token: ' hello', top_logprobs: [{ token: ' hello' }, {}] });
});

test('embeddings are unit vectors, equal for equal texts, as floats or base64', async () => {
  const node = await start();
  const ask = async (more: object) =>
    JSON.parse((await post(node, '/v1/embeddings', { model: 'm', input: ['a', 'b', 'a'], ...more })).text);
  const floats = await ask({});
  const [a, b, again] = floats.data.map((item: { embedding: number[] }) => item.embedding);
  expect(a).toHaveLength(64);
  expect(a).toEqual(again);
  expect(a).not.toEqual(b);
  expect(Math.hypot(...a)).toBeCloseTo(1, 5);
  expect(floats.usage).toMatchObject({ prompt_tokens: 3, total_tokens: 3 });
  const base64 = await ask({ encoding_format: 'base64', dimensions: 8, input: [[1, 2], [3]] });
  const bytes = Buffer.from(base64.data[0].embedding, 'base64');
  expect(bytes).toHaveLength(32);
  expect(Math.hypot(...Array.from({ length: 8 }, (_, at) => bytes.readFloatLE(at * 4)))).toBeCloseTo(1, 5);
  expect(base64.usage.prompt_tokens).toBe(3);
});

const reranking = {
  model: 'm',
  query: 'the deep water',
  documents: ['a well', 'deep water', 'the sea', 'a'],
};

test.each([
  ['vllm', [2 / 3, 1 / 3, 0, 0]],
  ['sglang', [2 / 3, 1 / 3, 0, 0]],
  ['llamacpp', [10 / 3, -10 / 3, -10, -10]],
] as const)(
  '%s scores documents by the query words that they contain, best first',
  async (dialect, scores) => {
    const node = await start({ dialect, reranks: true });
    const answer = JSON.parse((await post(node, '/v1/rerank', reranking)).text);
    const results: Record<string, number>[] = answer.results ?? answer;
    expect(results.map(({ index }) => index)).toEqual([1, 2, 0, 3]);
    for (const [at, { relevance_score, score }] of results.entries())
      expect(relevance_score ?? score).toBeCloseTo(scores[at] ?? Number.NaN);
    // The query's four tokens count once for each document, in addition to the documents' own tokens.
    if (dialect !== 'sglang') expect(answer.usage).toEqual({ prompt_tokens: 24, total_tokens: 24 });
    expect(node.stats()).toMatchObject({ promptTokens: 24, completionTokens: 0 });
  },
);

test('a reranking engine has the routes of its kind, as far as it distinguishes them', async () => {
  const statuses = async (node: FaultyNode) => {
    const paths = ['/v1/rerank', '/v1/embeddings', '/v1/chat/completions'];
    const asked = { ...reranking, input: 'a', messages: [{ role: 'user', content: 'a' }] };
    return Promise.all(paths.map(async (path) => (await post(node, path, asked)).status));
  };
  for (const [dialect, chats, reranks] of [
    ['vllm', [404, 200, 200], [200, 404, 404]],
    ['sglang', [200, 200, 200], [200, 200, 200]],
    ['llamacpp', [501, 200, 200], [200, 200, 200]],
    ['ollama', [404, 200, 200], [404, 200, 200]],
  ] as const) {
    expect(await statuses(await start({ dialect }))).toEqual(chats);
    expect(await statuses(await start({ dialect, reranks: true }))).toEqual(reranks);
  }
  const node = await start({ reranks: true, contextTokens: 6 });
  expect((await post(node, '/v1/rerank', reranking)).status).toBe(400);
});

test.each<
  [name: string, more: object, status: number, error: { message?: RegExp; [field: string]: unknown }]
>([
  ['unknown model', { model: 'x' }, 404, { type: 'NotFoundError', code: 404 }],
  ['answer beyond the window', { max_tokens: 200 }, 400, { message: /cannot be greater/ }],
  ['both beyond the window', { max_tokens: 97 }, 400, { message: /maximum context length/ }],
  [
    'prompt beyond the window',
    { messages: [{ role: 'user', content: 'a'.repeat(400) }] },
    400,
    { message: /maximum context length is 100 tokens/ },
  ],
  ['no answer requested', { max_tokens: 0 }, 400, { param: null }],
  ['empty tools', { tools: [] }, 400, { param: 'tools' }],
  ['choice without tools', { tool_choice: 'auto' }, 400, { param: 'tool_choice' }],
  ['stream options without a stream', { stream_options: {} }, 400, {}],
  ['no messages', { messages: undefined }, 400, { param: 'messages' }],
])('vLLM refuses: %s', async (_name, more, status, error) => {
  const node = await start({ contextTokens: 100 });
  const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }], ...more };
  const answer = await post(node, '/v1/chat/completions', body);
  expect(answer.status).toBe(status);
  const returned = JSON.parse(answer.text).error;
  const { message, ...rest } = error;
  expect(returned.message).toMatch(message ?? /./);
  expect(returned).toMatchObject(rest);
});

test('a body that is not a JSON object, or has another content type, is refused', async () => {
  const node = await start();
  expect((await post(node, '/v1/chat/completions', '{"model":')).status).toBe(400);
  expect((await post(node, '/v1/chat/completions', '[1]')).status).toBe(400);
  const init = { method: 'POST', body: '{}', headers: { 'content-type': 'text/plain' } };
  expect((await fetch(`${node.url}/v1/chat/completions`, init)).status).toBe(400);
});

test.each([
  { dialect: 'vllm', status: 404, model: undefined, text: '"type":"NotFoundError"' },
  { dialect: 'sglang', status: 200, model: 'x', text: 'matched_stop' },
  { dialect: 'llamacpp', status: 200, model: 'm', text: 'timings' },
  { dialect: 'ollama', status: 404, model: undefined, text: '"type":"api_error"' },
] as const)('an unknown model is answered as by $dialect', async ({ dialect, status, model, text }) => {
  const node = await start({ dialect });
  const body = { model: 'x', messages: [{ role: 'user', content: 'hi' }] };
  const answer = await post(node, '/v1/chat/completions', body);
  expect(answer.status).toBe(status);
  expect(answer.text).toContain(text);
  expect(JSON.parse(answer.text).model).toBe(model);
});

test.each([
  { dialect: 'vllm', text: 'maximum context length is 10 tokens', status: 400 },
  { dialect: 'sglang', text: '{"object":"error","message":"The input (12 tokens) is longer', status: 400 },
  {
    dialect: 'llamacpp',
    text: '"type":"exceed_context_size_error","n_prompt_tokens":12,"n_ctx":10',
    status: 400,
  },
  { dialect: 'ollama', text: '"prompt_tokens":10', status: 200 },
] as const)('a prompt beyond the window is answered as by $dialect', async ({ dialect, text, status }) => {
  const node = await start({ dialect, contextTokens: 10 });
  const body = { model: 'm', messages: [{ role: 'user', content: 'a'.repeat(36) }] };
  const answer = await post(node, '/v1/chat/completions', body);
  expect(answer.text).toContain(text);
  expect(answer.status).toBe(status);
});

test.each([
  { dialect: 'vllm', path: '/health', status: 200, text: '' },
  { dialect: 'vllm', path: '/version', status: 200, text: '{"version":"0.32.0"}' },
  { dialect: 'vllm', path: '/v1/models/m', status: 404, text: '{"detail":"Not Found"}' },
  { dialect: 'vllm', path: '/v1/chat/completions', status: 405, text: '{"detail":"Method Not Allowed"}' },
  { dialect: 'sglang', path: '/health', status: 200, text: '' },
  { dialect: 'sglang', path: '/v1/models/m', status: 200, text: '"owned_by":"sglang"' },
  { dialect: 'llamacpp', path: '/health', status: 200, text: '{"status":"ok"}' },
  { dialect: 'llamacpp', path: '/v1/models', status: 200, text: '"n_ctx":131072' },
  { dialect: 'llamacpp', path: '/nothing', status: 404, text: 'File Not Found' },
  { dialect: 'ollama', path: '/health', status: 404, text: '404 page not found' },
  { dialect: 'ollama', path: '/', status: 200, text: 'Ollama is running' },
  { dialect: 'vllm', path: '/v1/models', status: 200, text: '"max_model_len":131072' },
] as const)('$dialect answers GET $path with $status', async ({ dialect, path, status, text }) => {
  const response = await fetch(`${(await start({ dialect })).url}${path}`);
  expect(response.status).toBe(status);
  expect(await response.text()).toContain(text);
});

test.each([
  {
    dialect: 'vllm',
    path: '/tokenize',
    body: { messages: [{ content: 'abcde' }] },
    counted: { count: 5, max_model_len: 131_072 },
  },
  { dialect: 'sglang', path: '/tokenize', body: { prompt: 'abcde' }, counted: { count: 2 } },
  { dialect: 'llamacpp', path: '/tokenize', body: { content: 'abcde' }, counted: { tokens: [0, 1] } },
  {
    dialect: 'llamacpp',
    path: '/v1/chat/completions/input_tokens',
    body: { messages: [{ content: 'abcde' }] },
    counted: { input_tokens: 5 },
  },
] as const)('$dialect counts tokens at $path as in its usage', async ({ dialect, path, body, counted }) => {
  const node = await start({ dialect });
  expect(JSON.parse((await post(node, path, body)).text)).toMatchObject(counted);
});

test('a stream keeps its pace and ends on time', async () => {
  const node = await start({ tokensPerSecond: 200 });
  const began = performance.now();
  await stream(node, { max_tokens: 10 });
  const tookMs = performance.now() - began;
  // Before the last part of the answer, the node waits 12 times for 5 ms.
  expect(tookMs).toBeGreaterThan(55);
});

test('a client that leaves in mid-stream is counted, and its answer stops', async () => {
  const node = await start({ tokensPerSecond: 50 });
  const gone = new AbortController();
  const body = JSON.stringify({
    model: 'm',
    stream: true,
    messages: [{ role: 'user', content: 'say 500 words' }],
  });
  const headers = { 'content-type': 'application/json', 'x-request-id': 'r-1' };
  const init = { method: 'POST', body, headers, signal: gone.signal };
  const response = await fetch(`${node.url}/v1/chat/completions`, init);
  await response.body!.getReader().read();
  expect(node.stats().inFlight).toBe(1);
  gone.abort();
  await vi.waitFor(() =>
    expect(node.stats()).toMatchObject({ inFlight: 0, abortedByClient: 1, terminated: 0 }),
  );
  expect(node.stats().exchanges).toMatchObject([
    { requestId: 'r-1', model: 'm', stream: true, outcome: 'aborted' },
  ]);
  expect(node.stats().completionTokens).toBe(0);
});

/** Opens a client that sends a request and never reads the answer. */
async function deaf(node: FaultyNode, body: object): Promise<Socket> {
  const text = JSON.stringify(body);
  const socket = connect(node.port, '127.0.0.1');
  socket.pause();
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  );
  await vi.waitFor(() => expect(node.stats().inFlight).toBe(1));
  await fetch(`${node.url}/sim/stats`);
  return socket;
}

test('a client that does not read stops the node from writing until it reads', async () => {
  const rules = [{ fault: { kind: 'huge-event', bytes: 100_000_000 } }];
  const node = await start({ behaviour: parseBehaviour({ rules }) });
  const body = { model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] };
  const before = process.memoryUsage().rss;
  const socket = await deaf(node, body);
  expect(process.memoryUsage().rss - before).toBeLessThan(60_000_000);
  let bytes = 0;
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  socket.resume();
  await vi.waitFor(() => expect(node.stats().inFlight).toBe(0), 20_000);
  await vi.waitFor(() => expect(bytes).toBeGreaterThan(100_000_000), 20_000);
  socket.destroy();
});

test('a stream completes with its terminator, even if its client leaves at that moment', async () => {
  const node = await start({ tokensPerSecond: 10 });
  const content = { model: 'm', stream: true, max_tokens: 1, messages: [{ role: 'user', content: 'hello' }] };
  const body = JSON.stringify(content);
  const socket = connect(Number(new URL(node.url).port), '127.0.0.1');
  socket.write(`POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n`);
  socket.write(`content-length: ${body.length}\r\n\r\n${body}`);
  let text = '';
  socket.on('data', (bytes) => {
    text += bytes;
    if (text.includes('data: [DONE]')) socket.destroy();
  });
  await once(socket, 'close');
  await vi.waitFor(() => expect(node.stats()).toMatchObject({ inFlight: 0, completed: 1, terminated: 1 }));
});

test('an answer that never reached its disconnected client is not completed', async () => {
  const node = await start({ contextTokens: 10_000_000 });
  const content = `say 300000 words ${'a'.repeat(200)}`;
  const socket = await deaf(node, { model: 'm', messages: [{ role: 'user', content }] });
  expect(node.stats().inFlight).toBe(1);
  socket.destroy();
  await vi.waitFor(() =>
    expect(node.stats()).toMatchObject({ inFlight: 0, completed: 0, abortedByClient: 1 }),
  );
  expect(node.stats().completionTokens).toBe(0);
});

test('stats report completed answers and their tokens', async () => {
  const node = await start({ recordBodies: true });
  await chat(node, { max_tokens: 2 });
  await stream(node, { max_tokens: 3 });
  await post(node, '/v1/embeddings', { model: 'm', input: 'abcd' });
  await vi.waitFor(() => expect(node.stats().inFlight).toBe(0));
  expect(node.stats()).toMatchObject({
    requests: 3,
    completed: 3,
    terminated: 1,
    promptTokens: 13,
    completionTokens: 5,
    bodies: [{ max_tokens: 2 }, { max_tokens: 3 }, { input: 'abcd' }],
    exchanges: [{ id: 'chatcmpl-0000000000000001' }, {}, { path: '/v1/embeddings' }],
  });
  const reported = await (await fetch(`${node.url}/sim/stats`)).json();
  expect(reported).toEqual(node.stats());
});

test('bodies are kept only on request, and only the newest hundred', async () => {
  const quiet = await start();
  await chat(quiet);
  expect(quiet.stats().bodies).toEqual([]);
  const node = await start({ recordBodies: true });
  for (let n = 0; n < 103; n += 1) await chat(node, { seed: n });
  expect(node.stats().bodies).toHaveLength(100);
  expect(node.stats().bodies[0]).toMatchObject({ seed: 3 });
});

test('requests beyond the slots wait in order, and one that leaves frees its place', async () => {
  const rules = [{ match: { times: 1 }, fault: { kind: 'stall' } }];
  const node = await start({ concurrency: 1, behaviour: parseBehaviour({ rules }) });
  const first = new AbortController();
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] });
  const init = { method: 'POST', body, headers: { 'content-type': 'application/json' } };
  const url = `${node.url}/v1/chat/completions`;
  const stalled = fetch(url, { ...init, signal: first.signal }).catch(() => 'gone');
  await vi.waitFor(() => expect(node.stats().inFlight).toBe(1));
  const second = new AbortController();
  const given = fetch(url, { ...init, signal: second.signal }).catch(() => 'gone');
  await vi.waitFor(() => expect(node.stats().inFlight).toBe(2));
  const third = fetch(url, init);
  await vi.waitFor(() => expect(node.stats().inFlight).toBe(3));
  second.abort();
  expect(await given).toBe('gone');
  await vi.waitFor(() => expect(node.stats()).toMatchObject({ inFlight: 2, completed: 0 }));
  first.abort();
  expect(await stalled).toBe('gone');
  expect((await third).status).toBe(200);
});

test('the behaviour can be replaced over HTTP, and an invalid document changes nothing', async () => {
  const node = await start();
  const send = (method: string, path: string, body: unknown) =>
    fetch(`${node.url}${path}`, { method, body: JSON.stringify(body) });
  const rules = [{ fault: { kind: 'status', status: 503 } }];
  expect((await send('PUT', '/sim/behaviour', { rules })).status).toBe(200);
  const ask = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };
  expect((await post(node, '/v1/chat/completions', ask)).status).toBe(503);
  const wrong = await send('PUT', '/sim/behaviour', {
    rules: [{ fault: { kind: 'replay', file: '/etc/passwd' } }],
  });
  expect(wrong.status).toBe(400);
  expect((await post(node, '/v1/chat/completions', ask)).status).toBe(503);
  expect((await fetch(`${node.url}/sim/other`)).status).toBe(404);
  expect(node.stats().requests).toBe(2);
});

test('refused: nothing listens until the time is over', async () => {
  const node = await start();
  const connections = { mode: 'refused', forMs: 150 };
  const put = await fetch(`${node.url}/sim/behaviour`, {
    method: 'PUT',
    body: JSON.stringify({ connections }),
  });
  expect(put.status).toBe(200);
  const refused = connect(node.port, '127.0.0.1');
  const [error] = await once(refused, 'error');
  expect(error).toMatchObject({ code: 'ECONNREFUSED' });
  await vi.waitFor(async () => expect((await fetch(`${node.url}/health`)).status).toBe(200), 5000);
});

test('reset: every connection is reset at once, until the behaviour is replaced', async () => {
  const node = await start({ behaviour: parseBehaviour({ connections: { mode: 'reset' } }) });
  await expect(fetch(`${node.url}/health`)).rejects.toThrow();
  node.setBehaviour(parseBehaviour({}));
  expect((await fetch(`${node.url}/health`)).status).toBe(200);
});

test('a closed node releases its port and leaves no timer', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  const rules = [{ fault: { kind: 'latency', firstTokenMs: 500_000 } }];
  const node = await start({
    behaviour: parseBehaviour({ rules, connections: { mode: 'reset', forMs: 1 } }),
  });
  await vi.waitFor(async () => expect((await fetch(`${node.url}/health`)).status).toBe(200));
  const hanging = chat(node).catch(() => 'gone');
  await vi.waitFor(() => expect(node.stats().inFlight).toBe(1));
  await node.close();
  await node.close();
  expect(await hanging).toBe('gone');
  await vi.waitFor(() => expect(timers()).toBeLessThanOrEqual(before));
  const other = await start({ port: node.port });
  expect(other.port).toBe(node.port);
});

test('a node closed while it refuses connections does not come back', async () => {
  const connections = { mode: 'refused', forMs: 20 };
  const node = await start({ behaviour: parseBehaviour({ connections }) });
  await node.close();
  const other = await start({ port: node.port });
  expect(other.port).toBe(node.port);
});

test('a port that is in use is an error at the start', async () => {
  const node = await start();
  await expect(startFaultyNode({ models: [], port: node.port })).rejects.toThrow('another process uses');
});
