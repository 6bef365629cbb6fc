import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { chatFieldGrants, type FieldGrant } from '../data-plane/surfaces/common/chat-fields.ts';
import { chatFields } from '../schemas/api/chat-fields.ts';
import { refusalKinds } from '../schemas/api/refusals.ts';
import { eventDefinitions, eventTypeNames } from '../schemas/events/event-definitions.ts';
import type { Dialect } from '../schemas/names.ts';
import { logEvents } from '../schemas/records/log-events.ts';
import { type Cause, causeNames, causes, causeText } from '../shared/decision/causes.ts';
import { stepNames } from '../shared/decision/steps.ts';
import { anthropicNoOpFields, noOpFields, responsesNoOpFields } from './support/no-op-fields.ts';

const read = (name: string): string => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');

test('the README lists exactly the existing refusals with their status', () => {
  const rows = [...read('README.md').matchAll(/^\| (\w+) \| (\d{3}) \| .* \|$/gm)].map(([, type, status]) => [
    type,
    Number(status),
  ]);
  expect(Object.fromEntries(rows)).toEqual(
    Object.fromEntries(Object.entries(refusalKinds).map(([type, { status }]) => [type, status])),
  );
});

test('docs/api.md lists exactly the fields that are accepted without effect', () => {
  const listed = [...read('docs/api.md').matchAll(/^\| `([^`]+)` \| ([^|]*) \|$/gm)].map(
    ([, path, text]) => `${path}: ${text}`,
  );
  const known = [
    ...noOpFields.chat,
    ...noOpFields.embeddings,
    ...responsesNoOpFields,
    // Token counting accepts the same fields, except for those that concern the answer.
    ...anthropicNoOpFields.messages,
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

/**
 * Checks that a page of the documentation contains this table. With --update, puts the table in place of the one with the
 * same header.
 */
async function expectTable(
  name: string,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): Promise<void> {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |\n`;
  const table = [line(head), `|${head.map(() => '---').join('|')}|\n`, ...rows.map(line)].join('');
  const page = read(name);
  const begin = page.indexOf(line(head));
  const lines = /^(?:\|.*\n)+/.exec(page.slice(begin))?.[0] ?? '';
  expect(begin, `${name} has such a table`).toBeGreaterThan(0);
  const written = page.slice(0, begin) + table + page.slice(begin + lines.length);
  await expect(written).toMatchFileSnapshot(`../${name}`);
}

test('docs/api.md shows which engine supports each chat setting: run this test with --update to write it', async () => {
  const cell = (grant: FieldGrant | undefined): string =>
    grant === undefined ? 'no' : (grant.values?.map((value) => `\`${value}\``).join(', ') ?? 'yes');
  const names = Object.keys(chatFields) as (keyof typeof chatFields)[];
  await expectTable(
    'docs/api.md',
    ['field', ...dialects.map((dialect) => engineNames[dialect])],
    names.map((name) => [`\`${name}\``, ...dialects.map((dialect) => cell(chatFieldGrants[name][dialect]))]),
  );
});

test('docs/log-events.md lists every log line: run this test with --update to write it', async () => {
  const rows = Object.entries(logEvents).map(([code, [level, text]]) => [`\`${code}\``, level, text]);
  await expectTable('docs/log-events.md', ['event', 'level', 'text'], rows);
});

function pagesOf(folder: string): { name: string; lines: string[] }[] {
  return readdirSync(new URL(`../docs/${folder}/`, import.meta.url))
    .sort()
    .map((file) => ({
      name: file.replace(/\.md$/, ''),
      lines: read(`docs/${folder}/${file}`).split('\n'),
    }));
}

test('docs/alerts.md lists every alert: run this test with --update to write it', async () => {
  const rows = pagesOf('runbooks').map(({ name, lines }) => {
    const severityAt = lines.findIndex((line) => line.startsWith('Severity: '));
    const [, severity = ''] = /^Severity: (\w+)\./.exec(lines[severityAt] ?? '') ?? [];
    return [`[${name}](runbooks/${name}.md)`, severity, lines.slice(2, severityAt).join(' ').trim()];
  });
  await expectTable('docs/alerts.md', ['alert', 'severity', 'what it means'], rows);
});

test('docs/findings.md lists every finding: run this test with --update to write it', async () => {
  const rows = pagesOf('errors').map(({ name, lines }) => [
    `[${name}](errors/${name}.md)`,
    (lines[0] ?? '').replace(`# ${name}: `, ''),
  ]);
  await expectTable('docs/findings.md', ['code', 'finding'], rows);
});

test('docs/explain.md lists every step and cause: run this test with --update to write it', async () => {
  const textsOf = (cause: Cause): string => `\`${causeText(cause, '…')}\``;
  const rows = stepNames.map((step) => {
    const own = causeNames.filter((cause) => causes[cause].step === step);
    const types = new Set(own.map((cause) => causes[cause].type));
    return [`\`${step}\``, [...types].join(', '), [...new Set(own.map(textsOf))].join(', ')];
  });
  await expectTable('docs/explain.md', ['step', 'refused with', 'cause'], rows);
});

test('the changelog names each critical event added later, because older builds halt at it', () => {
  const later = eventTypeNames.filter((type) => {
    const { critical, foldVersion } = eventDefinitions[type];
    return critical && foldVersion > 1;
  });
  expect(later.filter((type) => !read('CHANGELOG.md').includes(`\`${type}\``))).toEqual([]);
});

test('the README shows the start and test commands, and both are package scripts', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
  expect(read('README.md')).toContain('npm ci && npm start');
  expect(read('README.md')).toContain('npm ci && npm test');
  expect(read('README.md')).toContain('npm test -- --all');
  expect(Object.keys(scripts)).toEqual(expect.arrayContaining(['start', 'test', 'check', 'bench']));
});
