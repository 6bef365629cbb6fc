/** A conversation there and back: nothing that the tables say is carried gets lost on the way to a node. */

import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ChatMessage } from '../../../schemas/openai-messages.ts';
import { runs } from '../../../test/support/budget.ts';
import { shapeMessages } from './shape-messages.ts';

/** What each turn says, in a form that both sides can be brought to. */
type Message =
  | { readonly role: 'system'; readonly text: string }
  | { readonly role: 'user'; readonly results: [id: string, text: string][]; readonly parts: string[] }
  | {
      readonly role: 'assistant';
      readonly thoughts: string;
      readonly texts: string[];
      readonly calls: [id: string, name: string, input: unknown][];
    };

interface Block {
  readonly type: string;
  readonly text?: string;
  readonly source?: { readonly media_type: string; readonly data: string };
  readonly thinking?: string;
  readonly id?: string;
  readonly name?: string;
  readonly input?: unknown;
  readonly tool_use_id?: string;
  readonly content?: string | readonly Block[];
  readonly is_error?: boolean;
}

interface Turn {
  readonly role: 'user' | 'assistant' | 'system';
  readonly content: string | readonly Block[];
}

const blocksOf = ({ content }: Turn): readonly Block[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content;
const imageOf = ({ source }: Block) => `image ${source?.media_type} ${source?.data}`;
const textsIn = (blocks: readonly Block[]) =>
  blocks.filter(({ type }) => type === 'text').map(({ text }) => text as string);

function sentIn(turns: readonly Turn[]): Message[] {
  const merged: { role: Turn['role']; blocks: Block[] }[] = [];
  for (const turn of turns) {
    const last = merged.at(-1);
    if (last?.role === turn.role) last.blocks.push(...blocksOf(turn));
    else merged.push({ role: turn.role, blocks: [...blocksOf(turn)] });
  }
  return merged.map(({ role, blocks }): Message => {
    if (role === 'system') return { role, text: textsIn(blocks).join('\n\n') };
    if (role === 'assistant') {
      return {
        role,
        thoughts: blocks
          .filter(({ thinking }) => thinking !== undefined && thinking !== '')
          .map(({ thinking }) => thinking)
          .join('\n\n'),
        texts: textsIn(blocks),
        calls: blocks
          .filter(({ type }) => type === 'tool_use')
          .map(({ id, name, input }) => [id as string, name as string, input]),
      };
    }
    const results = blocks.filter(({ type }) => type === 'tool_result');
    const inner = results.map(({ content }) => (typeof content === 'object' ? content : []));
    return {
      role,
      results: results.map(({ tool_use_id, content, is_error }, at) => [
        tool_use_id as string,
        `${is_error ? 'Error: ' : ''}${typeof content === 'string' ? content : textsIn(inner[at] as Block[]).join('\n\n')}`,
      ]),
      parts: [
        ...inner
          .flat()
          .filter(({ type }) => type === 'image')
          .map(imageOf),
        ...blocks
          .filter(({ type }) => type !== 'tool_result')
          .map((block) => (block.type === 'image' ? imageOf(block) : `text ${block.text}`)),
      ],
    };
  });
}

function partsOf(content: ChatMessage['content']): string[] {
  if (content === undefined) return [];
  if (typeof content === 'string') return [`text ${content}`];
  return content.map((part) => {
    if (part.type === 'text') return `text ${part.text}`;
    const [, media, data] = /^data:([^;]+);base64,(.*)$/s.exec(part.image_url.url) ?? [];
    return `image ${media} ${data}`;
  });
}

function receivedIn(messages: readonly ChatMessage[]): Message[] {
  const received: Message[] = [];
  for (const message of messages) {
    const last = received.at(-1);
    if (message.role === 'tool') {
      const result: [string, string] = [message.tool_call_id, String(message.content)];
      if (last?.role === 'user') last.results.push(result);
      else received.push({ role: 'user', results: [result], parts: [] });
    } else if (message.role === 'user') {
      if (last?.role === 'user') last.parts.push(...partsOf(message.content));
      else received.push({ role: 'user', results: [], parts: partsOf(message.content) });
    } else if (message.role === 'assistant') {
      received.push({
        role: 'assistant',
        thoughts: message.reasoning_content ?? '',
        texts: partsOf(message.content).map((part) => part.slice('text '.length)),
        calls: (message.tool_calls ?? []).map(({ id, function: called }) => [
          id,
          called.name,
          JSON.parse(called.arguments),
        ]),
      });
    } else {
      received.push({ role: 'system', text: String(message.content) });
    }
  }
  return received;
}

const words = fc.string({ unit: 'grapheme', maxLength: 8 });
const someWords = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 });
const hint = fc.constantFrom({}, { cache_control: { type: 'ephemeral' } }, { cache_control: null });
const name = fc.stringMatching(/^[A-Za-z0-9_-]{1,128}$/);
const id = fc.stringMatching(/^toolu_[a-z0-9]{1,8}$/);

const text = fc.tuple(words, hint).map(([said, more]) => ({ type: 'text', text: said, ...more }));
const image = fc
  .tuple(
    fc.constantFrom('image/png', 'image/jpeg', 'image/gif', 'image/webp'),
    fc.base64String({ minLength: 4 }),
  )
  .map(([media_type, data]) => ({ type: 'image', source: { type: 'base64', media_type, data } }));
const result = fc.record(
  {
    type: fc.constant('tool_result'),
    tool_use_id: id,
    content: fc.oneof(words, fc.array(fc.oneof(text, image), { maxLength: 3 })),
    is_error: fc.boolean(),
  },
  { requiredKeys: ['type', 'tool_use_id'] },
);
const thinking = fc.record({ type: fc.constant('thinking'), thinking: words, signature: words });
const input = fc.dictionary(
  words.filter((key) => key !== '__proto__'),
  fc.jsonValue({ maxDepth: 2 }).filter((value) => !JSON.stringify(value).includes('__proto__')),
  { maxKeys: 3 },
);
const use = fc.record({ type: fc.constant('tool_use'), id, name, input });

const user = fc.record({
  role: fc.constant('user'),
  content: fc.oneof(words, fc.array(fc.oneof(text, image, result), { minLength: 1, maxLength: 4 })),
});
const assistant = fc
  .tuple(
    fc.array(fc.oneof(thinking, text), { maxLength: 3 }),
    fc.array(fc.oneof(use, thinking), { maxLength: 3 }),
  )
  .map(([first, then]) => ({ role: 'assistant', content: [...first, ...then] }));
const system = fc.record({ role: fc.constant('system'), content: fc.oneof(someWords, fc.tuple(text, text)) });

const exchange = fc
  .tuple(fc.array(user, { minLength: 1, maxLength: 2 }), fc.array(system, { maxLength: 2 }), assistant)
  .map(([users, systems, last]) => [...users, ...systems, last]);
const conversation = fc
  .tuple(fc.array(exchange, { maxLength: 3 }), user)
  .map(([exchanges, last]) => [...exchanges.flat(), last] as Turn[]);

test('any legal conversation reaches the node with all that is carried, in its order', () => {
  fc.assert(
    fc.property(conversation, (messages) => {
      // Parsed once more, as a caller's body is: what JSON cannot express was not sent.
      const body = JSON.stringify({ model: 'm', max_tokens: 5, messages });
      const sent = JSON.parse(body) as { messages: Turn[] };
      const { asked: chat } = shapeMessages(JSON.parse(body), {
        contentType: 'application/json',
        version: '2026-10-21',
      });
      expect(receivedIn(chat.body.messages)).toEqual(sentIn(sent.messages));
      expect(JSON.stringify(chat)).not.toMatch(/cache_control|signature|tool_use|is_error/);
      const hasImage = chat.body.messages.some(({ content }) =>
        partsOf(content).some((part) => part.startsWith('image ')),
      );
      expect(chat.needs.includes('images')).toBe(hasImage);
    }),
    { numRuns: runs({ fast: 120, full: 500 }) },
  );
});
