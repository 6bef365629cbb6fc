/** Tests properties of request bodies that hold for every operation: what is refused, and how. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { countTokensRequestSchema, messagesRequestSchemas } from '../../schemas/api/anthropic.ts';
import { chatRequestSchema, embeddingsRequestSchema } from '../../schemas/api/openai.ts';
import { rerankRequestSchema } from '../../schemas/api/rerank.ts';
import { responsesRequestSchema } from '../../schemas/api/responses.ts';
import { cpuMsOf } from '../../test/support/cpu.ts';
import { shapeRefusal } from '../../test/support/shape-refusal.ts';
import { toNodeBody } from './common/node-body.ts';
import { shapeOperation } from './surfaces.ts';

const json = 'application/json';
const chat = { model: 'echo', messages: [{ role: 'user', content: 'hi' }] };
const messages = { ...chat, max_tokens: 50 };
const operations = [
  { kind: 'chat', least: chat, schema: chatRequestSchema },
  { kind: 'embeddings', least: { model: 'echo', input: 'hi' }, schema: embeddingsRequestSchema },
  { kind: 'messages', least: messages, schema: messagesRequestSchemas['2023-06-01'] },
  { kind: 'count-tokens', least: chat, schema: countTokensRequestSchema },
  { kind: 'rerank', least: { model: 'echo', query: 'hi', documents: ['a'] }, schema: rerankRequestSchema },
  { kind: 'responses', least: { model: 'echo', input: 'hi' }, schema: responsesRequestSchema },
] as const;
type Kind = (typeof operations)[number]['kind'];

function shape(kind: Kind, text: string, contentType: string | undefined = json, version?: string) {
  return shapeOperation({ kind }, Buffer.from(text), { contentType, version });
}

const secret = 'SECRET-9f3a';
const secrets: readonly unknown[] = [
  secret,
  [secret],
  { [`${secret} `]: secret },
  [[secret]],
  [{ role: secret }],
  [{ role: secret, content: secret }],
  [{ type: secret, text: secret }],
  { type: 'tool', name: secret },
];

describe.each(operations)('$kind', ({ kind, least, schema }) => {
  const withFields = (fields: object) => shape(kind, JSON.stringify({ ...least, ...fields }));
  const fields = Object.keys(schema.shape);

  test.each([
    ['a list', '[]', 'the body must be a JSON object'],
    ['a text', '"x"', 'the body must be a JSON object'],
    ['null', 'null', 'the body must be a JSON object'],
    ['not JSON', '{', 'the body is not valid JSON'],
  ])('a body that is not an object is refused: %s', (_, text, message) => {
    expect(shapeRefusal(() => shape(kind, text))).toContain(message);
  });

  test.each([
    ['', false],
    ['text/plain', false],
    ['application/jsonp', false],
    ['application/x-www-form-urlencoded', false],
    ['application/json; charset=latin1', false],
    ['application/json', true],
    ['Application/JSON; Charset=UTF-8', true],
    ['application/json;charset="utf-8"', true],
  ])('Endpoints: the content type %j is accepted: %s', (contentType, taken) => {
    const act = () => shape(kind, JSON.stringify(least), contentType);
    if (taken) expect(act().asked.model).toBe('echo');
    else
      expect(shapeRefusal(act)).toBe('the content type must be application/json, with no charset but utf-8');
  });

  test('Endpoints: a body without a content type is refused', () => {
    const headers = { contentType: undefined, version: undefined };
    const act = () => shapeOperation({ kind }, Buffer.from(JSON.stringify(least)), headers);
    expect(shapeRefusal(act)).toBe('the content type must be application/json, with no charset but utf-8');
  });

  test.each(Object.keys(least))('Endpoints: a body without %s is refused', (field) => {
    for (const empty of [undefined, null])
      expect(shapeRefusal(() => withFields({ [field]: empty }))).toBe(`${field}: is required`);
  });

  test('null, [] and {} count as absent on every other known field', () => {
    // Leave out `source`, because a request with unusual fields is rebuilt and not passed on in the client's own words.
    const shaped = (more: object) => ({ ...withFields(more).asked, source: undefined });
    const plain = shaped({});
    for (const name of fields.filter((one) => !Object.hasOwn(least, one)))
      for (const empty of [null, [], {}]) expect(shaped({ [name]: empty }), name).toEqual(plain);
  });

  test.each([
    ['no_such_field', 'no_such_field: is not a supported field'],
    ['constructor', 'constructor: is not a supported field'],
    ['drop table\n', 'the body has an unknown field, which is not supported'],
    ['x'.repeat(65), 'the body has an unknown field, which is not supported'],
  ])('Errors 2: a field unknown to the shape is refused, whatever its value: %j', (name, message) => {
    for (const value of [1, null, {}])
      expect(shapeRefusal(() => withFields({ [name]: value }))).toBe(message);
  });

  test('no refusal repeats a value of the body', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...fields, 'content', 'unknown', `${secret} `),
        fc.constantFrom(...secrets),
        (name, value) => {
          try {
            withFields({ [name]: value });
          } catch (error) {
            expect((error as Error).message).not.toContain(secret);
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  test.each([
    ['a list of wrong entries', `[${'1,'.repeat(1_000_000)}{}]`],
    ['a list in a list', `[{"role":"user","content":[${'{"type":"x"},'.repeat(200_000)}1]}]`],
  ])('a large body full of errors is refused quickly: %s', (_, list) => {
    const text = JSON.stringify({ ...least, messages: undefined, input: undefined });
    const field = 'input' in least ? 'input' : 'messages';
    const large = `${text.slice(0, -1)},"${field}":${list}}`;
    expect(cpuMsOf(() => shapeRefusal(() => shape(kind, large)))).toBeLessThan(3000);
  });

  test('a body with many unknown fields is refused quickly', () => {
    const more = Array.from({ length: 50_000 }, (_, at) => `,"x${at}":1`).join('');
    const large = `${JSON.stringify(least).slice(0, -1)}${more}}`;
    expect(cpuMsOf(() => shapeRefusal(() => shape(kind, large)))).toBeLessThan(2000);
  });
});

interface ClientBody {
  readonly client: string;
  readonly kind: 'chat' | 'embeddings' | 'messages' | 'count_tokens';
  readonly version?: string;
  readonly body: object;
}

const clients = ['default-bodies', 'anthropic-bodies'].flatMap(
  (name) =>
    JSON.parse(
      readFileSync(new URL(`../../test/fixtures/clients/${name}.json`, import.meta.url), 'utf8'),
    ) as ClientBody[],
);

test.each(clients)(
  'the default request of $client is accepted, and no node receives its empty fields ($kind)',
  (one) => {
    const kind = one.kind === 'count_tokens' ? 'count-tokens' : one.kind;
    const { asked } = shape(kind, JSON.stringify(one.body), json, one.version);
    for (const dialect of ['vllm', 'sglang', 'llamacpp'] as const) {
      const sent = JSON.stringify(toNodeBody(asked, dialect, { servedName: 's', maxTokens: 9 }));
      expect(sent).not.toMatch(/null|cache_control|user_id|signature/);
    }
  },
);
