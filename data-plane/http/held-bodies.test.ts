/**
 * Tests bodies that exceed their organisation's share of the memory, over real HTTP: which of them wait, in what order and
 * for how long.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Refusal } from '../../shared/decision/refusal.ts';
import { ClientGone } from '../../shared/runtime/body-pieces.ts';
import { BodyBudget } from '../../shared/runtime/byte-budget.ts';
import { Ticker } from '../../shared/runtime/ticker.ts';
import { serveExchanges } from '../../test/support/exchange-server.ts';
import { type Body, type BodyPace, readBody } from './body.ts';

const KiB = 1024;
const MiB = 1024 * KiB;

const soon = { timeout: 20_000, interval: 5 };

class Reading {
  readonly budget: BodyBudget;
  /** Complete bodies that have not been released, keyed by name, in the order in which they were completed. */
  readonly whole = new Map<string, Body>();
  readonly ended = new Map<string, unknown>();
  port = 0;

  constructor(budget: BodyBudget) {
    this.budget = budget;
  }

  /** Starts the server. `turnMsMax` is the longest time that a body may wait for its turn, in ms. */
  async start(pace: BodyPace, turnMsMax: number): Promise<this> {
    const server = await serveExchanges((exchange) => {
      const { url, headers } = exchange.head;
      const name = url.slice(1);
      const owner = String(headers['x-owner'] ?? 'one');
      return readBody(exchange, this.budget.of(owner), { pace, turnMsMax, bytesMax: MiB })
        .then((body) => this.whole.set(name, body))
        .catch((error: unknown) => this.ended.set(name, error))
        .finally(() => exchange.answer.whole(200, undefined, [], ''));
    });
    this.port = server.port;
    onTestFinished(() => server.destroy());
    return this;
  }

  async post(name: string, bytes: number, head = `Content-Length: ${MiB}`): Promise<Socket> {
    const socket = connect(this.port, '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    socket.write(`POST /${name} HTTP/1.1\r\nHost: a\r\n${head}\r\n\r\n`);
    socket.write(Buffer.alloc(bytes));
    return socket;
  }

  async becameWhole(...names: string[]): Promise<void> {
    await vi.waitUntil(() => names.every((name) => this.whole.has(name)), soon);
  }

  release(name: string): void {
    this.whole.get(name)?.release();
    this.whole.delete(name);
  }
}

/** Returns a pace at which no body counts as too slow. */
const patient = (): BodyPace => ({ bytes: 1, ms: 1e9, ticker: new Ticker(20) });
const endless = 1e9;
const started = (budget: BodyBudget, turnMsMax = endless, pace = patient()): Promise<Reading> =>
  new Reading(budget).start(pace, turnMsMax);

/**
 * Returns a budget with a share of 2 MiB per organisation. Two bodies of 1 MiB are held, a third may exceed the share, and
 * others wait.
 */
const shareOfTwo = (): BodyBudget => new BodyBudget(16 * MiB);
/** Largest part of a body that may be read before reading stops, in bytes. */
const readAheadMax = 68 * KiB;

/** Fills the share with three complete bodies. The bodies in `waiting` then wait for room, in this order. */
async function full(reading: Reading, waiting: readonly string[], head?: string): Promise<Socket[]> {
  for (const name of ['a', 'b', 'c']) {
    await reading.post(name, MiB);
    await reading.becameWhole(name);
  }
  const sockets: Socket[] = [];
  for (const [at, name] of waiting.entries()) {
    sockets.push(await reading.post(name, MiB, head));
    await vi.waitUntil(() => reading.budget.waiting === at + 1, soon);
  }
  return sockets;
}

test('bodies beyond the share wait in order, hold almost no memory and are read as others finish', async () => {
  const reading = await started(shareOfTwo());
  await full(reading, ['d', 'e', 'f']);
  expect(reading.budget.usedBytes).toBeLessThanOrEqual(3 * (MiB + readAheadMax));
  expect([...reading.whole.keys()]).toEqual(['a', 'b', 'c']);
  // Only one body at a time may exceed the share, so each is read when the previous one is released.
  for (const [done, next] of [
    ['c', 'd'],
    ['d', 'e'],
    ['e', 'f'],
  ] as const) {
    reading.release(done);
    await reading.becameWhole(next);
    expect(reading.whole.size).toBe(3);
  }
  for (const name of ['a', 'b', 'f']) reading.release(name);
  expect([reading.budget.usedBytes, reading.budget.waiting, reading.ended.size]).toEqual([0, 0, 0]);
});

test('a body in chunks waits like a body of known length', async () => {
  const reading = await started(shareOfTwo());
  await full(reading, []);
  const head = 'Transfer-Encoding: chunked';
  const socket = await reading.post('d', 0, head);
  const chunk = `${(64 * KiB).toString(16)}\r\n${'x'.repeat(64 * KiB)}\r\n`;
  socket.write(`${chunk.repeat(12)}0\r\n\r\n`);
  await vi.waitUntil(() => reading.budget.waiting === 1, soon);
  for (const name of ['a', 'b', 'c']) reading.release(name);
  await reading.becameWhole('d');
  expect(reading.whole.get('d')?.bytes.length).toBe(12 * 64 * KiB);
  reading.release('d');
  expect(reading.budget.usedBytes).toBe(0);
});

test('bodies that all wait for each other’s memory finish one after the other', async () => {
  const reading = await started(shareOfTwo());
  const names = Array.from({ length: 12 }, (_, at) => `n${at}`);
  const sockets = await Promise.all(names.map((name) => reading.post(name, 600 * KiB)));
  await vi.waitUntil(() => reading.budget.waiting > 0, soon);
  for (const socket of sockets) socket.write(Buffer.alloc(MiB - 600 * KiB));
  for (let left = names.length; left > 0; left--) {
    await vi.waitUntil(() => reading.whole.size > 0, soon);
    expect(reading.budget.usedBytes).toBeLessThanOrEqual(4 * MiB);
    reading.release([...reading.whole.keys()][0] as string);
  }
  expect([reading.budget.usedBytes, reading.ended.size]).toEqual([0, 0]);
});

test('while a body waits, its owner’s small bodies and all other owners’ are read, but no large body overtakes it', async () => {
  // In this budget, a share has room for two and a half bodies.
  const reading = await started(new BodyBudget(20 * MiB));
  await full(reading, ['d']);
  // Releasing this body makes room for only half of the body that is waiting.
  reading.release('a');
  await reading.post('large', 300 * KiB, `Content-Length: ${300 * KiB}`);
  await vi.waitUntil(() => reading.budget.waiting === 2, soon);
  await reading.post('small', 100 * KiB, `Content-Length: ${100 * KiB}`);
  await reading.post('other', MiB, `X-Owner: two\r\nContent-Length: ${MiB}`);
  await reading.becameWhole('small', 'other');
  expect(reading.budget.waiting).toBe(2);
  reading.release('b');
  await reading.becameWhole('d', 'large');
  expect(reading.ended.size).toBe(0);
});

test('a body whose turn does not come in time is refused with the true reason', async () => {
  const reading = await started(shareOfTwo(), 100);
  await full(reading, ['d']);
  await vi.waitUntil(() => reading.ended.has('d'), soon);
  expect(reading.ended.get('d')).toMatchObject({
    type: 'InferenceUnavailableError',
    message: expect.stringContaining('your organisation'),
    retryAfterSeconds: undefined,
  });
  expect([reading.budget.usedBytes, reading.budget.waiting]).toEqual([3 * MiB, 0]);
});

test('only a limited number of one owner’s bodies may wait, and another is refused at once', async () => {
  const reading = await started(new BodyBudget(512 * MiB, 64 * MiB));
  const budget = reading.budget.of('one');
  expect(budget.reserve(64 * MiB)).toBe(true);
  // This body exceeds the share, so that no other body may do so.
  const first = { bytesLeft: MiB, onRoom: () => undefined };
  expect(budget.wait(first)).toBe(true);
  const sockets: Socket[] = [];
  while (reading.ended.size === 0 && sockets.length < 500) {
    sockets.push(await reading.post(`n${sockets.length}`, 128 * KiB));
    await vi.waitUntil(() => reading.budget.waiting === sockets.length || reading.ended.size > 0, soon);
  }
  expect(sockets).toHaveLength(401);
  expect([...reading.ended.values()][0]).toBeInstanceOf(Refusal);
  expect(reading.budget.usedBytes).toBeLessThanOrEqual(65 * MiB + 400 * readAheadMax);
  for (const socket of sockets) socket.destroy();
  budget.leave(first);
  budget.release(65 * MiB);
  await vi.waitUntil(() => reading.ended.size === 401, soon);
  expect([reading.budget.usedBytes, reading.budget.waiting]).toEqual([0, 0]);
});

test('a waiting client that disconnects delays nobody and leaves nothing behind', async () => {
  const reading = await started(shareOfTwo());
  await full(reading, []);
  const leaving = await reading.post('d', MiB / 2);
  await vi.waitUntil(() => reading.budget.waiting === 1, soon);
  await reading.post('e', MiB);
  await vi.waitUntil(() => reading.budget.waiting === 2, soon);
  leaving.destroy();
  reading.release('c');
  await reading.becameWhole('e');
  expect(reading.ended.get('d')).toBeInstanceOf(ClientGone);
  for (const name of ['a', 'b', 'e']) reading.release(name);
  expect([reading.budget.usedBytes, reading.budget.waiting]).toEqual([0, 0]);
});

test('a body’s pace is not checked while it waits, and is checked again afterwards', async () => {
  const ticker = new Ticker(20);
  const reading = await started(shareOfTwo(), endless, { bytes: 600 * KiB, ms: 150, ticker });
  await full(reading, []);
  // Sends half of the body together with its head.
  await reading.post('d', MiB / 2);
  await vi.waitUntil(() => reading.budget.waiting === 1, soon);
  const waitedFrom = ticker.nowMs;
  await vi.waitUntil(() => ticker.nowMs > waitedFrom + 1000, soon);
  expect(reading.ended.size).toBe(0);
  for (const name of ['a', 'b', 'c']) reading.release(name);
  await vi.waitUntil(() => reading.ended.has('d'), soon);
  expect(reading.ended.get('d')).toMatchObject({ reason: 'slow body' });
  expect(reading.budget.usedBytes).toBe(0);
});
