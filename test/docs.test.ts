import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { anthropicNoOpFields } from '../schemas/anthropic.ts';
import { chatFields } from '../schemas/chat-fields.ts';
import type { Dialect } from '../schemas/names.ts';
import { noOpFields } from '../schemas/openai.ts';
import { refusalKinds } from '../schemas/refusals.ts';
import { responsesNoOpFields } from '../schemas/responses.ts';
import { chatFieldGrants, type FieldGrant } from '../shared/engines/chat-fields.ts';

const read = (name: string): string => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');

test('the README lists every refusal with its status, and no other', () => {
  const rows = [...read('README.md').matchAll(/^\| (\w+) \| (\d{3}) \| .* \|$/gm)].map(([, type, status]) => [
    type,
    Number(status),
  ]);
  expect(Object.fromEntries(rows)).toEqual(
    Object.fromEntries(Object.entries(refusalKinds).map(([type, { status }]) => [type, status])),
  );
});

test('docs/api.md lists every field that is accepted without effect, and no other', () => {
  const listed = [...read('docs/api.md').matchAll(/^\| `([^`]+)` \| ([^|]*) \|$/gm)].map(
    ([, path, text]) => `${path}: ${text}`,
  );
  const known = [
    ...noOpFields.chat,
    ...noOpFields.embeddings,
    ...responsesNoOpFields,
    ...anthropicNoOpFields.messages,
    ...anthropicNoOpFields.count_tokens,
  ];
  expect(listed).toEqual(known.map(({ path, text }) => `${path}: ${text}`));
});

const engineNames: Readonly<Record<Dialect, string>> = {
  vllm: 'vLLM',
  sglang: 'SGLang',
  llamacpp: 'llama.cpp',
  ollama: 'Ollama',
};
const dialects = Object.keys(engineNames) as Dialect[];

function tableOfSettings(): string {
  const cell = (grant: FieldGrant | undefined): string =>
    grant === undefined ? 'no' : (grant.values?.map((value) => `\`${value}\``).join(', ') ?? 'yes');
  const names = Object.keys(chatFields) as (keyof typeof chatFields)[];
  return [
    ['field', ...dialects.map((dialect) => engineNames[dialect])],
    ['---', ...dialects.map(() => '---')],
    ...names.map((name) => [
      `\`${name}\``,
      ...dialects.map((dialect) => cell(chatFieldGrants[name][dialect])),
    ]),
  ]
    .map((cells) => `| ${cells.join(' | ')} |\n`)
    .join('')
    .replaceAll(' --- ', '---');
}

test('docs/api.md says which engine takes each setting of a chat: run this test with --update to write it', async () => {
  const page = read('docs/api.md');
  const written = page.replace(/^\| field \| vLLM .*\n(\|.*\n)+/m, tableOfSettings());
  expect(written).toContain(tableOfSettings());
  await expect(written).toMatchFileSnapshot('../docs/api.md');
});

test('the README shows the two commands, and both are scripts of the package', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
  expect(read('README.md')).toContain('npm ci && npm start');
  expect(read('README.md')).toContain('npm ci && npm test');
  expect(read('README.md')).toContain('npm test -- --all');
  expect(Object.keys(scripts)).toEqual(expect.arrayContaining(['start', 'test', 'check', 'bench']));
});
