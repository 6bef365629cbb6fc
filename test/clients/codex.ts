/**
 * Runs Codex without a terminal. Uses the native program from the client cache with a home and working folder of its own, and
 * with only the settings that docs/api.md shows. Requests to other hosts reach a proxy that refuses them.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cached } from './cache.ts';

const program = cached('npm/node_modules/@openai/codex/bin/codex.js');

const runMs = 120_000;

export interface CodexSettings {
  /** Base URL of the API, including `/v1`. */
  readonly url: string;
  readonly key: string;
  readonly model: string;
}

/** An event that Codex prints with `--json`. */
export interface CodexEvent {
  readonly type: string;
  readonly thread_id?: string;
  readonly message?: string;
  readonly item?: CodexItem;
  readonly usage?: { readonly input_tokens: number; readonly output_tokens: number };
}

export interface CodexItem {
  readonly type: string;
  readonly text?: string;
  readonly command?: string;
  readonly aggregated_output?: string;
  readonly status?: string;
}

export interface CodexRun {
  readonly code: number | null;
  readonly events: readonly CodexEvent[];
  /** The assistant's last message. */
  readonly said: string | undefined;
  readonly thread: string | undefined;
  /** Everything that Codex printed, for the messages of failing tests. */
  readonly printed: string;
}

export interface Codex {
  readonly cwd: string;
  run(settings: CodexSettings, ...args: readonly string[]): Promise<CodexRun>;
  close(): Promise<void>;
}

const configOf = ({ url, model }: CodexSettings): string => `model = "${model}"
model_provider = "headgate"

[model_providers.headgate]
name = "Headgate"
base_url = "${url}"
env_key = "CODEX_API_KEY"
wire_api = "responses"
`;

export async function openCodex(): Promise<Codex> {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-codex-'));
  const cwd = join(dir, 'work');
  const home = join(dir, 'codex');
  for (const folder of [cwd, home]) mkdirSync(folder);
  const proxy = createServer((_request, response) => {
    response.writeHead(403).end();
  });
  proxy.on('connect', (_request, socket) => {
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const elsewhere = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  return {
    cwd,
    run: (settings, ...args) => {
      writeFileSync(join(home, 'config.toml'), configOf(settings));
      return read(cwd, args, {
        HOME: dir,
        CODEX_HOME: home,
        CODEX_API_KEY: settings.key,
        PATH: `${join(process.execPath, '..')}:/usr/bin:/bin`,
        HTTP_PROXY: elsewhere,
        HTTPS_PROXY: elsewhere,
        NO_PROXY: '127.0.0.1',
      });
    },
    close: async () => {
      proxy.closeAllConnections();
      await new Promise((resolve) => proxy.close(resolve));
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function read(
  cwd: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<CodexRun> {
  const child = spawn(process.execPath, [program, 'exec', '--json', '--skip-git-repo-check', ...args], {
    ...{ cwd, env, timeout: runMs, killSignal: 'SIGKILL' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  let printed = '';
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString();
    printed += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    printed += chunk.toString();
  });
  const [code] = (await once(child, 'close')) as [number | null];
  const lines = out.split('\n').filter((line) => line.startsWith('{'));
  const events = lines.map((line) => JSON.parse(line) as CodexEvent);
  const texts = events.flatMap(({ item }) => (item?.type === 'agent_message' ? [item.text ?? ''] : []));
  const thread = events.find(({ type }) => type === 'thread.started')?.thread_id;
  return { code, events, said: texts.at(-1), thread, printed };
}
