/** Claims about complete and streamed answers: their usage, their longest length, and the requests that engines receive. */
import type { ChatCompletionChunk } from 'openai/resources/chat/completions';
import { expect } from 'vitest';
import { chatFieldGrants } from '../../data-plane/surfaces/common/chat-fields.ts';
import type { chatFields } from '../../schemas/api/chat-fields.ts';
import type { Dialect } from '../../schemas/names.ts';
import { dialects } from '../../shared/engines/dialects.ts';
import { call } from '../support/api.ts';
import { endpointOf, RawPeer } from '../support/raw-peer.ts';
import { type Bench, refusalFrom, turn } from './bench.ts';
import type { Claim } from './claims.ts';

const found: Claim = {
  name: 'is found by its address alone: which engine it is and what it serves',
  run: async ({ engine, admin, client }) => {
    const { items } = await admin.call('GET', '/nodes');
    expect(items.map(({ dialect }) => dialect)).toEqual(items.map(() => engine.dialect));
    const ids: string[] = [];
    for await (const { id } of client.models.list()) ids.push(id);
    expect(ids).toEqual(expect.arrayContaining([engine.model, engine.embeddingModel]));
  },
};

const whole: Claim = {
  name: 'answers whole, in the shape of the API, and bills what the answer reports',
  run: async (bench) => {
    const answer = await bench.client.chat.completions.create(turn(bench));
    expect(Object.keys(answer).sort()).toEqual(['choices', 'created', 'id', 'model', 'object', 'usage']);
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-[0-9a-f]{32}$/),
      object: 'chat.completion',
      model: bench.engine.model,
      choices: [{ index: 0, finish_reason: 'length', message: { role: 'assistant', refusal: null } }],
      usage: { completion_tokens: 12 },
    });
    expect(answer.choices[0]?.message.content).toMatch(/[a-z ]{12,}/);
    const { usage } = answer;
    expect(usage?.prompt_tokens).toBeGreaterThan(10);
    expect(usage?.total_tokens).toBe((usage?.prompt_tokens ?? 0) + 12);
    expect(await bench.billed(1)).toBe(usage?.total_tokens);
  },
};

const streamed: Claim = {
  name: 'streams the text that it answers whole, with usage only where that is asked, and bills the same',
  run: async (bench) => {
    const answer = await bench.client.chat.completions.create(turn(bench));
    const plain = await chunksOf(bench, {});
    const asked = await chunksOf(bench, { stream_options: { include_usage: true } });
    for (const chunks of [plain, asked]) {
      expect(textOf(chunks)).toBe(answer.choices[0]?.message.content);
      expect(new Set(chunks.map(({ id, created, model }) => `${id} ${created} ${model}`)).size).toBe(1);
      expect(
        chunks.flatMap(({ choices }) => choices.map((choice) => choice.finish_reason)).filter(Boolean),
      ).toEqual(['length']);
      const texts = chunks.filter(({ choices }) => choices[0]?.delta.content);
      expect(texts.length, 'it came in pieces').toBeGreaterThan(3);
    }
    expect(plain.filter((chunk) => 'usage' in chunk)).toEqual([]);
    expect(asked[asked.length - 1]).toMatchObject({ choices: [], usage: { completion_tokens: 12 } });
    const total = asked[asked.length - 1]?.usage?.total_tokens ?? 0;
    expect(await bench.billed(3)).toBe(3 * total);
  },
};

async function chunksOf(bench: Bench, more: object): Promise<ChatCompletionChunk[]> {
  const chunks: ChatCompletionChunk[] = [];
  const stream = await bench.client.chat.completions.create({ ...turn(bench), ...more, stream: true });
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

function textOf(chunks: readonly ChatCompletionChunk[]): string {
  return chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('');
}

const bounded: Claim = {
  name: 'always receives a bound on the answer, and never more than its window holds',
  run: async (bench) => {
    const { client, engine, tap } = bench;
    const stop = ['a', 'e', 'z'];
    tap.take();
    for (const asked of [undefined, 5, engine.windowTokens + 1000]) {
      const { max_tokens, ...rest } = turn(bench, { stop });
      const limit = asked === undefined ? {} : { max_completion_tokens: asked };
      const answer = await client.chat.completions.create({ ...rest, ...limit });
      expect(['stop', 'length']).toContain(answer.choices[0]?.finish_reason);
      const [sent] = tap.take();
      const room = engine.reportsWindow ? engine.windowTokens - (answer.usage?.prompt_tokens ?? 0) : Infinity;
      expect(sent?.body['max_tokens']).toBeGreaterThanOrEqual(1);
      expect(sent?.body['max_tokens']).toBeLessThanOrEqual(Math.min(asked ?? Infinity, room));
    }
  },
};

const tooLong: Claim = {
  name: 'a prompt longer than its window is refused as that, streamed or not, and not billed',
  run: async (bench) => {
    const content = 'word '.repeat(bench.engine.windowTokens);
    for (const stream of [false, true]) {
      const body = { ...turn(bench), messages: [{ role: 'user' as const, content }], stream };
      const { status, type } = await refusalFrom(bench.client.chat.completions.create(body));
      expect({ status, type }).toEqual({ status: 413, type: 'ContextWindowExceededError' });
    }
    const answer = await bench.client.chat.completions.create(turn(bench));
    expect(await bench.billed(1)).toBe(answer.usage?.total_tokens);
  },
};

const hints = {
  user: 'someone',
  prompt_cache_key: 'k',
  safety_identifier: 's',
  service_tier: 'auto',
  store: false,
  verbosity: 'medium',
  modalities: ['text'],
};
/** Settings that have claims of their own. Every new setting must be added either here or to `carried`. */
type Apart = 'n' | 'logprobs' | 'top_logprobs' | 'logit_bias' | 'response_format' | 'reasoning_effort';
const carried: Readonly<Record<Exclude<keyof typeof chatFields, Apart>, unknown>> = {
  temperature: 0.5,
  top_p: 0.9,
  frequency_penalty: 0.1,
  presence_penalty: 0.1,
  stop: ['q'],
  seed: 3,
};
/** Returns the settings that the engine accepts, with values that it accepts. */
function carriedBy(dialect: Dialect): Readonly<Record<string, unknown>> {
  const given = Object.entries(carried).flatMap(([field, value]) => {
    const grant = chatFieldGrants[field as keyof typeof carried][dialect];
    return grant === undefined ? [] : [[field, grant.values?.[0] ?? value] as const];
  });
  return Object.fromEntries(given);
}
const sentFields = ['model', 'messages', 'max_tokens', 'max_completion_tokens', 'stream', 'stream_options'];

const allowed: Claim = {
  name: 'is sent known fields alone, no null, no hint and no key of a client',
  run: async (bench) => {
    const { api, key, tap, engine } = bench;
    const ask = (more: object): ReturnType<typeof call> =>
      call({
        port: Number(new URL(api).port),
        path: '/v1/chat/completions',
        method: 'POST',
        key,
        headers: { 'x-private': 'header', cookie: 'a=b' },
        body: { ...turn(bench), ...more },
      });
    tap.take();
    for (const unknown of [{ n_predict: 3 }, { options: { num_ctx: 9 } }, { ignore_eos: true }, { rid: 'x' }])
      expect((await ask(unknown)).status, JSON.stringify(unknown)).toBe(400);
    expect(tap.take()).toEqual([]);
    const nulls = { tools: null, tool_choice: null, response_format: null, n: null, logit_bias: null };
    const settings = carriedBy(engine.dialect);
    expect((await ask({ ...hints, ...settings, ...nulls, stream: true })).status).toBe(200);
    const [sent] = tap.take();
    const fields = [...sentFields, ...Object.keys(settings)].filter(
      (field) => field !== 'max_completion_tokens' || dialects[engine.dialect].takesMaxCompletionTokens,
    );
    // Requests to the pool also carry a salt that separates the organisations' prefix caches.
    const salt = dialects[engine.dialect].takesCacheSalt ? ['cache_salt'] : [];
    expect(Object.keys(sent?.body ?? {}).sort()).toEqual([...fields, ...salt].sort());
    expect(sent?.body).toMatchObject(settings);
    expect(JSON.stringify(sent?.body)).not.toContain('null');
    expect(Object.keys(sent?.headers ?? {}).sort()).toEqual(
      ['accept', 'connection', 'content-length', 'content-type', 'host'].sort(),
    );
    expect(JSON.stringify(sent)).not.toContain(key);
  },
};

const keptOpen: Claim = {
  name: 'answers again on the connection of a stream, or closes it as its table says',
  run: async (bench) => {
    const { engine, running } = bench;
    const peer = await RawPeer.open(endpointOf(running.url));
    const ask = (stream: boolean): Promise<void> => {
      const body = JSON.stringify({ ...turn(bench, { max_tokens: 4 }), stream });
      const head = `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}`;
      return peer.send(`POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n${head}\r\n\r\n${body}`);
    };
    try {
      await ask(true);
      expect(await peer.received(/^HTTP\/1\.1 200 .*\r\n0\r\n\r\n$/s)).toBe(true);
      if (dialects[engine.dialect].closesAfterStream) return await peer.ended;
      await ask(false);
      expect(await peer.received(/\r\n0\r\n\r\nHTTP\/1\.1 200 /)).toBe(true);
    } finally {
      peer.close();
    }
  },
};

export const answerClaims: readonly Claim[] = [found, whole, streamed, keptOpen, bounded, tooLong, allowed];
