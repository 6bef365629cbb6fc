/**
 * Builds the client's response from a node's embeddings: one per input, in order, in the requested encoding. Checks the
 * encoding and the number of dimensions, because official clients would decode the wrong ones into garbage without an error.
 * Throws `NodeFailure` if the node's response does not match the request.
 */

import { Refusal } from '../../../shared/decision/refusal.ts';
import { type AnswerFacts, malformedAnswer, refuseError } from '../common/chat-parts.ts';
import type { RebuiltBody } from '../common/surface.ts';
import { integer, member } from '../common/untrusted.ts';
import { estimateUsage, readUsage } from '../common/usage.ts';
import type { EmbeddingsContext } from './shape-embeddings.ts';

export function rebuildEmbeddings(
  answer: unknown,
  { model, promptTextBytes, most }: AnswerFacts,
  context: EmbeddingsContext,
): RebuiltBody {
  refuseError(answer);
  const entries = member(answer, 'data');
  if (!Array.isArray(entries) || entries.length !== context.inputs) {
    throw malformedAnswer('it does not contain one embedding for each input');
  }
  const vectors: (readonly number[])[] = [];
  for (const entry of entries) {
    const index = integer(member(entry, 'index'));
    if (index === undefined || index >= context.inputs || vectors[index] !== undefined) {
      throw malformedAnswer('an embedding has no unique index');
    }
    vectors[index] = readVector(member(entry, 'embedding'));
  }
  const dimensions = context.dimensions ?? vectors[0]?.length;
  if (vectors.some((vector) => vector.length !== dimensions)) {
    throw malformedAnswer('an embedding does not have the requested dimensions');
  }
  const usage = readUsage(member(answer, 'usage'), most) ?? estimateUsage(promptTextBytes, 0, most);
  const data = vectors.map((vector, index) => ({
    object: 'embedding',
    index,
    embedding: context.encoding === 'base64' ? toBase64(vector) : vector,
  }));
  const { promptTokens } = usage;
  return {
    body: {
      object: 'list',
      data,
      model,
      usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
    },
    usage: { ...usage, completionTokens: 0 },
  };
}

const bytesPerNumber = 4;

function readVector(value: unknown): readonly number[] {
  const vector = typeof value === 'string' ? fromBase64(value) : value;
  if (!Array.isArray(vector) || vector.length === 0) throw malformedAnswer('an embedding is not a list');
  // Refuse the request, and do not blame the node: every node gives this result, so a retry would not help.
  if (vector.some(isNotANumber)) throw new Refusal('rejected', notANumber);
  if (!vector.every(isFloat)) throw malformedAnswer('an embedding is not a list of numbers');
  return vector;
}

const notANumber =
  'This model does not accept this request: an embedding has a value that is not a number (NaN or infinite).';

/** Whether a value stands for NaN or infinity. Most engines write null for both, because JSON cannot express them. */
function isNotANumber(value: unknown): boolean {
  return value === null || (typeof value === 'number' && !Number.isFinite(value));
}

/** Whether a value is a number that fits into a 32-bit float. */
function isFloat(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(Math.fround(value));
}

/** Decodes base64 to 32-bit floats, or returns undefined if it is invalid. The format is little-endian on every machine. */
function fromBase64(value: string): readonly number[] | undefined {
  const bytes = Buffer.from(value, 'base64');
  // Encode the bytes again to find out whether the decoder skipped invalid characters.
  if (bytes.length % bytesPerNumber !== 0 || bytes.toString('base64') !== value) return undefined;
  return Array.from({ length: bytes.length / bytesPerNumber }, (_, at) =>
    bytes.readFloatLE(at * bytesPerNumber),
  );
}

function toBase64(vector: readonly number[]): string {
  const bytes = Buffer.alloc(vector.length * bytesPerNumber);
  for (const [at, number] of vector.entries()) bytes.writeFloatLE(number, at * bytesPerNumber);
  return bytes.toString('base64');
}
