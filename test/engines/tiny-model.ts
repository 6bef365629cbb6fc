/**
 * A language model of half a megabyte that real engines can load: two layers of the Llama architecture over a vocabulary of
 * bytes. Its weights are random except for three built-in habits, so that tests need not rely on luck. It writes lower-case
 * words. If only JSON is allowed, it comes to an end. If it is offered tools, it calls one of them. Equal seeds give equal
 * bytes. `tiny-gguf.ts` and `tiny-hf.ts` write the model in the engines' formats.
 */
import { seededRandom } from '../support/random.ts';

export interface Tensor {
  /** Name of the tensor in llama.cpp's format. `tiny-hf.ts` translates it. */
  readonly name: string;
  /** Rows and columns, or a single length. */
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

export interface TinyModel {
  readonly tokens: readonly string[];
  readonly merges: readonly (readonly [string, string])[];
  /** Special tokens with their ids. The tokenizer recognises them in a text before all others. */
  readonly added: Readonly<Record<AddedToken, number>>;
  readonly tensors: readonly Tensor[];
}

type AddedToken = (typeof addedTokens)[number];

export const sizes = { embedding: 64, layers: 2, heads: 2, feedForward: 128, epsilon: 1e-5 } as const;

/** The call that the model makes whenever it is offered this tool. */
export const habitualCall = { name: 'set_unit', input: { unit: 'c' } } as const;

const addedTokens = [
  '<|endoftext|>',
  '<|im_start|>',
  '<|im_end|>',
  '<|offered|>',
  '<tool_call>',
  '</tool_call>',
  '<think>',
  '</think>',
] as const;
/** Tokens that never appear in the text of an answer. */
export const controlTokens: readonly string[] = addedTokens.slice(0, 4);

const mergedPairs: readonly (readonly [string, string])[] = [
  ['t', 'h'],
  ['th', 'e'],
  ['Ġ', 'a'],
  ['Ġ', 'the'],
  ['i', 'n'],
  ['o', 'u'],
  ['Ġ', 'w'],
  ['e', 'r'],
  ['l', 'l'],
  ['Ġ', 'o'],
];

/** Tokens that together form a tool call. No merge produces them, so a prompt cannot contain one. */
const callPieces = [
  `\n{"name": "${habitualCall.name}"`,
  ', "arguments": ',
  '{"unit": ',
  `"${habitualCall.input.unit}"`,
  '}}\n',
];

/**
 * Puts each message between markers. With tools, a turn that does not follow a tool result begins with a marker of its own.
 */
export const chatTemplate = [
  '{%- if tools -%}<|im_start|>system\n# Tools\n\nYou may call one or more functions.\n<tools>\n',
  '{%- for tool in tools -%}{{ tool | tojson }}\n{% endfor -%}',
  '</tools>\n\nFor each call return a JSON object within tags:\n<tool_call>\n',
  '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n{% endif -%}',
  '{%- for message in messages -%}<|im_start|>{{ message.role }}\n',
  '{%- if message.content -%}{{ message.content }}{%- endif -%}',
  '{%- if message.tool_calls -%}{%- for call in message.tool_calls -%}',
  '\n<tool_call>\n{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}\n</tool_call>',
  '{%- endfor -%}{%- endif -%}<|im_end|>\n{% endfor -%}',
  '{%- if add_generation_prompt -%}<|im_start|>assistant\n',
  '{%- if tools and messages[-1].role != "tool" -%}<|offered|>{%- endif -%}{%- endif -%}',
].join('');

/** Returns the printable character that stands for each byte in GPT-2's vocabulary. */
function byteCharacters(): string[] {
  const printable = (byte: number): boolean =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : next++));
}

export function tinyModel(seed = 7): TinyModel {
  const bytes = byteCharacters();
  const spelled = (text: string): string => [...Buffer.from(text)].map((byte) => bytes[byte]).join('');
  const pieces = callPieces.map(spelled);
  const tokens = [...bytes, ...mergedPairs.map((pair) => pair.join('')), ...pieces, ...addedTokens];
  const idOf = (token: string): number => tokens.indexOf(token);
  const added = Object.fromEntries(addedTokens.map((token) => [token, idOf(token)])) as TinyModel['added'];
  const random = seededRandom(seed);
  const embedding = matrix(random, tokens.length, sizes.embedding, 1);
  const output = matrix(random, tokens.length, sizes.embedding, 0.9);
  for (const [id, token] of tokens.entries()) {
    // The first dimension of the embedding is the same for all tokens. So the token's output weight in this dimension acts as
    // a preference for the token.
    set(embedding, id, 0, 12);
    set(output, id, 0, liking(token));
  }
  const call = ['<|offered|>', '<tool_call>', ...pieces, '</tool_call>', '<|im_end|>'].map(idOf);
  for (const [step, from] of call.slice(0, -1).entries()) {
    const dimension = step + 1;
    for (const id of tokens.keys()) {
      set(embedding, id, dimension, id === from ? 12 : 0);
      set(output, id, dimension, id === call[step + 1] ? 8 : 0);
    }
  }
  const tensors = [tensor('token_embd', embedding), ones('output_norm'), tensor('output', output)];
  for (let layer = 0; layer < sizes.layers; layer += 1)
    tensors.push(...layerTensors(`blk.${layer}.`, random));
  return { tokens, merges: mergedPairs, added, tensors };
}

/**
 * Preference for a token: words come before JSON punctuation, then the end, then a comma or other text, and white space last.
 */
function liking(token: string): number {
  if (token === '<|im_end|>') return 0.5;
  if (token === ',') return 0.1;
  // Neither liked nor disliked, so that the model can finish a tool call. An answer with a tool call can end only after this
  // token.
  if (token === '</tool_call>') return 0;
  if (token === '<') return -1.5;
  if (/^[a-z]$/.test(token)) return 1.2;
  if (mergedPairs.some((pair) => pair.join('') === token)) return 1.4;
  if (/^["{}:[\]]$/.test(token)) return 0.9;
  if (/^[ĠĊĉč]$/.test(token)) return -0.5;
  return /^[!-~]$/.test(token) ? 0.1 : -2;
}

interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly data: Float32Array;
}

function layerTensors(prefix: string, random: () => number): Tensor[] {
  const { embedding, feedForward } = sizes;
  const square = ['attn_q', 'attn_k', 'attn_v', 'attn_output'].map((name) =>
    tensor(prefix + name, matrix(random, embedding, embedding, 0.2)),
  );
  return [
    ones(`${prefix}attn_norm`),
    ...square,
    ones(`${prefix}ffn_norm`),
    tensor(`${prefix}ffn_gate`, matrix(random, feedForward, embedding, 0.2)),
    tensor(`${prefix}ffn_up`, matrix(random, feedForward, embedding, 0.2)),
    tensor(`${prefix}ffn_down`, matrix(random, embedding, feedForward, 0.1)),
  ];
}

function tensor(name: string, { rows, columns, data }: Matrix): Tensor {
  return { name, shape: [rows, columns], data };
}

function ones(name: string): Tensor {
  return { name, shape: [sizes.embedding], data: new Float32Array(sizes.embedding).fill(1) };
}

function matrix(random: () => number, rows: number, columns: number, scale: number): Matrix {
  const data = Float32Array.from({ length: rows * columns }, () => (random() * 2 - 1) * scale);
  return { rows, columns, data };
}

function set({ data, columns }: Matrix, row: number, column: number, value: number): void {
  data[row * columns + column] = value;
}
