/** Tests how nodes' responses other than completions are read, with bodies captured from the four engines. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Dialect } from '../../schemas/names.ts';
import {
  findContextError,
  findInability,
  readTokenCount,
  servedModels,
  tokenCountRequest,
} from './node-answers.ts';

const all: readonly Dialect[] = ['vllm', 'sglang', 'llamacpp', 'ollama'];

const captured = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../test/fixtures/captures/${name}.json`, import.meta.url), 'utf8'));

test.each([
  ['vllm', 'vllm/48-context-too-long', 1024],
  ['vllm', 'vllm/47-max-tokens-over-window', 1024],
  ['sglang', 'sglang/48-context-too-long', 1024],
  ['sglang', 'sglang/47-max-tokens-over-window', 1024],
  ['llamacpp', 'llamacpp/48-context-too-long', 4096],
  ['llamacpp', 'llamacpp/37-embeddings-too-long', undefined],
  ['ollama', 'ollama/208-context-too-long-truncate-false', undefined],
] as [Dialect, string, number | undefined][])(
  'Errors 8: %s reports in %s that the context is too long, window %s',
  (dialect, name, windowTokens) => {
    expect(findContextError(dialect, captured(name))).toEqual(
      windowTokens === undefined ? {} : { windowTokens },
    );
  },
);

test.each([
  ['vllm', { error: 'Unauthorized' }],
  [
    'vllm',
    { error: { message: 'Grammar error: Invalid type: strange', type: 'BadRequestError', code: 400 } },
  ],
  ['sglang', { object: 'error', message: 'The model does not exist.' }],
  ['sglang', 'Internal Server Error'],
  ['llamacpp', { error: { code: 500, message: 'image input is not supported', type: 'server_error' } }],
  ['ollama', { error: { message: 'invalid JSON schema in format', type: 'api_error', code: null } }],
  ['vllm', { detail: 'Not Found' }],
] as [Dialect, unknown][])('another error of %s is not a context error: %j', (dialect, error) => {
  expect(findContextError(dialect, error)).toBeUndefined();
});

test.each([
  ['vllm', 'images', { error: { message: 'tiny is not a multimodal model', type: 'BadRequestError' } }],
  ['vllm', 'schema', { error: { message: 'Grammar error: Invalid type: strange', code: 400 } }],
  ['vllm', 'dimensions', { error: { message: "Model 'm' does not support Matryoshka embeddings; …" } }],
  ['sglang', 'images', { object: 'error', message: 'Model only supports text input; received …' }],
  ['sglang', 'schema', { error: { object: 'error', message: 'Failed to compile json grammar: …' } }],
  ['sglang', 'dimensions', { object: 'error', message: "Model 'm' does not support matryoshka …" }],
  ['llamacpp', 'images', { error: { code: 500, message: 'image input is not supported - hint: …' } }],
  ['llamacpp', 'schema', { error: { code: 400, message: 'Unable … JSON schema error at #: …' } }],
  ['ollama', 'schema', { error: { message: 'invalid JSON schema in format', type: 'api_error' } }],
  ['ollama', 'thinking', { error: { message: '"tiny" does not support thinking', type: 'api_error' } }],
] as [Dialect, string, object][])(
  'Errors 2: %s reports that a model does not support %s',
  (dialect, inability, error) => {
    expect(findInability(dialect, error)).toBe(inability);
    expect(findInability(dialect, { error: { message: 'The engine is overloaded' } })).toBeUndefined();
  },
);

test('no answer of a node makes a reader throw', () => {
  fc.assert(
    fc.property(fc.constantFrom(...all), fc.jsonValue(), (dialect, answer) => {
      findContextError(dialect, answer);
      findInability(dialect, answer);
      readTokenCount(dialect, answer);
      servedModels(dialect, answer);
      servedModels(dialect, { data: answer });
      servedModels(dialect, { data: [answer] });
    }),
  );
});

const body = {
  model: 'm',
  messages: [],
  tools: [],
  max_tokens: 5,
  stream: true,
  continue_final_message: true,
};

test.each([
  [
    'vllm',
    '/tokenize',
    { model: 'm', messages: [], tools: [], continue_final_message: true },
    'vllm/90-tokenize-messages',
  ],
  ['sglang', '/tokenize', { model: 'm', messages: [], tools: [] }, 'sglang/90-tokenize-messages'],
  [
    'llamacpp',
    '/v1/chat/completions/input_tokens',
    { model: 'm', messages: [], tools: [] },
    'llamacpp/92-input-tokens-endpoint',
  ],
] as [Dialect, string, object, string][])('%s counts tokens at %s', (dialect, path, asked, answer) => {
  expect(tokenCountRequest(dialect, body)).toEqual({ path, body: asked });
  expect(readTokenCount(dialect, captured(answer))).toBe(23);
});

test('Ollama cannot count tokens', () => {
  expect(tokenCountRequest('ollama', body)).toBeUndefined();
  expect(readTokenCount('ollama', { count: 5 })).toBeUndefined();
});

test.each([{ count: -1 }, { count: '5' }, { count: 1.5 }, {}, null, []])(
  '%j is not a number of tokens',
  (answer) => {
    expect(readTokenCount('vllm', answer)).toBeUndefined();
  },
);

test.each([
  ['vllm', [{ name: 'tiny', windowTokens: 1024 }]],
  ['sglang', [{ name: 'tiny', windowTokens: 1024 }]],
  ['llamacpp', [{ name: 'tiny', windowTokens: 4096 }]],
  ['ollama', ['tiny:latest', 'tiny'].map((name) => ({ name, modified: 1795226418 }))],
] as [Dialect, object[]][])('%s reports the models that it serves', (dialect, models) => {
  expect(servedModels(dialect, captured(`${dialect}/01-models`))).toEqual(models);
});

test('a model that a server lists but has not loaded is not served', () => {
  const data = [
    { id: 'a', status: { value: 'loaded' } },
    { id: 'b', status: { value: 'unloaded' } },
  ];
  expect(servedModels('llamacpp', { data })).toEqual([{ name: 'a' }]);
});
