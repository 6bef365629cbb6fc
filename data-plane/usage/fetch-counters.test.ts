import { createServer, type ServerResponse } from 'node:http';
import { afterEach, expect, test } from 'vitest';
import { CounterState, counterKey } from '../../shared/limits/counters.ts';
import { portOf } from '../../test/support/listen.ts';
import { fetchCounters } from './fetch-counters.ts';

const servers: ReturnType<typeof createServer>[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function plane(answer: (response: ServerResponse) => void): Promise<string> {
  const server = createServer((_, response) => answer(response));
  const port = await portOf(server);
  servers.push(server);
  return `http://127.0.0.1:${port}`;
}

const period = new Date().toISOString().slice(0, 10);
const line = (tokens: number): string =>
  `${JSON.stringify({ v: 1, replica: 'replica-1', process: 'process-1', at: 1, entries: [['acme', period, tokens, 1]] })}\n`;
const fetched = async (...controlPlanes: string[]) => {
  const state = new CounterState();
  const position = await fetchCounters({ controlPlanes, token: 'a-token-of-the-tests', state });
  return { position, tokens: state.sum(counterKey('acme', period)).tokens };
};

test('a control plane’s records count, and its position is where reading the topic continues', async () => {
  const url = await plane((response) => response.end(`{"position":7}\n${line(40)}no record\n`));
  expect(await fetched(url)).toEqual({ position: 7, tokens: 40 });
});

test.each([
  ['an endless line', 'x'.repeat(64 * 1024)],
  ['a record that is too long', `${'x'.repeat(256 * 1024)}\n`],
])('an answer with %s is abandoned and gives no position', async (_, part) => {
  let closed: () => void;
  const left = new Promise<void>((resolve) => {
    closed = resolve;
  });
  const url = await plane((response) => {
    response.on('close', () => closed());
    response.write(`{"position":7}\n${line(40)}`);
    const send = (): void => {
      while (!response.destroyed && response.write(part));
      response.once('drain', send);
    };
    send();
  });
  expect((await fetched(url)).position).toBeUndefined();
  await left;
});

test('an answer that trickles in is abandoned for the next control plane', async () => {
  const dripping = await plane((response) => {
    response.write('{"position":7}\n');
    const timer = setInterval(() => response.write('x'), 5);
    response.once('close', () => clearInterval(timer));
  });
  const state = new CounterState();
  const asked = { token: 'a-token-of-the-tests', state, timeoutMs: 200 };
  expect(await fetchCounters({ ...asked, controlPlanes: [dripping] })).toBeUndefined();
  const whole = await plane((response) => response.end('{"position":9}\n'));
  expect(await fetchCounters({ ...asked, timeoutMs: 30_000, controlPlanes: [whole] })).toBe(9);
});

test('an answer that breaks off gives no position', async () => {
  const url = await plane((response) => {
    response.writeHead(200, { 'content-length': 1000 });
    response.write(`{"position":7}\n${line(40)}`, () => response.destroy());
  });
  expect((await fetched(url)).position).toBeUndefined();
});
