/**
 * Tests two real llama.cpp servers with one model behind two gateways. Conversations must return to the server that cached
 * them.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { call } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { llamaServer } from './llamacpp.ts';
import type { ServerProcess } from './server-process.ts';

const dir = mkdtempSync(join(tmpdir(), 'headgate-affinity-'));
const servers: ServerProcess[] = [];
let fleet: TestFleet;
let key: string;

beforeAll(async () => {
  for (const name of ['one', 'two']) {
    mkdirSync(join(dir, name));
    const server = await llamaServer(join(dir, name), 'tiny-chat', ['-c', '32768', '-np', '4']);
    servers.push(server);
    await server.start();
  }
  fleet = await startFleet({
    gateways: 2,
    fleet: () => ({
      version: 1,
      models: [{ id: 'tiny-chat', family: 'tiny' }],
      tiers: [{ id: 'Pro', models: '*' }],
      pool: {
        models: ['tiny-chat'],
        nodes: servers.map(({ url }, at) => ({ id: `llama-${at}`, url, dialect: 'llamacpp' as const })),
      },
      organisations: [{ id: 'acme', name: 'Acme', tier: 'Pro' }],
    }),
  });
  key = (await fleet.key('acme')).value;
  await fleet.settle();
}, 120_000);
afterAll(async () => {
  await fleet?.close();
  await Promise.all(servers.map((server) => server.kill()));
  rmSync(dir, { recursive: true, force: true });
});

async function turn(
  messages: readonly object[],
  gateway: number,
): Promise<{ cached: number; prompt: number; answer: object }> {
  const body = { model: 'tiny-chat', messages, max_tokens: 8, temperature: 0 };
  const port = fleet.port(gateway);
  const { status, content } = await call({ port, key, method: 'POST', path: '/v1/chat/completions', body });
  expect(status).toBe(200);
  const { usage, choices } = JSON.parse(content);
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  return {
    cached,
    prompt: usage.prompt_tokens,
    answer: { role: 'assistant', content: choices[0].message.content || 'ok' },
  };
}

test('the second turn of a conversation finds most of its prompt cached, through any gateway', async () => {
  const shares: number[] = [];
  for (let at = 0; at < 6; at += 1) {
    const messages: object[] = [{ role: 'user', content: `${at} ${'a long story of the sea. '.repeat(20)}` }];
    const first = await turn(messages, 0);
    const second = await turn([...messages, first.answer, { role: 'user', content: 'and then?' }], 1);
    shares.push(second.cached / second.prompt);
  }
  // Every conversation found its first turn in a server's cache. Both servers must have been used.
  expect(shares.every((share) => share > 0.5)).toBe(true);
  const used = await Promise.all(
    servers.map(
      async ({ url }) =>
        /llamacpp:prompt_tokens_total (\d+)/.exec(await (await fetch(`${url}/metrics`)).text())?.[1],
    ),
  );
  expect(used.every((tokens) => Number(tokens) > 0)).toBe(true);
});
