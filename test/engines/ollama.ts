/**
 * Ollama runs one server for chats and embeddings. Its model is made from the tiny GGUF file and a template in Ollama's
 * template language.
 */
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Engine } from './engine.ts';
import { freePort, installed, ServerProcess } from './server-process.ts';
import { writeGguf } from './tiny-gguf.ts';
import { tinyModel } from './tiny-model.ts';

const windowTokens = 2048;
const run = promisify(execFile);

/** The `chatTemplate` of the tiny model, in Ollama's template language. */
const template = [
  '{{- if .Tools }}<|im_start|>system\n# Tools\n\nYou may call one or more functions.\n<tools>\n',
  '{{ range .Tools }}{{ . }}\n{{ end }}</tools>\n\nFor each call return a JSON object within tags:\n<tool_call>\n',
  '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n{{ end }}',
  '{{- range $at, $_ := .Messages }}{{- $last := eq (len (slice $.Messages $at)) 1 }}',
  '<|im_start|>{{ .Role }}\n{{ .Content }}{{ if .ToolCalls }}{{ range .ToolCalls }}<tool_call>\n',
  '{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}\n</tool_call>{{ end }}{{ end }}<|im_end|>\n',
  '{{- if $last }}<|im_start|>assistant\n',
  '{{ if and $.Tools (ne .Role "tool") }}<|offered|>{{ end }}{{ end }}{{ end }}',
].join('');

export const ollama: Engine = {
  dialect: 'ollama',
  model: 'tiny',
  embeddingModel: 'tiny',
  windowTokens,
  reportsWindow: false,
  finishesOnSigterm: false,
  skips: {
    'a prompt longer than its window is refused as that, streamed or not, and not billed':
      'it cuts such a prompt silently, and does not report its window',
  },
  start: async (dir) => {
    const port = await freePort();
    const { command, env: own } = installed('ollama');
    const home = join(dir, 'home');
    mkdirSync(home);
    const env = { ...own, HOME: home, OLLAMA_HOST: `127.0.0.1:${port}`, OLLAMA_MODELS: join(dir, 'models') };
    const server = new ServerProcess({
      command,
      env,
      args: [],
      dir,
      name: 'ollama',
      port,
      readyPath: '/api/version',
      startTimeoutMs: 60_000,
    });
    await server.start();
    writeGguf(join(dir, 'tiny.gguf'), tinyModel(), windowTokens);
    const modelFile = join(dir, 'Modelfile');
    const lines = ['FROM ./tiny.gguf', `PARAMETER num_ctx ${windowTokens}`, `TEMPLATE """${template}"""`];
    writeFileSync(modelFile, lines.join('\n'));
    await run(command[0] ?? '', ['create', 'tiny', '-f', modelFile], { env: { ...process.env, ...env } });
    return {
      url: server.url,
      embeddingUrl: undefined,
      busy: undefined,
      kill: () => server.kill(),
      terminate: () => server.signal('SIGTERM'),
      ended: () => server.ended(),
      restart: () => server.start(),
      stop: () => server.kill(),
    };
  },
};
