/**
 * Tries what each row of the response field table in docs/api.md says about the gateway's treatment of a field, and checks
 * that every field of the schema has a row.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { toNodeBody } from '../data-plane/surfaces/common/node-body.ts';
import { shapeResponses } from '../data-plane/surfaces/responses/shape-responses.ts';
import { responsesRequestSchema } from '../schemas/api/responses.ts';
import { Refusal } from '../shared/decision/refusal.ts';
import { responsesNoOpFields } from './support/no-op-fields.ts';

type Fields = Readonly<Record<string, unknown>>;
interface Row {
  readonly name: string;
  readonly here: string;
  readonly text: string;
}

const section = readFileSync('docs/api.md', 'utf8').split('### Responses\n')[1]?.split('\n### ')[0] ?? '';
const rows = [...section.matchAll(/^\| (?:(item|tool) )?`([^`]+)` \| ([a-z ]+) \| (.*)\|$/gm)].map(
  ([, group, name = '', here = '', text = '']): Row => ({
    name: group === undefined ? name : `${group} ${name}`,
    here,
    text,
  }),
);
const fieldRows = rows.filter(({ name }) => !name.includes(' '));

const tool = { type: 'function', name: 'f' };
/** The request to which each test adds the field under test. */
const base: Fields = {
  ...{ model: 'm', input: 'hi', tools: [tool, { ...tool, name: 'g' }] },
  include: ['message.output_text.logprobs'],
};
const samples: Fields = {
  model: 'other',
  input: 'SAMPLE',
  instructions: 'SAMPLE',
  stream: true,
  max_output_tokens: 3,
  temperature: 0.25,
  top_p: 0.25,
  presence_penalty: 0.25,
  frequency_penalty: 0.25,
  top_logprobs: 2,
  'text.format': { type: 'json_object' },
  'text.verbosity': 'medium',
  'reasoning.effort': 'low',
  'reasoning.summary': 'auto',
  'reasoning.generate_summary': 'auto',
  tools: [{ ...tool, name: 'SAMPLE' }],
  tool_choice: 'required',
  parallel_tool_calls: false,
  include: null,
  store: false,
  metadata: { a: 'SAMPLE' },
  prompt_cache_key: 'SAMPLE',
  user: 'SAMPLE',
  safety_identifier: 'SAMPLE',
  client_metadata: { a: 'SAMPLE' },
  prompt_cache_retention: 'SAMPLE',
  prompt_cache_options: { a: 'SAMPLE' },
  service_tier: 'auto',
  stream_options: { include_obfuscation: true },
  background: false,
  truncation: 'disabled',
  max_tool_calls: 3,
  previous_response_id: 'resp_1',
  conversation: 'conv_1',
  prompt: { id: 'p' },
  context_management: [{ type: 'compaction' }],
  moderation: { a: 1 },
};

const headers = { contentType: 'application/json', version: undefined, sealKey: undefined };
const shape = (fields: Fields) => shapeResponses({ ...fields }, headers);

function sent(fields: Fields): Fields {
  const { asked } = shape(fields);
  return toNodeBody(asked, 'vllm', { servedName: asked.model, maxTokens: asked.maxTokens ?? 9 });
}

function withField(name: string): Fields {
  const [outer = '', inner] = name.split('.');
  return { ...base, [outer]: inner === undefined ? samples[name] : { [inner]: samples[name] } };
}

function refusal(fields: Fields): string | undefined {
  try {
    sent(fields);
  } catch (error) {
    expect(error).toBeInstanceOf(Refusal);
    return (error as Refusal).message;
  }
  return undefined;
}

test('every field of the schema has a row in the table, and every row is a field', () => {
  const named = new Set(fieldRows.map(({ name }) => name.split('.')[0]));
  expect([...named].sort()).toEqual(Object.keys(responsesRequestSchema.shape).sort());
  expect(fieldRows.map(({ name }) => name).sort()).toEqual(Object.keys(samples).sort());
});

test.each(fieldRows)('the field $name is $here', ({ name, here, text }) => {
  const plain = sent(base);
  const given = withField(name);
  if (here === 'refused') {
    expect(refusal(given)).toMatch(new RegExp(`^${name}`));
    return;
  }
  const body = sent(given);
  if (here === 'passed on') {
    const changed = Object.keys({ ...plain, ...body }).filter(
      (key) => JSON.stringify(plain[key]) !== JSON.stringify(body[key]),
    );
    const target = /^`([^`]+)`/.exec(text)?.[1];
    expect(changed).toContain(target);
    return;
  }
  expect(body).toEqual(plain);
  const isListed = responsesNoOpFields.some(({ path }) => path.split('.')[0] === name || path === name);
  expect(isListed).toBe(here === 'no effect');
});

const call = { call_id: 'c', name: 'f' };
const output = { call_id: 'c', output: 'done' };
/** Complete input items by kind, each with the other items that its kind requires. */
const items: Readonly<Record<string, readonly object[]>> = {
  message: [{ type: 'message', role: 'user', content: 'SAMPLE' }],
  function_call: [
    { type: 'function_call', ...call, arguments: '{"a":"SAMPLE"}' },
    { type: 'function_call_output', ...output },
  ],
  custom_tool_call: [
    { type: 'custom_tool_call', ...call, input: 'SAMPLE' },
    { type: 'custom_tool_call_output', ...output },
  ],
  function_call_output: [
    { type: 'function_call', ...call, arguments: '{}' },
    { type: 'function_call_output', ...output, output: 'SAMPLE' },
  ],
  custom_tool_call_output: [
    { type: 'custom_tool_call', ...call, input: '' },
    { type: 'custom_tool_call_output', ...output, output: 'SAMPLE' },
  ],
  reasoning: [
    { type: 'reasoning', summary: [{ type: 'summary_text', text: 'SAMPLE' }] },
    { type: 'message', role: 'assistant', content: 'a' },
  ],
  item_reference: [{ type: 'item_reference', id: 'rs_SAMPLE' }],
};
const tools: Fields = {
  function: { type: 'function', name: 'SAMPLE' },
  custom: { type: 'custom', name: 'SAMPLE' },
  namespace: { type: 'namespace', name: 'SAMPLE', tools: [tool] },
  web_search: { type: 'web_search', external_web_access: false },
};

const kindRows = rows.filter(({ name }) => name.includes(' '));

test('every kind of item and tool in the schema has a row', () => {
  const known = (name: string): boolean => {
    const [group, kind = ''] = name.split(' ');
    const unknown = group === 'item' ? { input: [{ type: kind }] } : { input: 'hi', tools: [{ type: kind }] };
    return !/\.type: (is not|has a form|must be one)/.test(refusal({ model: 'm', ...unknown }) ?? '');
  };
  const candidates = [
    ...['web_search_call', 'mcp_call', 'shell_call', 'compaction', 'image_generation_call', 'program'],
    ...Object.keys(items),
  ].map((kind) => `item ${kind}`);
  const itemRows = kindRows.flatMap(({ name }) => (name.startsWith('item ') ? [name] : []));
  expect(candidates.filter(known).sort()).toEqual(itemRows.sort());
});

test.each(kindRows)('the kind $name is $here', ({ name, here }) => {
  const [group, kind = ''] = name.split(' ');
  const last = { role: 'user', content: 'hi' };
  const fields =
    group === 'item'
      ? { input: [...(items[kind] ?? []), last] }
      : { input: 'hi', tools: [tools[kind] ?? { type: kind }, tool] };
  if (here === 'refused') {
    expect(refusal({ model: 'm', ...fields })).toMatch(/^tools\[0\]\.type: /);
    return;
  }
  expect(JSON.stringify(sent({ model: 'm', ...fields })).includes('SAMPLE')).toBe(here === 'passed on');
});
