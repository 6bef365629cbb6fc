/**
 * Sends large prompts of one organisation through a real gateway. Together they exceed the organisation's share of the memory
 * for request bodies. A prompt counts only until its node has received it, so none is refused because others wait for a first
 * token. Memory stays bounded, and another organisation's requests are served meanwhile.
 */
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Fleet } from '../../schemas/events/fleet.ts';
import { type GatewayProcess, type Plane, ProcessFleet } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

const MiB = 1024 * 1024;

/** A node that reads and answers requests only when the test allows it. */
class GatedNode {
  reads = true;
  answers = false;
  readonly taken: ServerResponse[] = [];
  readonly #unread: IncomingMessage[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((request, response) => this.#handle(request, response));

  async start(): Promise<string> {
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    request.on('error', () => undefined);
    if (request.method === 'GET') {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ object: 'list', data: [{ id: 'gated', object: 'model' }] }));
      return;
    }
    request.on('end', () => {
      this.taken.push(response);
      if (this.answers) this.answerAll();
    });
    if (this.reads) request.resume();
    else this.#unread.push(request);
  }

  readOn(): void {
    this.reads = true;
    for (const request of this.#unread.splice(0)) request.resume();
  }

  answerAll(): void {
    this.answers = true;
    const choices = [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }];
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    for (const response of this.taken.splice(0)) {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ object: 'chat.completion', model: 'gated', choices, usage }));
    }
  }

  /** Closes all connections to the node, which ends their requests. The node serves later requests normally. */
  cut(): void {
    this.#unread.length = 0;
    this.taken.length = 0;
    this.reads = true;
    this.answers = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

const fleet = new ProcessFleet();
const gated = new GatedNode();
let gateway: GatewayProcess;
let keys: Readonly<Record<string, string>>;
const models = ['slow', 'quick', 'gated'];
const organisations = ['acme', 'birch'];

beforeAll(async () => {
  const behaviour = join(fleet.dir, 'slow.json');
  const fault = { kind: 'latency', firstTokenMs: 4000 };
  writeFileSync(behaviour, JSON.stringify({ answerWords: 3, rules: [{ fault }] }));
  const window = ['--context-tokens', '100000000'];
  const gatedUrl = await gated.start();
  const document = (...urls: string[]): Fleet => ({
    version: 1,
    models: models.map((id) => ({ id, family: 'test' })),
    tiers: [{ id: 'Wide', requestsPerMinute: 1_000_000, concurrency: 100_000, models: '*' }],
    pool: { models, nodes: [...urls, gatedUrl].map((url, at) => ({ id: `n${at}`, url, dialect: 'vllm' })) },
    organisations: organisations.map((id) => ({ id, name: id, tier: 'Wide' })),
  });
  const nodes = [
    ['--models', 'slow', '--behaviour', behaviour, ...window],
    ['--models', 'quick', ...window],
  ];
  const more = ({ ready }: Plane) => ({ flags: ['--control-plane', ready.admin, '--drain-timeout', '60'] });
  ({ keys, gateway } = await fleet.stand({ document, nodes, gateway: more }));
  gated.answers = true;
  for (const model of models) await until(async () => (await ask('acme', model, 10)).status === 200);
});
afterAll(async () => {
  gated.close();
  await fleet.close();
});

interface PromptAnswer {
  /** HTTP status, or 0 if the connection was lost. */
  readonly status: number;
  readonly ms: number;
  readonly text: string;
}

let prompts = 0;
async function ask(organisation: string, model: string, bytes: number): Promise<PromptAnswer> {
  const beganMs = performance.now();
  // Each prompt begins with its own number, so that no two share a prefix.
  const content = `${prompts++} ${'lorem ipsum dolor '.repeat(Math.ceil(bytes / 18)).slice(0, bytes)}`;
  const body = JSON.stringify({ model, max_tokens: 5, messages: [{ role: 'user', content }] });
  const headers = { authorization: `Bearer ${keys[organisation]}`, 'content-type': 'application/json' };
  try {
    const url = `${gateway.ready.api}/chat/completions`;
    const response = await fetch(url, { method: 'POST', headers, body });
    const text = await response.text();
    return { status: response.status, ms: performance.now() - beganMs, text };
  } catch (error) {
    return { status: 0, ms: performance.now() - beganMs, text: String(error) };
  }
}

const statuses = (answers: readonly PromptAnswer[]): number[] => answers.map(({ status }) => status);
const many = (count: number, model: string, bytes: number): Promise<PromptAnswer>[] =>
  Array.from({ length: count }, () => ask('acme', model, bytes));

async function gauge(name: string): Promise<number> {
  const text = await (await fetch(`${gateway.ready.metrics}/metrics`)).text();
  return Number(new RegExp(`^headgate_request_${name} (\\d+)`, 'm').exec(text)?.[1]);
}
const bodyBytes = () => gauge('body_bytes');
const bodiesWaiting = () => gauge('bodies_waiting');

async function expectNothingHeld(): Promise<void> {
  expect([await bodyBytes(), await bodiesWaiting()]).toEqual([0, 0]);
}

function memoryMiB(field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${gateway.child.pid}/status`, 'utf8');
  return Math.round(Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) / 1024);
}

const spreadMs = 2000;
/**
 * Largest memory of the gateway, in MiB: its memory without bodies, one organisation's texts at two bytes per character, and
 * the texts being rendered.
 */
const grownMiBMax = 600;

test.each([
  [300, 400_000],
  [6, 15_000_000],
])('%i prompts of %i bytes within 2 s are all answered by a node that takes 4 s', async (count, bytes) => {
  writeFileSync(`/proc/${gateway.child.pid}/clear_refs`, '5');
  const before = memoryMiB('VmRSS');
  const asked = Array.from({ length: count }, async (_, at) => {
    await pause((at * spreadMs) / count);
    return ask('acme', 'slow', bytes);
  });
  const others: PromptAnswer[] = [];
  let waitingMax = 0;
  let bytesMax = 0;
  for (let at = 0; at < 15; at++) {
    others.push(await ask('birch', 'quick', at % 5 === 4 ? 400_000 : 1000));
    waitingMax = Math.max(waitingMax, await bodiesWaiting());
    bytesMax = Math.max(bytesMax, await bodyBytes());
    await pause(200);
  }
  const answers = await Promise.all(asked);
  const peak = memoryMiB('VmHWM');
  const refused = answers.filter(({ status }) => status !== 200);
  const [small, large] = [false, true].map((isLarge) =>
    others.filter((_, at) => (at % 5 === 4) === isLarge).map(({ ms }) => Math.round(ms)),
  );
  console.log(
    `${count} × ${bytes}: ${refused.length} refused, slowest ${Math.round(Math.max(...answers.map(({ ms }) => ms)))} ms, ` +
      `waiting at most ${waitingMax}, charged at most ${Math.round(bytesMax / MiB)} MiB, RSS ${before} → ${peak} MiB, ` +
      `others: small ${small} ms, 400 KB ${large} ms`,
  );
  expect(refused.map(({ text }) => text)).toEqual([]);
  expect(statuses(others)).toEqual(others.map(() => 200));
  expect(peak - before).toBeLessThan(grownMiBMax);
  expect(bytesMax).toBeLessThanOrEqual(128 * MiB);
  await expectNothingHeld();
});

test('prompts that a node has received are no longer charged, and a late answer leaves nothing behind', async () => {
  gated.answers = false;
  const asked = many(300, 'gated', 400_000);
  await until(() => gated.taken.length === 300, 60_000);
  await expectNothingHeld();
  gated.cut();
  expect(statuses(await Promise.all(asked))).toEqual(Array(300).fill(503));
  await expectNothingHeld();
});

/** Sends prompts that the node does not read, and returns once further prompts have to wait. */
async function untaken(): Promise<Promise<PromptAnswer>[]> {
  gated.reads = false;
  gated.answers = false;
  const asked = many(5, 'gated', 24 * MiB);
  await until(async () => (await bodiesWaiting()) > 0);
  return asked;
}

test('prompts that their node does not receive stay charged, others wait, and the node’s end frees all', async () => {
  const asked = await untaken();
  await until(async () => (await bodyBytes()) > 64 * MiB);
  expect(await bodyBytes()).toBeLessThanOrEqual(128 * MiB);
  // Small prompts of the same organisation, and large ones of another organisation, do not wait for the unread prompts.
  expect((await ask('acme', 'quick', 1000)).status).toBe(200);
  expect((await ask('birch', 'quick', 24 * MiB)).status).toBe(200);
  expect(await bodiesWaiting()).toBeGreaterThan(0);
  gated.cut();
  // The node's lost connections fail the prompts that had reached it. The prompts that waited are served afterwards.
  expect(new Set(statuses(await Promise.all(asked)))).toEqual(new Set([503, 200]));
  await expectNothingHeld();
});

test('half-sent bodies hold back only their organisation’s large ones, until their clients leave', async () => {
  const { port } = new URL(gateway.ready.api);
  const head = [
    ...['POST /v1/chat/completions HTTP/1.1', `Host: 127.0.0.1`, `Authorization: Bearer ${keys['acme']}`],
    ...['Content-Type: application/json', `Content-Length: ${32 * MiB}`, '', ''],
  ].join('\r\n');
  const sockets = Array.from({ length: 4 }, () => {
    const socket = connect(Number(port), '127.0.0.1').on('error', () => undefined);
    socket.write(head);
    socket.write(Buffer.alloc(31 * MiB, ' '));
    return socket;
  });
  await until(async () => (await bodiesWaiting()) > 0);
  let isAnswered = false;
  const held = ask('acme', 'quick', MiB).finally(() => {
    isAnswered = true;
  });
  expect((await ask('acme', 'quick', 1000)).status).toBe(200);
  expect((await ask('birch', 'quick', 24 * MiB)).status).toBe(200);
  expect(isAnswered).toBe(false);
  for (const socket of sockets) socket.destroy();
  expect((await held).status).toBe(200);
  await until(async () => (await bodyBytes()) === 0);
  await expectNothingHeld();
});

test('a draining gateway gives waiting bodies their turn, and ends', async () => {
  const asked = await untaken();
  const ended = gateway.end();
  gated.readOn();
  gated.answerAll();
  expect(statuses(await Promise.all(asked))).toEqual(Array(5).fill(200));
  await ended;
  expect(gateway.child.exitCode).toBe(0);
});
