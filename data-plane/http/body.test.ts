/** Tests request bodies over real HTTP: how much of them is held, whose budget they use, and how slow they may be. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Refusal } from '../../shared/decision/refusal.ts';
import { BodyBudget } from '../../shared/runtime/byte-budget.ts';
import { Ticker } from '../../shared/runtime/ticker.ts';
import { chat, expectRefusal } from '../../test/support/api.ts';
import { serveExchanges } from '../../test/support/exchange-server.ts';
import { startFleet } from '../../test/support/fleet.ts';
import { specFleet } from '../../test/support/spec-fleet.ts';
import { BodyWorker } from '../body-worker/body-worker.ts';
import { shapeBody } from '../request/shape-body.ts';
import { TenantSecrets } from '../surfaces/common/tenant-secrets.ts';
import { type BodyPace, readBody } from './body.ts';
import type { Exchange } from './exchange.ts';

const MiB = 1024 * 1024;
const bytesMax = 32 * MiB;
const sealKeys = new TenantSecrets('gateway-token-of-the-tests', 'sealed thoughts');

interface Read {
  readonly length?: number;
  readonly refusal?: Refusal;
}

const done = ({ answer }: Exchange): void => void answer.whole(200, undefined, [], '');

async function serving(handler: (exchange: Exchange) => unknown): Promise<{ readonly port: number }> {
  const server = await serveExchanges(handler);
  onTestFinished(() => server.destroy());
  return server;
}

/** Starts a server that reads bodies and reports what became of each of them. */
async function reading(
  budget: BodyBudget,
  pace?: BodyPace,
): Promise<{ port: number; next(): Promise<Read> }> {
  const results: Read[] = [];
  const { port } = await serving((exchange) =>
    readBody(exchange, budget.of(exchange.head.url), { pace, bytesMax })
      .then(({ bytes, release }) => {
        results.push({ length: bytes.length });
        release();
        release();
      })
      .catch((error: unknown) => results.push(error instanceof Refusal ? { refusal: error } : {}))
      .finally(() => done(exchange)),
  );
  return {
    port,
    next: async () => {
      await vi.waitUntil(() => results.length > 0, { timeout: 20_000, interval: 5 });
      return results.shift() as Read;
    },
  };
}

/** Sends a request head. Its `path` says to whom the body belongs. */
async function post(port: number, head: string, path = '/'): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(`POST ${path} HTTP/1.1\r\nHost: a\r\n${head}\r\n\r\n`);
  return socket;
}

const chunked = (piece: string, times: number) =>
  `${piece.length.toString(16)}\r\n${piece}\r\n`.repeat(times);

test.each([16, 17, 31, 251, 4_093, 65_521])(
  'a body in chunks of %i bytes is charged for the memory it holds, at most twice its bytes',
  async (size) => {
    const budget = new BodyBudget();
    const { port, next } = await reading(budget);
    const socket = await post(port, 'Transfer-Encoding: chunked');
    const times = Math.ceil(200_000 / size);
    socket.write(chunked('a'.repeat(size), times));
    await vi.waitUntil(() => budget.usedBytes >= size * times, { timeout: 20_000, interval: 5 });
    expect(budget.usedBytes).toBeLessThanOrEqual(2 * size * times);
    socket.write('0\r\n\r\n');
    expect(await next()).toEqual({ length: size * times });
    expect(budget.usedBytes).toBe(0);
  },
);

test('the memory of a body is given back when its client disconnects', async () => {
  const budget = new BodyBudget();
  const { port, next } = await reading(budget);
  const socket = await post(port, 'Transfer-Encoding: chunked');
  socket.write(chunked('a'.repeat(16), 4_000));
  await vi.waitUntil(() => budget.usedBytes > 50_000, { timeout: 20_000, interval: 5 });
  socket.destroy();
  await next();
  expect(budget.usedBytes).toBe(0);
});

test('all owners together cannot exceed the total budget, and they give it back', async () => {
  const budget = new BodyBudget(2 * MiB, 2 * MiB);
  const { port, next } = await reading(budget);
  const held = await post(port, `Content-Length: ${2 * MiB}`);
  held.write(Buffer.alloc(1.5 * MiB));
  await vi.waitUntil(() => budget.usedBytes >= 1.5 * MiB, { timeout: 20_000, interval: 5 });
  // Use another owner, because a second body of the same owner would wait for its turn.
  const refused = await post(port, `Content-Length: ${MiB}`, '/other');
  refused.write(Buffer.alloc(MiB));
  const { refusal } = await next();
  expect(refusal).toMatchObject({ type: 'InferenceUnavailableError', reason: 'body budget' });
  expect(refusal?.message).not.toContain('your organisation');
  held.destroy();
  await next();
  expect(budget.usedBytes).toBe(0);
});

test('a body that comes too slowly or not at all is cut off, and one that keeps the pace is not', async () => {
  const budget = new BodyBudget();
  const { port, next } = await reading(budget, { bytes: 100, ms: 200, ticker: new Ticker(40) });
  const slow = await post(port, 'Content-Length: 10000');
  slow.write('a');
  const drip = setInterval(() => slow.write('a'), 20);
  onTestFinished(() => clearInterval(drip));
  const { refusal } = await next();
  expect(refusal).toMatchObject({ type: 'InferenceUnavailableError', reason: 'slow body' });
  expect(budget.usedBytes).toBe(0);
  clearInterval(drip);
  await post(port, 'Content-Length: 100');
  expect((await next()).refusal).toMatchObject({ reason: 'slow body' });

  const steady = await post(port, 'Content-Length: 5000');
  let left = 50;
  const flow = setInterval(() => {
    if (left-- > 0) steady.write('a'.repeat(100));
  }, 20);
  onTestFinished(() => clearInterval(flow));
  expect(await next()).toEqual({ length: 5000 });
});

test.each([
  ['small', 1000, 0],
  ['large', 2 * MiB, 2 * MiB],
])('the bytes of a %s body are given back once this thread drops them', async (_, length, heldThen) => {
  const budget = new BodyBudget();
  const bodyWorker = new BodyWorker();
  onTestFinished(() => bodyWorker.close());
  const seen: number[] = [];
  const { port } = await serving(async (exchange) => {
    const body = await readBody(exchange, budget.of('one'), { bytesMax });
    const operation = { kind: 'chat' } as const;
    const { release } = await shapeBody(bodyWorker, { operation, body, owner: 'one', exchange, sealKeys });
    seen.push(budget.usedBytes, bodyWorker.retainedTexts);
    release();
    release();
    seen.push(budget.usedBytes, bodyWorker.retainedTexts);
    done(exchange);
  });
  const content = 'a'.repeat(length);
  await fetch(`http://127.0.0.1:${port}/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] }),
  });
  const [bytes, held, ...after] = seen;
  if (heldThen === 0) expect([bytes, held]).toEqual([0, 0]);
  else {
    expect(bytes).toBeGreaterThanOrEqual(heldThen);
    expect(held).toBe(1);
  }
  expect(after).toEqual([0, 0]);
});

test.each([
  ['small', 0],
  ['large', 2 * MiB],
])('a refused %s body gives its bytes back', async (_, length) => {
  const budget = new BodyBudget();
  const bodyWorker = new BodyWorker();
  onTestFinished(() => bodyWorker.close());
  const seen: unknown[] = [];
  const { port } = await serving(async (exchange) => {
    const body = await readBody(exchange, budget.of('one'), { bytesMax });
    seen.push(body.bytes.length > length);
    try {
      await shapeBody(bodyWorker, { operation: { kind: 'chat' }, body, owner: 'one', exchange, sealKeys });
    } catch (error) {
      seen.push(error instanceof Refusal);
    }
    seen.push(budget.usedBytes, bodyWorker.retainedTexts);
    done(exchange);
  });
  await fetch(`http://127.0.0.1:${port}/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 1, messages: [{ role: 'user', content: 'a'.repeat(length) }] }),
  });
  expect(seen).toEqual([true, true, 0, 0]);
});

test.each(['/v1/chat/completions', '/v1/messages', '/v1/embeddings'])(
  'an encoded body is refused by the header’s name: %s',
  async (path) => {
    const fleet = await startFleet({ fleet: specFleet });
    onTestFinished(() => fleet.close());
    const { value } = await fleet.key('acme');
    await fleet.settle();
    for (const encoding of ['gzip', 'br', 'identity, gzip', 'x-unknown']) {
      const headers = { 'Content-Encoding': encoding };
      const answer = await chat({ port: fleet.port(), key: value, model: 'echo-small', path, headers });
      expect(expectRefusal(answer, 'UnsupportedShapeError').message).toContain('Content-Encoding');
    }
    const headers = { 'Content-Encoding': 'identity' };
    const plain = await chat({ port: fleet.port(), key: value, model: 'echo-small', headers });
    expect(plain.status).toBe(200);
  },
);
