/**
 * Tests Codex against the shared host of `headgate dev`: the built service and the real client, end to end, with default
 * settings except for address and key. The simulated node calls the tools that the prompt names, and the client runs them.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { type Launch, startDev } from '../support/processes.ts';
import { type Codex, type CodexRun, type CodexSettings, openCodex } from './codex.ts';
import { openWire, type Wire } from './wire.ts';

interface Dev {
  readonly admin: string;
  readonly operatorToken: string;
  readonly gateways: readonly { readonly api: string }[];
  readonly organisations: readonly { readonly id: string; readonly key: string }[];
}

const dot =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

let dir: string;
let dev: Launch<Dev>;
let admin: DevAdmin;
let wire: Wire;
let codex: Codex;
let settings: CodexSettings;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'headgate-codex-dev-'));
  dev = await startDev<Dev>(dir);
  const { ready } = dev;
  admin = new DevAdmin(ready.admin, ready.operatorToken);
  wire = await openWire(Number(new URL(ready.gateways[0]?.api ?? '').port));
  codex = await openCodex();
  writeFileSync(join(codex.cwd, 'note.txt'), 'the note says marzipan\n');
  writeFileSync(join(codex.cwd, 'dot.png'), Buffer.from(dot, 'base64'));
  const key = ready.organisations.find(({ id }) => id === 'acme')?.key ?? '';
  settings = { url: wire.url, key, model: 'echo-large' };
});
afterAll(async () => {
  await codex?.close();
  await wire?.close();
  await dev?.end();
  rmSync(dir, { recursive: true, force: true });
});
beforeEach(() => wire.restart());

const asked = () => wire.sightings.map(({ method, path }) => `${method} ${path}`);
const request = 'POST /v1/responses';
const call = (tool: string, input: object) => `call ${tool} with ${JSON.stringify(input)}`;
const read = call('exec_command', { cmd: 'cat note.txt' });
const outputsOf = ({ events }: CodexRun) =>
  events.flatMap(({ type, item }) =>
    type === 'item.completed' && item?.type === 'command_execution' ? [item.aggregated_output] : [],
  );
const usageOf = ({ events }: CodexRun) => events.findLast(({ usage }) => usage !== undefined)?.usage;

const recorded = async (): Promise<number> => {
  const usage = await admin.call('GET', '/usage?organisation=acme');
  return usage.totalTokens;
};

test('Endpoints: Codex asks, runs the called tool and reads the final answer', async () => {
  const before = await recorded();
  const run = await codex.run(settings, read);
  expect(run.code, run.printed).toBe(0);
  expect(outputsOf(run)).toEqual([expect.stringContaining('marzipan')]);
  expect(run.said).toMatch(/^echo: /);
  expect(asked()).toEqual([request, request]);
  const usage = usageOf(run);
  const tokens = (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0);
  await expect.poll(recorded, { timeout: 10_000 }).toBe(before + tokens);
});

test('Codex completes several turns with a tool, a picture and a namespaced tool', async () => {
  const prompt = [
    read,
    call('view_image', { path: join(codex.cwd, 'dot.png') }),
    call('multi_agent_v1__close_agent', { target: 'nobody' }),
    call('exec_command', { cmd: 'echo $((6 * 7)) is it' }),
  ].join('\n');
  const run = await codex.run(settings, prompt);
  expect(run.code, run.printed).toBe(0);
  expect(outputsOf(run)).toEqual([expect.stringContaining('marzipan'), expect.stringContaining('42 is it')]);
  // Codex recognises the tool by its name within the namespace, and then reports that no agent has this id.
  expect(run.printed).not.toContain('unsupported call');
  expect(run.printed).toContain('invalid agent id nobody');
  expect(asked()).toEqual(Array(5).fill(request));
});

test('Codex resumes a conversation in another sandbox', async () => {
  const first = await codex.run(settings, read);
  expect(first.code, first.printed).toBe(0);
  const again = ['--sandbox', 'workspace-write', 'resume', first.thread ?? '', 'good morning'];
  const second = await codex.run(settings, ...again);
  expect(second.code, second.printed).toBe(0);
  expect(second.said).toMatch(/good morning/);
  expect(asked()).toEqual(Array(3).fill(request));
});

test('Errors 2: Codex’s server-side web search is refused once, with the message shown', async () => {
  const free = ['--sandbox', 'danger-full-access'];
  const run = await codex.run(settings, ...free, 'hello');
  expect(run.code).not.toBe(0);
  expect(run.printed).toContain('external_web_access: must be false');
  expect(asked()).toEqual([request]);
  const without = await codex.run(settings, ...free, '-c', 'web_search="disabled"', 'good morning');
  expect(without.said, without.printed).toMatch(/good morning/);
});
