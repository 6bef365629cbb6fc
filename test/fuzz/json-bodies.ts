/** Generates JSON bodies for every operation that accepts one. They are drawn from the schemas and then mutated. */
import { countTokensRequestSchema, messagesRequestSchemas } from '../../schemas/api/anthropic.ts';
import { toolSchema, turnSchema } from '../../schemas/api/anthropic-messages.ts';
import { chatRequestSchema, embeddingsRequestSchema } from '../../schemas/api/openai.ts';
import { functionToolSchema, messageSchema } from '../../schemas/api/openai-messages.ts';
import type { InferenceKind } from '../../schemas/api/operations.ts';
import { rerankRequestSchema } from '../../schemas/api/rerank.ts';
import { responsesRequestSchema } from '../../schemas/api/responses.ts';
import { inputItemSchema } from '../../schemas/api/responses-items.ts';
import type { Draw, Json } from './draw.ts';
import { canary, models, rerankModel } from './fleet.ts';
import { jsonText, mutateJson } from './mutate.ts';
import { type Opaque, type SchemaDraw, valueFor } from './schema-draw.ts';

const schemas = {
  chat: chatRequestSchema,
  embeddings: embeddingsRequestSchema,
  messages: messagesRequestSchemas['2023-06-01'],
  'count-tokens': countTokensRequestSchema,
  rerank: rerankRequestSchema,
  responses: responsesRequestSchema,
} as const satisfies Record<InferenceKind, unknown>;
export const inferenceKinds = Object.keys(schemas) as InferenceKind[];

const promptText = (draw: Draw): string => `${canary} ${draw.text()}`;
const jsonSchema = (draw: Draw): Json => ({
  type: 'object',
  properties: Object.fromEntries(draw.list(draw.below(4), (index) => [`p${index}`, { type: 'string' }])),
});

const chatParts = (draw: Draw): Json =>
  draw.list(draw.between(1, 3), () =>
    draw.chance(0.8)
      ? { type: 'text', text: promptText(draw) }
      : { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
  );
const chatCalls = (draw: Draw): Json =>
  draw.list(draw.between(1, 3), (index) => ({
    id: `call_${index}`,
    type: 'function',
    function: { name: 'tool_1', arguments: draw.pick(['{}', '{"a":1}', '{', '']) },
  }));

const openaiOpaque: Opaque = (draw, field) => {
  const from = { draw, opaque: openaiOpaque, optional: 0.1 };
  switch (field) {
    case 'messages':
      return turns(draw, () => valueFor(from, messageSchema));
    case 'content':
      return chatParts(draw);
    case 'tool_calls':
      return chatCalls(draw);
    case 'tools':
      return draw.list(draw.between(1, 3), () => valueFor(from, functionToolSchema));
    case 'stop':
      return draw.list(draw.between(1, 4), () => draw.word());
    case 'logit_bias':
      return { [draw.below(50_000)]: draw.between(-100, 100) };
    case 'input':
      return draw.chance(0.5)
        ? draw.list(draw.between(1, 4), () => promptText(draw))
        : draw.list(draw.between(1, 9), () => draw.below(30_000));
    case 'query':
      return promptText(draw);
    case 'documents':
      return draw.list(draw.between(1, 9), () =>
        draw.chance(0.7) ? promptText(draw) : { text: promptText(draw) },
      );
    case 'parameters':
    case 'schema':
      return jsonSchema(draw);
    default:
      return undefined;
  }
};

const blocks = (draw: Draw): Json =>
  draw.list(draw.between(1, 3), () =>
    draw.weighted<Json>([
      [5, { type: 'text', text: promptText(draw) }],
      [1, { type: 'thinking', thinking: promptText(draw), signature: '' }],
      [1, { type: 'tool_use', id: 'toolu_1', name: 'tool_1', input: { a: canary } }],
      [1, { type: 'tool_result', tool_use_id: 'toolu_1', content: promptText(draw) }],
      [1, { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }],
    ]),
  );

const anthropicOpaque: Opaque = (draw, field) => {
  const from = { draw, opaque: anthropicOpaque, optional: 0.1 };
  switch (field) {
    case 'messages':
      return turns(draw, () => valueFor(from, turnSchema));
    case 'content':
      return blocks(draw);
    case 'system':
      return [{ type: 'text', text: promptText(draw) }];
    case 'tools':
      return draw.list(draw.between(1, 3), () => valueFor(from, toolSchema));
    case 'stop_sequences':
      return draw.list(draw.between(1, 4), () => draw.word());
    case 'allowed_callers':
      return ['direct'];
    case 'edits':
      return [{ type: 'clear_thinking_20251015', keep: 'all' }];
    case 'input_schema':
    case 'schema':
      return jsonSchema(draw);
    default:
      return undefined;
  }
};

const responsesOpaque: Opaque = (draw, field) => {
  const from = { draw, opaque: responsesOpaque, optional: 0.1 };
  switch (field) {
    case 'input':
      return turns(draw, () => valueFor(from, inputItemSchema));
    case 'content':
    case 'output':
      return [{ type: 'input_text', text: promptText(draw) }];
    case 'summary':
      return [{ type: 'summary_text', text: promptText(draw) }];
    case 'include':
      return ['reasoning.encrypted_content'];
    case 'tools':
      return draw.list(draw.between(1, 3), (index) => ({
        type: draw.pick(['function', 'custom']),
        name: `tool_${index}`,
      }));
    case 'parameters':
    case 'schema':
      return jsonSchema(draw);
    default:
      return undefined;
  }
};

/** Draws mostly plain user turns, so that many conversations are accepted. */
function turns(draw: Draw, odd: () => Json): Json {
  const plain = (): Json => ({ role: 'user', content: promptText(draw) });
  return draw.list(draw.between(1, 4), (index) => (index === 0 || draw.chance(0.4) ? plain() : odd()));
}

const opaqueBy: Readonly<Record<InferenceKind, Opaque>> = {
  chat: openaiOpaque,
  embeddings: openaiOpaque,
  rerank: openaiOpaque,
  responses: responsesOpaque,
  messages: anthropicOpaque,
  'count-tokens': anthropicOpaque,
};

/** Draws a body that is usually valid. */
function goodBody(draw: Draw, operation: InferenceKind): Json {
  const opaque = opaqueBy[operation];
  const from: SchemaDraw = { draw, opaque, optional: draw.chance(0.6) ? 0.06 : 0.3 };
  const drawn = valueFor(from, schemas[operation]) as { readonly [name: string]: Json };
  const limit = operation === 'messages' ? { max_tokens: draw.between(1, 30) } : {};
  const model = modelFor(draw, operation);
  return { ...drawn, ...limit, model: draw.chance(0.95) ? model : draw.text() };
}

function modelFor(draw: Draw, operation: InferenceKind): string {
  if (operation === 'embeddings') return 'echo-embed';
  return operation === 'rerank' ? rerankModel : draw.pick(models);
}

/** Returns the text of a body. Half of the bodies are mutated in ways that no schema allows. */
export function bodyText(draw: Draw, operation: InferenceKind): string {
  let body = goodBody(draw, operation);
  if (draw.chance(0.5))
    for (let time = draw.between(1, 3); time > 0; time--) body = mutateJson(draw, body, 0.97);
  if (draw.chance(0.01)) return largeBody(draw, body);
  return jsonText(draw, body);
}

function largeBody(draw: Draw, body: Json): string {
  const members = body as { readonly [name: string]: Json };
  const content = 'w '.repeat(draw.skewed(200_000));
  return draw.pick([
    () => JSON.stringify({ ...members, messages: Array.from({ length: 10_001 }, () => ({})) }),
    () => JSON.stringify({ ...members, messages: [{ role: 'user', content }] }),
    () =>
      JSON.stringify({ ...members, ...Object.fromEntries(draw.list(5000, (index) => [`x${index}`, index])) }),
    () => JSON.stringify(members).replace('{', `{"a":${'['.repeat(200_000)},`),
    () => `${' '.repeat(400_000)}${JSON.stringify(members)}`,
  ])();
}
