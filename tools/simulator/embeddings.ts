/**
 * Computes the embeddings of a simulated node. They are unit vectors derived from a hash, so equal inputs get equal vectors.
 */
import { createHash } from 'node:crypto';
import type { Dialect } from '../../schemas/names.ts';
import { integer, type Loose } from './loose.ts';
import { textTokens } from './text.ts';

/** Number of dimensions of a vector if the request does not set it. */
const dimensionsDefault = 64;
const dimensionsMax = 8192;
const inputsMax = 2048;

export interface SimEmbeddingsRequest {
  readonly inputs: readonly (string | readonly number[])[];
  readonly dimensions: number;
  readonly base64: boolean;
}

/** Parses a request. Returns undefined if the input is missing, empty, of a wrong type, or has more than 2048 texts. */
export function readEmbeddingsRequest(body: Loose, dialect: Dialect): SimEmbeddingsRequest | undefined {
  const inputs = parseInputs(body['input'], dialect);
  if (inputs === undefined || inputs.length === 0 || inputs.length > inputsMax) return undefined;
  // llama.cpp ignores the field `dimensions`.
  const asked = dialect === 'llamacpp' ? undefined : integer(body['dimensions']);
  const dimensions = Math.min(Math.max(asked ?? dimensionsDefault, 1), dimensionsMax);
  return { inputs, dimensions, base64: body['encoding_format'] === 'base64' };
}

/** Returns the number of tokens in all inputs. A text counts as a quarter of its bytes, rounded up. */
export function embeddingTokens(inputs: SimEmbeddingsRequest['inputs']): number {
  return inputs.reduce(
    (sum, input) => sum + (typeof input === 'string' ? textTokens(input) : input.length),
    0,
  );
}

export function embeddingsBody(
  request: SimEmbeddingsRequest,
  id: string,
  created: number,
  model: string,
): unknown {
  const promptTokens = embeddingTokens(request.inputs);
  return {
    id,
    object: 'list',
    created,
    model,
    data: request.inputs.map((input, index) => {
      const vector = unitVector(typeof input === 'string' ? input : input.join(','), request.dimensions);
      const embedding = request.base64 ? Buffer.from(vector.buffer).toString('base64') : [...vector];
      return { index, object: 'embedding', embedding };
    }),
    usage: { prompt_tokens: promptTokens, total_tokens: promptTokens, completion_tokens: 0 },
  };
}

/** Creates a vector of length 1 from a xorshift sequence, whose seed is the SHA-256 of the text. */
function unitVector(text: string, dimensions: number): Float32Array {
  let state = createHash('sha256').update(text).digest().readUInt32LE(0) || 1;
  const raw = Float64Array.from({ length: dimensions }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state | 0) / 2 ** 31;
  });
  const norm = Math.sqrt(raw.reduce((sum, value) => sum + value * value, 0)) || 1;
  return Float32Array.from(raw, (value) => value / norm);
}

function parseInputs(input: unknown, dialect: Dialect): SimEmbeddingsRequest['inputs'] | undefined {
  if (typeof input === 'string') return input === '' ? undefined : [input];
  if (!Array.isArray(input)) return undefined;
  if (input.every((entry) => typeof entry === 'string')) return input;
  if (dialect === 'ollama') return undefined;
  if (isTokens(input)) return [input];
  return input.every(isTokens) ? input : undefined;
}

function isTokens(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every((entry) => integer(entry) !== undefined);
}
