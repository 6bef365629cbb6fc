/**
 * Tests refusals after a node's error that its model lacks a capability. They must name the field's path in the caller's own
 * body (specification, Errors 2).
 */
import { expect, test } from 'vitest';
import type { Dialect } from '../../../schemas/names.ts';
import { shapeChat } from '../chat/shape-chat.ts';
import { shapeEmbeddings } from '../embeddings/shape-embeddings.ts';
import { shapeMessages } from '../messages/shape-messages.ts';
import { inabilityRefusal } from './node-errors.ts';

const headers = { contentType: 'application/json', version: undefined };
const chat = (more: object) => shapeChat({ model: 'm', ...more }).asked;
const message = (more: object) => shapeMessages({ model: 'm', max_tokens: 5, ...more }, headers).asked;
const messages = [{ role: 'user', content: 'hi' }];
const text = { type: 'text', text: 'look' };
const picture = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } };
const source = { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' };
const schema = { type: 'object', properties: {} };
const asked = { type: 'json_schema', json_schema: { name: 'a', schema } };
const tool = { type: 'function', function: { name: 'f', parameters: schema } };

const imageError = { error: { message: 'tiny is not a multimodal model' } };
const schemaError = { error: { message: 'Grammar error: Invalid type: strange' } };
const sizeError = { error: { message: 'does not support Matryoshka embeddings' } };
const thinkingError = { error: { message: '"tiny" does not support thinking' } };

test.each([
  [
    'an image',
    chat({ messages: [{ role: 'user', content: [text, picture] }] }),
    imageError,
    'messages[0].content[1]',
  ],
  [
    'an image in a message',
    message({ messages: [{ role: 'user', content: [{ type: 'image', source }] }] }),
    imageError,
    'messages[0].content[0]',
  ],
  ['the schema for an answer', chat({ messages, response_format: asked }), schemaError, 'response_format'],
  ['a tool’s schema', chat({ messages, tools: [tool] }), schemaError, 'tools'],
  [
    'the schema for a message',
    message({ messages, output_config: { format: { type: 'json_schema', schema } } }),
    schemaError,
    'output_config.format',
  ],
  [
    'other dimensions',
    shapeEmbeddings({ model: 'm', input: 'a', dimensions: 8 }).asked,
    sizeError,
    'dimensions',
  ],
])('%s is refused by its path', (_name, request, error, path) => {
  expect(inabilityRefusal(request, 'vllm', error)).toMatchObject({
    type: 'UnsupportedShapeError',
    message: `${path}: is not supported for this model`,
  });
});

test.each([
  [chat({ messages, reasoning_effort: 'low' }), 'reasoning_effort'],
  [message({ messages, output_config: { effort: 'low' } }), 'output_config.effort'],
])('an effort that a model without thoughts cannot make is refused by its path', (request, path) => {
  expect(inabilityRefusal(request, 'ollama', thinkingError)?.message).toBe(
    `${path}: is not supported for this model`,
  );
});

test.each(['vllm', 'sglang', 'llamacpp', 'ollama'] as Dialect[])(
  'any other error of %s is not mistaken for one of these',
  (dialect) => {
    for (const error of ['Internal Server Error', { error: 'Unauthorized' }, { error: { code: 400 } }, null])
      expect(inabilityRefusal(chat({ messages }), dialect, error)).toBeUndefined();
  },
);
