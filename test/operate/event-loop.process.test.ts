/**
 * Tests that no request body from a client and no response body from a node blocks the event loop of a running gateway. Other
 * organisations' requests must continue meanwhile. Measures CPU time of the main thread, so a busy machine makes no
 * difference.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Fleet } from '../../schemas/events/fleet.ts';
import { type GatewayProcess, ProcessFleet } from '../support/process-fleet.ts';

const roundsMax = 4;
const turnMsMax = 50;

const fleet = new ProcessFleet();
const turns = join(fleet.dir, 'turns');
const worstNode = new URL('../support/worst-node.mjs', import.meta.url).pathname;
const meter = new URL('../support/turn-meter.mjs', import.meta.url).href;
const metered = { NODE_OPTIONS: `--import=${meter}`, HEADGATE_TEST_TURNS: turns };

const MiB = 1024 * 1024;
/** Slightly below the largest allowed body. */
const size = 32 * MiB - 1000;
const figures: string[] = [];
let gateway: GatewayProcess;
let node: ChildProcess;
let keys: Readonly<Record<string, string>>;

beforeAll(async () => {
  node = spawn(process.execPath, [worstNode], { stdio: ['pipe', 'pipe', 'inherit'] });
  const [line] = (await once(node.stdout as Readable, 'data')) as [Buffer];
  const urls = JSON.parse(line.toString()) as Record<'plain' | 'worst', string>;
  const model = (id: string) => ({ id, family: 'echo', weight: 1 });
  const document = (): Fleet => ({
    version: 1,
    models: [model('plain'), model('worst')],
    tiers: [
      { id: 'Small', models: '*', contextTokens: 8192 },
      { id: 'Pro', models: '*' },
    ],
    pool: {
      models: ['plain', 'worst'],
      nodes: (['plain', 'worst'] as const).map((id) => ({ id, url: urls[id], dialect: 'vllm' as const })),
    },
    organisations: ['heavy', 'light']
      .map((id) => ({ id, name: id, tier: 'Pro' }))
      .concat({ id: 'small', name: 'small', tier: 'Small' }),
  });
  ({ keys, gateway } = await fleet.stand({ document, gateway: { env: metered } }));
  await vi.waitUntil(async () => (await ask('/chat/completions', chat('"hello"'), 'light')).status === 200, {
    timeout: 30_000,
    interval: 100,
  });
});
afterAll(async () => {
  console.log(figures.join('\n'));
  await fleet.close();
  node?.stdin?.end();
});

async function ask(
  path: string,
  body: string | Uint8Array,
  key: string,
  version?: string,
): Promise<Response> {
  return fetch(`${gateway.ready.api}${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${keys[key]}`,
      'content-type': 'application/json',
      ...(version !== undefined && { 'anthropic-version': version }),
    },
    body,
  });
}

/**
 * Sends a chat request in which each byte of the body is a chunk of its own. Resolves with the status, or '' if the
 * connection was closed.
 */
async function oneByteChunks(text: string): Promise<string> {
  const { port } = new URL(gateway.ready.api);
  const socket = connect(Number(port), '127.0.0.1');
  let answer = '';
  socket.on('data', (data) => {
    answer += data.toString('latin1');
  });
  await once(socket, 'connect');
  const head = [
    'POST /v1/chat/completions HTTP/1.1',
    'Host: 127.0.0.1',
    `Authorization: Bearer ${keys['heavy']}`,
    'Content-Type: application/json',
    'Transfer-Encoding: chunked',
    'Connection: close',
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  socket.write(Buffer.from([...text].map((byte) => `1\r\n${byte}\r\n`).join('')));
  socket.write('0\r\n\r\n');
  socket.on('error', () => undefined);
  await new Promise((resolve) => socket.once('close', resolve));
  return answer.slice(9, 12);
}

/** Returns the longest turn of the event loop since the previous call, in ms. */
async function longestTurnMs(): Promise<number> {
  rmSync(turns, { force: true });
  gateway.child.kill('SIGUSR2');
  await vi.waitUntil(() => existsSync(turns), { timeout: 60_000, interval: 5 });
  return Number(readFileSync(turns, 'utf8'));
}

/**
 * Returns the longest turn of the event loop, in ms, while `run` runs and another organisation sends one request after
 * another.
 */
async function measureTurn(run: () => Promise<string>) {
  await longestTurnMs();
  let isOver = false;
  let answered = 0;
  const others = (async () => {
    while (!isOver) {
      const { status } = await ask('/chat/completions', chat('"hello"'), 'light');
      if (status === 200) answered++;
    }
  })();
  const startMs = performance.now();
  const ended = await run();
  const tookMs = performance.now() - startMs;
  isOver = true;
  await others;
  return { ended, tookMs, answered, longest: await longestTurnMs() };
}

/**
 * Takes the best of a few rounds. Code that blocks the loop does so in every round, but a major garbage collection or a busy
 * neighbour on the same core does not.
 */
async function measure(name: string, run: () => Promise<string>): Promise<void> {
  let best = await measureTurn(run);
  for (let round = 1; round < roundsMax && best.longest >= turnMsMax; round++) {
    const next = await measureTurn(run);
    if (next.longest < best.longest) best = next;
  }
  const { ended, tookMs, answered, longest } = best;
  figures.push(
    `${name.padEnd(52)} longest turn ${longest.toFixed(1).padStart(8)} ms  took ${tookMs.toFixed(0).padStart(6)} ms  others ${String(answered).padStart(4)}  ${ended}`,
  );
  expect(longest).toBeLessThan(turnMsMax);
  expect(answered).toBeGreaterThanOrEqual(Math.floor(tookMs / 1000));
}

/** Repeats the unit as often as the size allows. */
function fill(
  before: string,
  unit: string | ((n: number) => string),
  after: string,
  most = Infinity,
  bytes = size,
): string {
  const units: string[] = [];
  let left = bytes - before.length - after.length;
  for (let n = 0; n < most; n++) {
    const one = typeof unit === 'string' ? unit : unit(n);
    left -= Buffer.byteLength(one) + 1;
    if (left < 0) break;
    units.push(one);
  }
  return before + units.join() + after;
}

const head = '{"model":"plain","messages":[{"role":"user","content":';
const chat = (content: string, more = '') => `${head}${content}}]${more}}`;
const withTool = (parameters: string) =>
  chat('"x"', `,"tools":[{"type":"function","function":{"name":"f","parameters":${parameters}}}]`);
const messages = (content: string, more = '') =>
  `{"model":"plain","max_tokens":9,"messages":[{"role":"user","content":${content}}]${more}}`;
const anthropicTool = (schema: string) => messages('"x"', `,"tools":[{"name":"f","input_schema":${schema}}]`);
const embeddings = (input: string) => `{"model":"plain","input":${input}}`;
const name = (n: number) => `"k${n.toString(36)}":0`;
const worst = (answer: string, more = {}) =>
  JSON.stringify({ model: 'worst', messages: [{ role: 'user', content: `answer:${answer}` }], ...more });
const deep = (n: number) => `${'['.repeat(50)}${n}${']'.repeat(50)}`;
const bytesOf = (unit: string, bytes = size - 200) =>
  unit.repeat(Math.floor(bytes / Buffer.byteLength(unit)));

const chatBodies: Record<string, () => string> = {
  'distinct unknown names': () => fill(`${chat('"x"').slice(0, -1)},`, name, '}'),
  'distinct unknown names within the bound': () =>
    fill(`${chat('"x"').slice(0, -1)},`, (n) => `"${'k'.repeat(600)}${n}":0`, '}', 49_990),
  'distinct names in the parameters of a tool': () => withTool(fill('{', name, '}', Infinity, size - 200)),
  'names in the parameters within the bound': () =>
    withTool(fill('{', (n) => `"${'k'.repeat(600)}${n}":${n}`, '}', 49_980, size - 200)),
  'empty objects without end': () => fill('{"model":"plain","messages":[', '{}', ']}'),
  'empty objects in the parameters within the bound': () => withTool(fill('{"a":[', '{}', ']}', 499_900)),
  'many messages': () => fill('{"model":"plain","messages":[', '{"role":"user","content":"a"}', ']}', 9_999),
  'many parts': () =>
    fill(
      '{"model":"plain","messages":[',
      `{"role":"user","content":[${Array(999).fill('{"type":"text","text":"a"}').join()}]}`,
      ']}',
      24,
    ),
  'deep arrays in the parameters': () => withTool(fill('{"a":[', deep, ']}', 9_700)),
  'numbers in the parameters': () => withTool(fill('{"a":[', '1e9', ']}', 499_900)),
  'a text': () => chat(`"${bytesOf('a')}"`),
  'a text of escaped quotes': () => chat(`"${bytesOf('\\"')}"`),
  'a text of backslashes': () => chat(`"${bytesOf('\\\\')}"`),
  'a text of escaped surrogates': () => chat(`"${bytesOf('\\ud83d\\ude00')}"`),
  'a text of wide characters': () => chat(`"${bytesOf('€')}"`),
  'an image': () =>
    chat(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,${bytesOf('iVBORw0K')}"}}]`),
  'text that is no JSON': () => bytesOf('[1 '),
  spaces: () => ' '.repeat(size),
};
/** Bodies that are just small enough for the main thread to process, instead of the worker. */
const smallBodies: Record<string, () => string> = {
  '256 KiB: 2 000 names': () =>
    withTool(fill('{', (n) => `"${'k'.repeat(100)}${n}":${n}`, '}', 1_980, 255 * 1024)),
  '256 KiB: 10 000 objects': () => withTool(fill('{"a":[', '{}', ']}', 9_900, 255 * 1024)),
  '256 KiB: parts': () =>
    chat(
      `[${Array(990)
        .fill(`{"type":"text","text":"${'a'.repeat(200)}"}`)
        .join()}]`,
    ),
  '256 KiB: escaped quotes': () => chat(`"${bytesOf('\\"', 250 * 1024)}"`),
  '256 KiB: 2 001 names': () =>
    withTool(fill('{', (n) => `"${'k'.repeat(80)}${n}":${n}`, '}', 2_500, 255 * 1024)),
};

// Runs first, while the process still holds no memory from an earlier body.
test('a body of one-byte chunks takes memory for its bytes, not for its chunks', async () => {
  const proc = `/proc/${gateway.child.pid}`;
  const residentMiB = (field: string): number =>
    Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`${proc}/status`, 'utf8'))?.[1]) / 1024;
  // A large body starts the worker, so that the memory measured from here on does not include its start.
  await ask('/chat/completions', ' '.repeat(MiB), 'heavy');
  writeFileSync(`${proc}/clear_refs`, '5');
  const before = residentMiB('VmRSS');
  // The body is not JSON, so it is refused with 400, unless Node's HTTP server closes the connection before the response.
  expect(['400', '']).toContain(await oneByteChunks(' '.repeat(4_000_000)));
  const grown = residentMiB('VmHWM') - before;
  figures.push(`four million one-byte chunks: ${grown.toFixed(0)} MiB more were resident`);
  // If each chunk were kept as an object of its own, they would take about 1500 MiB.
  expect(grown).toBeLessThan(300);
});

test.each(Object.entries({ ...chatBodies, ...smallBodies }))(
  'no chat body blocks the event loop for 50 ms: %s',
  async (title, body) => {
    const bytes = Buffer.from(body());
    await measure(`chat: ${title}`, async () =>
      String((await ask('/chat/completions', bytes, 'heavy')).status),
    );
  },
);

const messagesBodies: Record<string, () => string> = {
  'distinct unknown names': () => fill(`${messages('"x"').slice(0, -1)},`, name, '}'),
  'names in a tool’s schema within the bound': () =>
    anthropicTool(fill('{', (n) => `"${'k'.repeat(600)}${n}":${n}`, '}', 49_980, size - 200)),
  'many blocks': () => messages(fill('[', '{"type":"text","text":"a"}', ']', 1_000)),
  'a text': () => messages(`"${bytesOf('a')}"`),
  'an image': () =>
    messages(
      `[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"${bytesOf('iVBORw0K')}"}}]`,
    ),
  'stop sequences': () => messages('"x"', `,"stop_sequences":["${bytesOf('a')}"]`),
};

test.each(Object.entries(messagesBodies))(
  'no message body blocks the event loop for 50 ms: %s',
  async (title, body) => {
    const bytes = Buffer.from(body());
    await measure(`messages: ${title}`, async () =>
      String((await ask('/messages', bytes, 'heavy', '2023-06-01')).status),
    );
  },
);

test.each(
  Object.entries({
    '2 048 texts': () => embeddings(fill('[', `"${'a'.repeat(15_000)}"`, ']', 2_048)),
    'token ids': () => embeddings(fill('[', `[${Array(2_048).fill('12345').join()}]`, ']', 243)),
    'more token ids than allowed': () => embeddings(fill('[', '[1]', ']')),
  }),
)('no embeddings body blocks the event loop for 50 ms: %s', async (title, body) => {
  const bytes = Buffer.from(body());
  await measure(`embeddings: ${title}`, async () =>
    String((await ask('/embeddings', bytes, 'heavy')).status),
  );
});

test('a prompt counted by its node does not block the event loop', async () => {
  const bytes = Buffer.from(chat(`"${bytesOf('word ')}"`));
  await measure('chat: counted by the node', async () =>
    String((await ask('/chat/completions', bytes, 'small')).status),
  );
});

test('several large bodies at once do not add up their delays', async () => {
  const bytes = Buffer.from(chat(`"${bytesOf('a', 15 * MiB)}"`));
  await measure('chat: four texts of 15 MiB at once', async () => {
    const answers = await Promise.all([1, 2, 3, 4].map(() => ask('/chat/completions', bytes, 'heavy')));
    return answers.map(({ status }) => status).join();
  });
});

// This test comes closest to the bound, and other processes that share the core's caches increase even CPU time. So allow
// retries.
test('a body of one-byte chunks does not block the event loop', { retry: 2 }, async () => {
  const text = chat(`"${'a'.repeat(1_000_000)}"`);
  await measure('chat: a million one-byte chunks', () => oneByteChunks(text));
  expect(await oneByteChunks(chat(`"${'a'.repeat(1_000)}"`))).toBe('200');
});

test.each(['text', 'escapes', 'names', 'objects', 'error', 'chunks'])(
  'no answer from a node blocks the event loop for 50 ms: %s',
  async (answer) => {
    await measure(`answer: ${answer}`, async () => {
      const response = await ask('/chat/completions', worst(answer), 'heavy');
      return `${response.status} ${(await response.arrayBuffer()).byteLength}`;
    });
  },
);

const linesAround = ['lines', 'names', 'folds', 'fits'].flatMap((lines) => [
  `trailer-${lines}`,
  `head-${lines}`,
]);
test.each(linesAround)('no lines around an answer block the event loop for 50 ms: %s', async (answer) => {
  await measure(`answer: ${answer}`, async () => {
    const { status } = await ask('/chat/completions', worst(answer), 'heavy');
    expect(status).toBe(answer.endsWith('fits') ? 200 : 503);
    return String(status);
  });
});

test.each([1024, 64])(
  'embedding vectors do not block the event loop: 2 048 with %i numbers each',
  async (numbers) => {
    const input = Array.from({ length: 2048 }, () => `answer:vectors-${numbers}`);
    const body = JSON.stringify({ model: 'worst', input });
    await measure(`answer: 2 048 vectors of ${numbers}`, async () => {
      const response = await ask('/embeddings', body, 'heavy');
      const { byteLength } = await response.arrayBuffer();
      expect(response.status).toBe(200);
      return `200 ${byteLength}`;
    });
  },
);

test.each(['event-names', 'event-objects', 'event-text', 'events'])(
  'no stream from a node blocks the event loop for 50 ms: %s',
  async (answer) => {
    await measure(`stream: ${answer}`, async () => {
      const response = await ask('/chat/completions', worst(answer, { stream: true }), 'heavy');
      return `${response.status} ${(await response.text().catch(() => 'cut')).length}`;
    });
  },
);
