/**
 * Tests the records of requests that ended early. All records of a request must agree on the verdict, none may say that it
 * was served, and deciding the request again with the same build must give no difference. The same must hold for records of
 * version 0.2.0.
 */

import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RequestRow } from '../../schemas/admin/requests.ts';
import { type Explanation, explanationSchema } from '../../schemas/records/explanations.ts';
import { parseBehaviour } from '../simulator/behaviour.ts';
import { chat, chatBody } from '../support/api.ts';
import { operatorToken, startFleet, type TestFleet } from '../support/fleet.ts';
import { requestText } from '../support/raw-http.ts';
import { type CliRun, runCli } from '../support/run-cli.ts';
import { specFleet } from '../support/spec-fleet.ts';
import { until } from '../support/until.ts';

const model = 'echo-small';
let fleet: TestFleet;
let key: string;
const rows: Record<'undecided' | 'byNode' | 'byClient', RequestRow> = {} as never;
let counted: string;
beforeAll(async () => {
  fleet = await startFleet({ fleet: specFleet });
  key = (await fleet.key('cedar')).value;
  const { value: ofDormant } = await fleet.key('dormant');
  expect((await chat({ port: fleet.port(), key, model })).status).toBe(200);
  await leave(ofDormant, '{"mod', 500);
  rows.undecided = await newest();
  fleet.nodes['pool-1'].setBehaviour(faulty({ kind: 'cut', afterEvents: 2 }));
  await chat({ port: fleet.port(), key, model, more: { stream: true } });
  rows.byNode = await newest();
  fleet.nodes['pool-1'].setBehaviour(faulty({ kind: 'stall-after', afterEvents: 2 }));
  await leave(key, JSON.stringify(chatBody(model, { stream: true })));
  rows.byClient = await newest();
  counted = await (await fetch(`${fleet.gateways[0]?.metrics}/metrics`)).text();
});
afterAll(() => fleet.close());

const faulty = (fault: object) => parseBehaviour({ rules: [{ match: {}, fault }] });
const cli = (...argv: string[]): Promise<CliRun> =>
  runCli(argv, { env: { HEADGATE_ADMIN: fleet.controlPlane.admin, HEADGATE_TOKEN: operatorToken } });

/**
 * Sends the body and leaves when the answer begins. If `bytes` is larger than the body, leaves before the gateway has
 * received all of them.
 */
async function leave(bearer: string, body: string, bytes = body.length): Promise<void> {
  const parts = {
    method: 'POST',
    path: '/v1/chat/completions',
    headers: { Authorization: `Bearer ${bearer}` },
  };
  const text = requestText({ ...parts, body }).replace(`th: ${body.length}`, `th: ${bytes}`);
  const socket = connect(fleet.port(), '127.0.0.1', () => socket.write(text));
  await new Promise<unknown>((resolve) => {
    if (bytes === body.length) socket.once('data', resolve);
    else socket.once('connect', () => socket.write('', resolve));
  });
  socket.destroy();
}

const known = new Set<string>();
/** Returns the latest request that ended early. */
async function newest(): Promise<RequestRow> {
  let row: RequestRow | undefined;
  await until(async () => {
    const { items } = await fleet.admin.call('GET', '/requests?outcome=ended');
    row = (items as unknown as RequestRow[]).find(({ request }) => !known.has(request));
    return row !== undefined;
  });
  known.add(row?.request ?? '');
  return row as unknown as RequestRow;
}

async function explained(request: string): Promise<Explanation & { readonly text: string }> {
  const [json, text] = [
    await cli('explain', '--request', request, '-o', 'json'),
    await cli('explain', '--request', request),
  ];
  expect([json.code, text.code]).toEqual([1, 1]);
  return { ...explanationSchema.parse(JSON.parse(json.out)), text: text.out };
}

test('a request whose client left undecided has no status or proof, and no step claims to have passed', async () => {
  expect(rows.undecided).toMatchObject({ verdict: 'ended', endedBy: 'client', organisation: 'dormant' });
  expect(rows.undecided).not.toHaveProperty('status');
  const { text, ...found } = await explained(rows.undecided.request);
  expect(found.verdict).toEqual({
    ...{ outcome: 'ended', served: false, endedBy: 'client', phase: 'undecided' },
    message: expect.stringMatching(
      /^ended by the client before it was decided: it did not send its whole body after \d+ ms; nothing was billed$/,
    ),
  });
  expect(text.split('\n')[0]).toContain(found.verdict.message);
  expect([found.same, found.rederived, found.decisive]).toEqual([undefined, undefined, undefined]);
  const passed = found.steps.filter(({ result }) => result !== 'skipped').map(({ step }) => step);
  expect(passed).toEqual(['host', 'fresh', 'key', 'path']);
  expect(found.assumptions).toEqual([
    'the request was ended before its body was read, so its model is not known',
  ]);
});

test('an answer that ended early shows who ended it, when and why, and its last step decided it', async () => {
  expect(rows.byNode).toMatchObject({ verdict: 'ended', endedBy: 'node', status: 200, node: 'pool-1' });
  const byNode = await explained(rows.byNode.request);
  const common = { outcome: 'ended', served: false, status: 200, phase: 'answering' };
  expect(byNode.verdict).toMatchObject({
    ...{ ...common, endedBy: 'node' },
    message: expect.stringMatching(
      /^ended by pool-1: it ended the connection within its answer after [\d.]+ m?s; nothing was billed$/,
    ),
  });
  expect([byNode.same, byNode.decisive]).toEqual([true, 'answer']);
  expect(byNode.text.split('\n')[0]).toContain(byNode.verdict.message);
  const byClient = await explained(rows.byClient.request);
  expect(byClient.verdict).toMatchObject({
    ...{ ...common, endedBy: 'client' },
    message: expect.stringMatching(/^ended by the client: it left after /),
  });
});

test('metrics count an end during an answer, but not an end without one', () => {
  expect(counted).toMatch(/^headgate_requests_total\{.*outcome="aborted".*\} [12]$/m);
  const ended = [...counted.matchAll(/^headgate_stream_aborts_total\{who="(\w+)"\} (\d+)$/gm)];
  expect(ended.map(([, who, times]) => [who, times]).sort()).toEqual([
    ['client', '1'],
    ['node', '1'],
  ]);
});

test('the build that recorded the decisions repeats them, including version 0.2.0’s records', async () => {
  const { out } = await cli('decisions', 'export', '--since', '1h');
  const lines = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    // Skips the record that the listener wrote when it answered an incomplete body.
    .filter(({ stage }) => stage !== 'http');
  expect(lines).toHaveLength(4);
  const former = lines.map(({ promptTokensMax, finish, ...line }) => ({
    ...{ ...line, promptTokens: promptTokensMax },
    ...(line.type === undefined && { served: true, status: 200 }),
  }));
  for (const records of [lines, former]) {
    const path = join(fleet.dir, 'decisions.jsonl');
    writeFileSync(path, records.map((line) => JSON.stringify(line)).join('\n'));
    const run = await cli('replay', 'decide', '--requests', path, '-o', 'json');
    expect([run.code, JSON.parse(run.out)]).toEqual([0, { decided: 3, differ: 0, outside: 0, undecided: 1 }]);
  }
  const record = former.find(({ req }) => req === rows.undecided.request);
  const { verdict, same } = explanationSchema.parse(await fleet.admin.call('POST', '/explain', { record }));
  expect([verdict.outcome, verdict.status, same]).toEqual(['ended', undefined, undefined]);
});
