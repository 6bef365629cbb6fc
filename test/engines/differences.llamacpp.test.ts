/**
 * Compares our Anthropic-style API with llama.cpp's own. Each request goes to both. Our gateway uses the same server as its
 * node, at temperature 0, so both produce the same words. Every difference must be listed with its reason. The test fails on
 * a difference without a reason, and on a reason that no longer applies.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Answer, call } from '../support/api.ts';
import { startFleet, type TestFleet } from '../support/fleet.ts';
import { readMessageEvents } from '../support/message-events.ts';
import { type Case, cases } from './differences-cases.ts';
import { type Difference, differencesOf, explanations } from './differences-explained.ts';
import { llamaServer } from './llamacpp.ts';
import type { ServerProcess } from './server-process.ts';

/**
 * The llama.cpp build for which the explanations were written. Other builds may differ in more ways without a fault of the
 * gateway.
 */
const knownBuild = 'b11669-Debian';
const stack = 'stk-calm-otter-5c5c';
const dir = mkdtempSync(join(tmpdir(), 'headgate-differences-'));
const used = new Set<string>();
let server: ServerProcess;
let fleet: TestFleet;
let key: string;
let port: number;
let build: string;

beforeAll(async () => {
  // Turns the cache for earlier prompts off, so that the number of tokens billed as cached does not depend on the order of
  // requests.
  server = await llamaServer(dir, 'tiny', ['-c', '4096', '-np', '1', '--no-cache-prompt']);
  await server.start();
  const props = (await (await fetch(`${server.url}/props`)).json()) as { build_info: string };
  build = props.build_info;
  fleet = await startFleet({
    gateway: { stackPorts: [{ stack, port: 0 }] },
    fleet: () => ({
      version: 1,
      models: [{ id: 'tiny', family: 'tiny', weight: 1 }],
      tiers: [{ id: 'Platinum', models: '*' }],
      organisations: [
        {
          id: 'acme',
          name: 'Acme',
          tier: 'Platinum',
          stacks: [
            {
              id: stack,
              surface: 'anthropic',
              models: ['tiny'],
              nodes: [{ id: 'acme-s1', url: server.url, dialect: 'llamacpp' }],
            },
          ],
        },
      ],
    }),
  });
  key = (await fleet.key('acme')).value;
  await fleet.settle();
  port = Number(new URL(fleet.gateways[0]?.stacks[0]?.url ?? '').port);
}, 120_000);

afterAll(async () => {
  await fleet?.close();
  await server?.kill();
  rmSync(dir, { recursive: true, force: true });
});

test.for(cases)('$name: every difference has an explanation', async (one, { skip }) => {
  skip(build !== knownBuild, otherBuild());
  const [theirs, ours] = await Promise.all([askAt(Number(new URL(server.url).port), one), askAt(port, one)]);
  const unexplained: Difference[] = [];
  for (const difference of differencesOf(ours, theirs)) {
    const reason = explanations.find((explanation) => explanation.covers(difference, one));
    if (reason) used.add(reason.why);
    else unexplained.push(difference);
  }
  expect(unexplained).toEqual([]);
});

test('every explanation still explains something', ({ skip }) => {
  skip(build !== knownBuild, otherBuild());
  expect(explanations.map(({ why }) => why).filter((why) => !used.has(why))).toEqual([]);
});

function otherBuild(): string {
  return `llama.cpp ${build}, while the differences are known of ${knownBuild}`;
}

async function askAt(at: number, { path = '/v1/messages', body }: Case): Promise<object> {
  const headers = { 'x-api-key': key, 'anthropic-version': '2023-06-01' };
  return report(await call({ port: at, method: 'POST', path, headers, body: { model: 'tiny', ...body } }));
}

/**
 * Returns what a client can observe: the type of a refusal, the members of an answer, or a stream as a strict client
 * assembles it.
 */
function report({ status, fields, content, whole }: Answer): object {
  const type = fields['content-type']?.split(';')[0];
  if (status !== 200) {
    const { error } = JSON.parse(content) as { error: { type: string } };
    return { outcome: `${status} ${error.type}` };
  }
  const outcome = 'answered';
  if (type !== 'text/event-stream') return { outcome, type, whole, body: JSON.parse(content) as object };
  const repaired = content.replace(/("content_block":\{"type":"tool_use"[^{}]*)\}/g, '$1,"input":{}}');
  const { start, content: blocks, end, isComplete, outline } = readMessageEvents(repaired);
  const usage = { ...(start['usage'] as object), ...(end?.['usage'] as object) };
  return {
    outcome,
    type,
    whole,
    grammar: repaired === content ? 'kept' : 'a call begins without its empty input',
    body: { ...start, content: blocks, ...(end?.['delta'] as object), usage },
    isComplete,
    outline: outline.join(' '),
  };
}
