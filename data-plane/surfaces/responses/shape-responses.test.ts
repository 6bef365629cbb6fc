/** Tests how a request to the responses API is converted, and what is refused. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { responsesNoOpFields } from '../../../test/support/no-op-fields.ts';
import { shapeRefusal } from '../../../test/support/shape-refusal.ts';
import { toNodeBody } from '../common/node-body.ts';
import { TenantSecrets } from '../common/tenant-secrets.ts';
import { sealThoughts } from './sealed-thoughts.ts';
import { shapeResponses } from './shape-responses.ts';

const sealKey = new TenantSecrets('gateway-token-of-the-tests', 'sealed thoughts').of('acme');
const headers = { contentType: 'application/json', version: undefined, sealKey };
type Fields = Readonly<Record<string, unknown>>;

const shaped = (fields: Fields) => shapeResponses({ model: 'm', input: 'hi', ...fields }, headers);
const target = { servedName: 's', maxTokens: 9 } as const;
const sent = (fields: Fields) => toNodeBody(shaped(fields).asked, 'vllm', target);
const messagesOf = (...input: object[]) => sent({ input })['messages'];
const refusal = (fields: Fields) => shapeRefusal(() => shaped(fields));

const user = (content: unknown) => ({ role: 'user', content });
const said = (content: unknown, more: object = {}) => ({
  type: 'message',
  role: 'assistant',
  content,
  ...more,
});
const thought = (more: object) => ({ type: 'reasoning', id: 'rs_1', summary: [], ...more });
const summary = (text: string) => [{ type: 'summary_text', text }];
const call = (call_id: string, name = 'f', more: object = {}) => ({
  ...{ type: 'function_call', call_id, name, arguments: '{}', id: 'fc_1', status: 'completed' },
  ...more,
});
const output = (call_id: string, given: unknown = 'done') => ({
  ...{ type: 'function_call_output', call_id, output: given },
});
const image = { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'auto' };
const called = (id: string, name = 'f', given = '{}') => ({
  ...{ id, type: 'function', function: { name, arguments: given } },
});

describe('input', () => {
  test('instructions and all system and developer messages become one message at the start', () => {
    const items = [
      { role: 'developer', content: 'b' },
      { role: 'system', content: [{ type: 'input_text', text: 'c' }] },
      user('hi'),
      { type: 'message', role: 'developer', content: 'd' },
      user('so'),
    ];
    expect(sent({ instructions: 'a', input: items })['messages']).toEqual([
      { role: 'system', content: 'a\n\nb\n\nc\n\nd' },
      user('hi'),
      user('so'),
    ]);
  });

  test('consecutive thoughts, messages and calls are one message, as is a message between calls and outputs', () => {
    expect(
      messagesOf(
        user('hi'),
        thought({ summary: summary('hm') }),
        said([{ type: 'output_text', text: 'one', annotations: [], logprobs: [] }], { phase: 'commentary' }),
        call('a'),
        said('two'),
        call('b', 'g'),
        output('b'),
        said('three'),
        output('a', [{ type: 'input_text', text: 'x' }]),
        said('four'),
        user('so'),
      ),
    ).toEqual([
      user('hi'),
      {
        ...{ role: 'assistant', content: 'one\n\ntwo\n\nthree', reasoning: 'hm' },
        tool_calls: [called('a'), called('b', 'g')],
      },
      { role: 'tool', tool_call_id: 'b', content: 'done' },
      { role: 'tool', tool_call_id: 'a', content: 'x' },
      { role: 'assistant', content: 'four' },
      user('so'),
    ]);
  });

  test('a user’s message before an output moves behind it, and so does the output’s image', () => {
    const shown = { type: 'image_url', image_url: { url: image.image_url } };
    expect(
      messagesOf(
        user('hi'),
        call('a'),
        user('wait'),
        output('a', [image, { type: 'input_text', text: 'x' }]),
      ),
    ).toEqual([
      user('hi'),
      { role: 'assistant', tool_calls: [called('a')] },
      { role: 'tool', tool_call_id: 'a', content: 'x' },
      user('wait'),
      user([shown]),
    ]);
    const { asked } = shaped({ input: [user('hi'), call('a'), output('a', [image])] });
    expect(asked.needs).toEqual(['images']);
    expect(asked.paths?.images).toEqual(['input', 2, 'output', 0]);
  });

  test.each([
    ['a call without an output', [user('hi'), call('a')], 'input[1].call_id: must be answered'],
    ['an output without a call', [user('hi'), output('a')], 'input[1].call_id: must be the call_id of'],
    ['an output before its call', [output('a'), call('a')], 'input[0].call_id: must be the call_id of'],
    ['two outputs', [call('a'), output('a'), output('a')], 'input[2].call_id: must be the call_id of'],
    [
      'the same id twice',
      [call('a'), output('a'), call('a'), output('a')],
      'input[2].call_id: is the call_id of another',
    ],
  ])('%s is refused', (_, input, says) => {
    expect(refusal({ input })).toContain(says);
  });

  test('sealed thoughts are preferred to readable ones, and are left out if there are neither', () => {
    const sealed = sealThoughts('sealed', sealKey);
    const content = [{ type: 'reasoning_text', text: 'content' }];
    const of = (more: object) =>
      (messagesOf(user('hi'), thought(more), said('so'), user('?')) as Fields[])[1];
    const so = { role: 'assistant', content: 'so' };
    expect(of({ encrypted_content: sealed, content, summary: summary('s') })).toEqual({
      ...so,
      reasoning: 'sealed',
    });
    const foreign = { encrypted_content: `${sealed?.slice(0, -4)}AAAA` };
    expect(of({ ...foreign, content, summary: summary('s') })).toEqual({ ...so, reasoning: 'content' });
    expect(of({ ...foreign, content: null, summary: summary('s') })).toEqual({ ...so, reasoning: 's' });
    expect(of(foreign)).toEqual(so);
    expect(of({ encrypted_content: null })).toEqual(so);
    expect(refusal({ input: [thought({ encrypted_content: 7 })] })).toContain('input[0].encrypted_content');
  });

  test('a reference to thoughts is dropped, and one to a message is refused with advice', () => {
    expect(messagesOf(user('hi'), { type: 'item_reference', id: 'rs_1' })).toEqual([user('hi')]);
    const input = [user('hi'), { type: 'item_reference', id: 'msg_1' }];
    expect(refusal({ input })).toContain('providerOptions: { openai: { store: false } }');
    expect(refusal({ input: [{ type: 'item_reference', id: 'rs_1' }] })).toBe('input: must not be empty');
  });

  test('a final assistant turn is continued if the engine can do so', () => {
    const { asked } = shaped({ input: [user('hi'), said('so')] });
    expect(asked.needs).toEqual(['prefill']);
    expect(() => toNodeBody(asked, 'ollama', target)).toThrow('input[1]: is not supported for this model');
  });

  test.each([
    ['a file', [user([{ type: 'input_file', file_id: 'x' }])], 'input[0].content[0].type'],
    ['a URL', [user([{ ...image, image_url: 'http://x/y.png' }])], 'input[0].content[0].image_url'],
    ['a search by another service', [{ type: 'web_search_call', id: 'ws_1' }], 'input[0].type'],
    ['an unknown role', [{ role: 'tool', content: 'x' }], 'input[0].role'],
    ['nothing', [], 'input: must not be empty'],
    ['an empty text', '', 'input: must not be empty'],
  ])('%s is refused by its path', (_, input, says) => {
    expect(refusal({ input })).toContain(says);
  });
});

describe('tools', () => {
  const f = { type: 'function', name: 'f', strict: null, parameters: { type: 'object' } };
  const ns = { type: 'namespace', name: 'ns', description: 'about', tools: [f, { ...f, name: 'g' }] };
  const run = { type: 'custom', name: 'run', description: 'runs' };
  const namesSent = (fields: Fields) =>
    (sent(fields)['tools'] as { function: { name: string } }[] | undefined)?.map(
      (tool) => tool.function.name,
    );

  test('tools in a namespace get one name each, and calls are returned under namespace and name', () => {
    expect(namesSent({ tools: [f, ns] })).toEqual(['f', 'ns__f', 'ns__g']);
    const { names } = shaped({ tools: [f, ns, run] }).context;
    expect(Object.fromEntries(names)).toEqual({
      ns__f: { name: 'f', namespace: 'ns' },
      ns__g: { name: 'g', namespace: 'ns' },
      run: { name: 'run', isCustom: true },
    });
    const [first, second] = sent({ tools: [ns] })['tools'] as { function: Fields }[];
    expect([first?.function['description'], second?.function['description']]).toEqual(['about', undefined]);
  });

  test('a long name is shortened, to the same name in every turn', () => {
    const long = { ...ns, name: 'n'.repeat(40), tools: [{ ...f, name: 'f'.repeat(40) }] };
    const [name = ''] = namesSent({ tools: [long] }) ?? [];
    expect(name).toMatch(/^n{40}__f{13}_[0-9a-f]{8}$/);
    const item = call('a', 'f'.repeat(40), { namespace: long.name });
    expect(sent({ tools: [long], input: [user('hi'), item, output('a')] })['messages']).toMatchObject([
      {},
      { tool_calls: [called('a', name)] },
      {},
    ]);
  });

  test('two tools with the same name are refused', () => {
    expect(refusal({ tools: [f, f] })).toBe('tools[1].name: is the name of another tool');
    expect(refusal({ tools: [{ ...f, name: 'ns__f' }, ns] })).toBe(
      'tools[1].tools[0].name: is the name of another tool',
    );
  });

  test('a custom tool takes its text as a member, and its grammar becomes part of its description', () => {
    const format = { type: 'grammar', syntax: 'lark', definition: 'start: "a"' };
    expect(sent({ tools: [{ ...run, format }] })['tools']).toMatchObject([
      {
        function: {
          name: 'run',
          description: 'runs\n\nThe input must match this lark grammar:\nstart: "a"',
          parameters: { required: ['input'], additionalProperties: false },
        },
      },
    ]);
    const items = [
      { type: 'custom_tool_call', call_id: 'a', name: 'run', input: 'x"y' },
      { type: 'custom_tool_call_output', call_id: 'a', output: 'z' },
    ];
    expect(messagesOf(user('hi'), ...items)).toMatchObject([
      {},
      { tool_calls: [called('a', 'run', '{"input":"x\\"y"}')] },
      { content: 'z' },
    ]);
  });

  test('a web search without external access is dropped, and one with external access is refused', () => {
    const search = { type: 'web_search', external_web_access: false };
    const { asked, context } = shaped({ tools: [f, search] });
    expect(asked.body.tools).toHaveLength(1);
    expect(JSON.parse(`{${context.repeated}}`)).toMatchObject({ tools: [{ name: 'f' }] });
    expect(namesSent({ tools: [search], tool_choice: 'auto' })).toBeUndefined();
    for (const asking of [{ type: 'web_search' }, { ...search, external_web_access: true }])
      expect(refusal({ tools: [asking] })).toContain('tools[0].external_web_access: must be false, because');
  });

  test.each(['mcp', 'file_search', 'code_interpreter', 'computer_use_preview', 'apply_patch', 'local_shell'])(
    'the server-side tool %s is refused, with an alternative',
    (type) => {
      expect(refusal({ tools: [{ type, anything: 1 }] })).toContain('tools[0].type: is a hosted tool');
    },
  );

  test.each([
    ['a name', { type: 'function', name: 'f' }, { type: 'function', function: { name: 'f' } }, 4],
    [
      'a tool in a namespace',
      { type: 'function', name: 'g', namespace: 'ns' },
      { function: { name: 'ns__g' } },
      4,
    ],
    ['a custom tool', { type: 'custom', name: 'run' }, { function: { name: 'run' } }, 4],
    ['required', 'required', 'required', 4],
    [
      'a subset of tools',
      { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'g', namespace: 'ns' }] },
      'required',
      1,
    ],
  ])('tool_choice: %s', (_, choice, expected, offered) => {
    const body = sent({ tools: [f, ns, run], tool_choice: choice });
    if (typeof expected === 'string') expect(body['tool_choice']).toBe(expected);
    else expect(body['tool_choice']).toMatchObject(expected);
    expect(body['tools']).toHaveLength(offered);
  });

  test('choosing a tool that is not offered is refused', () => {
    expect(refusal({ tool_choice: 'required' })).toBe('tool_choice: needs tools');
    expect(refusal({ tools: [f], tool_choice: { type: 'function', name: 'g' } })).toBe(
      'tool_choice.name: must be one of the tools',
    );
  });
});

describe('settings', () => {
  test('each setting reaches the node under its chat name', () => {
    const schema = { type: 'object', $schema: 'x' };
    const format = { type: 'json_schema', name: 'n', schema, strict: true };
    expect(
      sent({
        ...{ temperature: 0.5, top_p: 0.9, presence_penalty: 1, frequency_penalty: -1, top_logprobs: 2 },
        ...{ text: { format, verbosity: 'medium' }, reasoning: { effort: 'low', summary: 'auto' } },
        include: ['message.output_text.logprobs'],
      }),
    ).toMatchObject({
      ...{ temperature: 0.5, top_p: 0.9, presence_penalty: 1, frequency_penalty: -1 },
      ...{ logprobs: true, top_logprobs: 2, reasoning_effort: 'low' },
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema, strict: true } },
    });
    expect(shaped({ max_output_tokens: 7 }).asked.maxTokens).toBe(7);
    expect(shaped({ prompt_cache_key: 'k' }).asked.cacheKey).toBe('k');
    expect(refusal({ top_logprobs: 2 })).toContain('top_logprobs: needs');
  });

  test('a setting that the engine cannot carry is refused by its path in this API', () => {
    const { asked } = shaped({ reasoning: { effort: 'xhigh' } });
    expect(() => toNodeBody(asked, 'ollama', target)).toThrow(
      'reasoning.effort: is not supported for this model',
    );
  });

  test.each([
    ['store', true, 'must be false: nothing is stored'],
    ['background', true, 'must be false'],
    ['truncation', 'auto', 'must be "disabled"'],
    ['previous_response_id', 'resp_1', 'send the whole conversation in input'],
    ['conversation', 'conv_1', 'send the whole conversation in input'],
    ['prompt', { id: 'x' }, 'send their text'],
    ['context_management', [{ type: 'compaction' }], 'is not supported'],
    ['stop', ['x'], 'is not a supported field'],
    ['metadata', { a: 1 }, 'must be of type string'],
  ])('%s is refused by name', (name, value, says) => {
    const message = refusal({ [name]: value });
    expect(message).toContain(says);
    expect(message.startsWith(name)).toBe(true);
  });

  test('settings without effect are accepted, and no node receives them', () => {
    const values: Fields = {
      ...{ user: 'VALUE', safety_identifier: 'VALUE', client_metadata: { a: 'VALUE' } },
      ...{ prompt_cache_retention: 'VALUE', prompt_cache_options: { a: 'VALUE' }, service_tier: 'auto' },
      ...{
        background: false,
        truncation: 'disabled',
        max_tool_calls: 3,
        include: ['web_search_call.results'],
      },
      ...{ stream: true, stream_options: { include_obfuscation: true }, store: false },
      ...{ text: { verbosity: 'medium' }, reasoning: { summary: 'auto', generate_summary: 'auto' } },
    };
    expect(JSON.stringify(sent(values))).not.toContain('VALUE');
    const topLevel = responsesNoOpFields.map(({ path }) => path.split(/[.[]/)[0] ?? '');
    const given = new Set([...Object.keys(values), 'tools', 'input']);
    expect(topLevel.filter((name) => !given.has(name))).toEqual([]);
  });

  test('the request fields repeated in an answer are bounded', () => {
    const large = 'a'.repeat(40_000);
    const tools = [{ type: 'function', name: 'f', description: large }];
    const format = { type: 'json_schema', name: 'n', schema: { a: large } };
    const { repeated } = shaped({ instructions: large, tools, text: { format } }).context;
    expect(repeated.length).toBeLessThan(2000);
    expect(JSON.parse(`{${repeated}}`)).toMatchObject({
      instructions: null,
      tools: [],
      text: { format: { schema: {} } },
    });
  });
});

const bodiesIn = (name: string): readonly { readonly client: string; readonly body: Fields }[] =>
  JSON.parse(readFileSync(new URL(`../../../test/fixtures/clients/${name}.json`, import.meta.url), 'utf8'));

test.each([...bodiesIn('responses-bodies'), ...bodiesIn('responses-sessions')])(
  'the default request of $client is accepted, and no node receives its empty fields',
  ({ body }) => {
    const { asked } = shapeResponses({ ...body }, headers);
    for (const dialect of ['vllm', 'sglang', 'llamacpp', 'ollama'] as const)
      expect(JSON.stringify(toNodeBody(asked, dialect, { ...target, seesImages: true }))).not.toMatch(
        /null|client_metadata|web_search/,
      );
  },
);
