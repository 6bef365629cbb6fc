/**
 * Tests Claude Code against a stack of `headgate dev` that uses the Anthropic API: the built service and the real client, end
 * to end. The simulated node calls the tools that the prompt names, and the client runs them.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { type Launch, startDev } from '../support/processes.ts';
import { type ClaudeCode, type ClaudeOutput, openClaudeCode, type Settings } from './claude-code.ts';
import { openWire, type Wire } from './wire.ts';

interface Dev {
  readonly admin: string;
  readonly operatorToken: string;
  readonly stacks: readonly { readonly id: string; readonly organisation: string; readonly url: string }[];
  readonly organisations: readonly { readonly id: string; readonly key: string }[];
}

const dot =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

let dir: string;
let dev: Launch<Dev>;
let admin: DevAdmin;
let wire: Wire;
let claude: ClaudeCode;
let settings: Settings;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'headgate-claude-'));
  dev = await startDev<Dev>(dir);
  const { ready } = dev;
  const stack = ready.stacks.find(({ organisation }) => organisation === 'acme');
  admin = new DevAdmin(ready.admin, ready.operatorToken);
  const switched = await admin.call('PUT', `/stacks/${stack?.id}/surface`, {
    surface: 'anthropic',
  });
  expect(await admin.confirmed(switched.position, 20)).toMatchObject({ complete: true });
  wire = await openWire(Number(new URL(stack?.url ?? '').port));
  claude = await openClaudeCode();
  writeFileSync(join(claude.cwd, 'note.txt'), 'the note says marzipan\n');
  writeFileSync(join(claude.cwd, 'dot.png'), Buffer.from(dot, 'base64'));
  settings = {
    url: wire.url.replace(/\/v1$/, ''),
    keyIn: 'ANTHROPIC_AUTH_TOKEN',
    key: ready.organisations.find(({ id }) => id === 'acme')?.key ?? '',
    model: 'echo-large',
    // Turns tool search off, so that the client sends all tools at once. The gateway does not support tools that the client
    // loads later.
    env: { ENABLE_TOOL_SEARCH: 'false' },
  };
});
afterAll(async () => {
  await claude?.close();
  await wire?.close();
  await dev?.end();
  rmSync(dir, { recursive: true, force: true });
});
beforeEach(() => wire.restart());

const asked = () => wire.sightings.map(({ method, path }) => `${method} ${path}`);
const message = 'POST /v1/messages?beta=true';
const call = (tool: string, input: object) => `call ${tool} with ${JSON.stringify(input)}`;
const note = () => call('Read', { file_path: join(claude.cwd, 'note.txt') });

const recorded = async (): Promise<number> => {
  const usage = await admin.call('GET', '/usage?organisation=acme');
  return usage.totalTokens;
};

const tokensOf = ({ usage }: ClaudeOutput) => usage.input_tokens + usage.output_tokens;

test.each(['ANTHROPIC_AUTH_TOKEN', 'ANTHROPIC_API_KEY'] as const)(
  'Authentication 2: with its key in %s, Claude Code asks, runs the called tool and reads the final answer',
  async (keyIn) => {
    const before = await recorded();
    const printed = await claude.run({ ...settings, keyIn }, note(), '--allowedTools', 'Read');
    expect(printed).toMatchObject({ is_error: false, num_turns: 2 });
    expect(printed.result).toMatch(/^echo: 1 the note says marzipan/);
    expect(asked()).toEqual([message, message]);
    expect(claude.asked).toEqual([]);
    await expect.poll(recorded, { timeout: 10_000 }).toBe(before + tokensOf(printed));
  },
);

test('Claude Code runs two tools in successive turns, the first of which shows a picture', async () => {
  const look = call('Read', { file_path: join(claude.cwd, 'dot.png') });
  const prompt = `${look}\n${call('Bash', { command: 'echo $((6 * 7)) is it' })}`;
  const printed = await claude.run(settings, prompt, '--allowedTools', 'Read,Bash');
  expect(printed).toMatchObject({ is_error: false, num_turns: 3 });
  expect(printed.result).toMatch(/^echo: 42 is it/);
  expect(asked()).toEqual([message, message, message]);
});

test('Claude Code reports a failing tool, and resumes the conversation', async () => {
  const failing = call('Read', { file_path: join(claude.cwd, 'missing.txt') });
  const first = await claude.run(settings, failing, '--allowedTools', 'Read');
  expect(first.result).toMatch(/^echo: Error: File does not exist/);
  const more = ['--resume', first.session_id, '--allowedTools', 'Read'];
  expect((await claude.run(settings, note(), ...more)).result).toContain('marzipan');
  expect(asked()).toEqual([message, message, message, message]);
});

test('Claude Code gets an answer that satisfies a schema', async () => {
  const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
  const prompt = call('StructuredOutput', { city: 'Oslo' });
  const printed = await claude.run(settings, prompt, '--json-schema', JSON.stringify(schema));
  expect(printed).toMatchObject({ is_error: false, structured_output: { city: 'Oslo' } });
});

test('Endpoints: tools to be loaded later are refused by name, and Claude Code continues without them', async () => {
  const printed = await claude.run({ ...settings, env: {} }, note(), '--allowedTools', 'Read');
  expect(printed.result).toContain('marzipan');
  expect(asked().at(-1)).toBe(message);
  expect(asked().length).toBeLessThanOrEqual(5);
});

test('Errors 1, 6: Claude Code reports a bad key after one request, and an unserved model after two', async () => {
  const denied = await claude.run({ ...settings, key: `${settings.key}x` }, 'hello');
  expect(denied).toMatchObject({ is_error: true, api_error_status: 401 });
  expect(denied.result).toContain('The API key is missing or not valid.');
  expect(asked()).toEqual([message]);
  wire.restart();
  const missing = await claude.run({ ...settings, model: 'echo-small' }, 'hello');
  expect(missing).toMatchObject({ is_error: true, api_error_status: 404 });
  // After a refused stream, the client repeats the request without streaming.
  expect(asked()).toEqual([message, message]);
});
