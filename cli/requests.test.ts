/** Tests `headgate requests`: the query for each option, the output, and that missing results are always reported. */
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { cliOf, useAdminServer } from '../test/support/admin-server.ts';
import type { CliOptions, CliRun } from '../test/support/run-cli.ts';
import { formatRow } from './commands/request-rows.ts';

const server = useAdminServer();

const ask = cliOf(server);
const cli = (line: string, options: CliOptions = {}): Promise<CliRun> => ask(`requests ${line}`, options);

const row = (n: number) => ({
  ...{ request: `req_${String(n).padStart(32, '0')}`, at: '2026-11-26T04:05:06.789Z', gateway: 'gw-1' },
  ...{ organisation: 'acme', key: 'key-1', keyName: 'ci', host: 'shared', operation: 'chat' },
  ...{ model: 'elm-7b', verdict: 'served', status: 200, node: 'node-1', promptTokens: 12 },
  ...{ completionTokens: 340, firstTokenMs: 81.2, durationMs: 2345.6, position: 7 },
});
const filters =
  '--outcome served --model elm-7b --org acme --key key-1 --node node-1 --gateway gw-1 --slower-than 2s --since 1h';
const query = {
  ...{ outcome: 'served', model: 'elm-7b', organisation: 'acme', key: 'key-1', node: 'node-1' },
  ...{ gateway: 'gw-1', 'slower-than': '2s', since: '1h' },
};

test('list sends every filter, page by page, and prints a table of at most 160 columns', async () => {
  server.answer = (asked) =>
    asked.query['next'] === undefined
      ? { body: { items: [row(1)], next: 'more', silent: ['gw-2'] } }
      : { body: { items: [row(2)], silent: [] } };
  const run = await cli(`list ${filters} --limit 5`);
  expect(server.seen.map((each) => each.query)).toEqual([
    { ...query, limit: '5' },
    { ...query, limit: '4', next: 'more' },
  ]);
  expect(run.code).toBe(0);
  expect(run.out).toMatch(/04:05:06\.789 +acme ci +elm-7b +served by node-1 +200 +12→340 +81ms +2\.3s/);
  for (const line of run.out.split('\n')) expect(line.length).toBeLessThanOrEqual(160);
  expect(run.err).toContain('without gw-2: no answer');
});

test('a visitor’s request is marked as such, in the list and in the tail', async () => {
  const { organisation, key, keyName, ...others } = row(1);
  const items = [{ ...others, visitor: true }];
  server.answer = () => ({ body: { items, silent: [] } });
  expect((await cli('list')).out).toMatch(/06\.789 +visitor +elm-7b +served/);
  expect(formatRow({ ...others, verdict: 'served', visitor: true })).toContain('  visitor  elm-7b  ');
});

test('a list’s JSON is the response, and JSON lines contain one row each', async () => {
  const answer = { items: [row(1), row(2)], silent: [] };
  server.answer = () => ({ body: answer });
  expect(JSON.parse((await cli('list -o json')).out)).toEqual(answer);
  const lines = (await cli('list -o jsonl')).out.trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line))).toEqual(answer.items);
});

const event = (items: readonly object[], silent: readonly string[] = []): string =>
  `event: requests\ndata: ${JSON.stringify({ items, silent })}\n\n`;

test('tail prints oldest requests first, each once, even after a lost connection', async () => {
  let connections = 0;
  server.http.removeAllListeners('request');
  const answers = [event([row(2), row(1)]), event([row(3), row(2)], ['gw-2'])];
  server.http.on('request', (_request, response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(`retry: 1000\n\nevent: pulse\ndata: {}\n\n${answers[connections++] ?? ''}`);
    if (connections === 1) setTimeout(() => response.destroy(), 20);
  });
  const stop = new AbortController();
  let out = '';
  const onStdout = (text: string): void => {
    out += text;
    if (out.includes(row(3).request)) stop.abort();
  };
  const run = await cli('tail --org acme -o name', { onStdout, signal: stop.signal });
  expect([run.code, run.out]).toEqual([130, [1, 2, 3].map((n) => `${row(n).request}\n`).join('')]);
  expect(run.err).toContain('connecting again');
});
