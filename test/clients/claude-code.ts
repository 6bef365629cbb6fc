/**
 * Runs Claude Code once in print mode. Uses the native program from the client cache with a home and working folder of its
 * own, pointed at one stack. Requests to other hosts reach a proxy that records their address and refuses them.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cached } from './cache.ts';

const program = cached(
  `npm/node_modules/@anthropic-ai/claude-code-${process.platform}-${process.arch}/claude`,
);

const runMs = 90_000;

export interface Settings {
  /** Base URL of the stack, without `/v1`. */
  readonly url: string;
  /** Environment variable that contains the key. It decides whether the key is sent as a bearer token or as `x-api-key`. */
  readonly keyIn: 'ANTHROPIC_AUTH_TOKEN' | 'ANTHROPIC_API_KEY';
  readonly key: string;
  readonly model: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Output that Claude Code prints with `--output-format json`. */
export interface ClaudeOutput {
  readonly result: string;
  readonly is_error: boolean;
  readonly api_error_status: number | null;
  readonly num_turns: number;
  readonly structured_output?: unknown;
  readonly session_id: string;
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number };
}

export interface ClaudeCode {
  readonly cwd: string;
  /** Other hosts that the program tried to reach. */
  readonly asked: readonly string[];
  run(settings: Settings, prompt: string, ...args: readonly string[]): Promise<ClaudeOutput>;
  close(): Promise<void>;
}

export async function openClaudeCode(): Promise<ClaudeCode> {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-claude-code-'));
  const cwd = join(dir, 'work');
  mkdirSync(cwd);
  const asked: string[] = [];
  const proxy = createServer((request, response) => {
    asked.push(request.url ?? '');
    response.writeHead(403).end();
  });
  proxy.on('connect', (request, socket) => {
    asked.push(request.url ?? '');
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const elsewhere = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  const base = {
    HOME: dir,
    CLAUDE_CONFIG_DIR: join(dir, 'config'),
    PATH: '/usr/bin:/bin',
    HTTP_PROXY: elsewhere,
    HTTPS_PROXY: elsewhere,
    NO_PROXY: '127.0.0.1',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    DISABLE_TELEMETRY: '1',
  };
  return {
    cwd,
    asked,
    run: ({ url, keyIn, key, model, env }, prompt, ...args) =>
      print(cwd, [prompt, ...args], {
        ...base,
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_MODEL: model,
        [keyIn]: key,
        ...env,
      }),
    close: async () => {
      proxy.closeAllConnections();
      await new Promise((resolve) => proxy.close(resolve));
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function print(
  cwd: string,
  [prompt = '', ...args]: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<ClaudeOutput> {
  const child = spawn(program, ['-p', prompt, '--output-format', 'json', ...args], {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: runMs,
    killSignal: 'SIGKILL',
  });
  let printed = '';
  let said = '';
  child.stdout.on('data', (chunk: Buffer) => {
    printed += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  const [code, signal] = await once(child, 'close');
  if (!printed.startsWith('{'))
    throw new Error(`Claude Code ended with ${code ?? signal}: ${said}${printed}`);
  return JSON.parse(printed) as ClaudeOutput;
}
