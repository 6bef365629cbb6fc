/**
 * Table of the inference API's operations, which admission, journal, explanations, spans and the playground use. Metrics and
 * responses contain the kinds by name, so the names must not change. The room `schemas/api` defines clients' requests and the
 * responses to them.
 */
import type { Surface } from '../names.ts';

interface OperationRow {
  /** HTTP method. GET operations also accept HEAD. */
  readonly method: 'GET' | 'POST';
  /** Route as it appears in spans. `{model}` matches the rest of a path, which must not be empty. */
  readonly path: string;
  readonly aliases?: readonly string[];
  /** Surface of the stacks that offer the operation, or `any` if all stacks offer it. */
  readonly surface: Surface | 'any';
  /** Class of request that limits apply to. Counting tokens has a separate limit, and listings have none. */
  readonly countsAs: 'generation' | 'embedding' | 'rerank' | 'count' | 'listing' | 'nothing';
  readonly bodyBytesMax: number;
  /** Whether `explain` supports the operation. */
  readonly explained?: true;
}

const generation = { method: 'POST', countsAs: 'generation', bodyBytesMax: 32 * 1024 * 1024 } as const;
const count = { ...generation, countsAs: 'count' } as const;
const embedding = { ...generation, countsAs: 'embedding' } as const;
const rerank = {
  ...generation,
  countsAs: 'rerank',
  surface: 'openai',
  // Half the limit on other operations, because engines repeat the documents in the response, whose size is bounded too.
  bodyBytesMax: 16 * 1024 * 1024,
} as const;
const listing = { method: 'GET', countsAs: 'listing', bodyBytesMax: 0, surface: 'any' } as const;
const nothing = { method: 'POST', countsAs: 'nothing', bodyBytesMax: 0, surface: 'any' } as const;

export const operations = {
  chat: { ...generation, path: '/v1/chat/completions', surface: 'openai', explained: true },
  responses: { ...generation, path: '/v1/responses', surface: 'openai', explained: true },
  messages: { ...generation, path: '/v1/messages', surface: 'anthropic', explained: true },
  'count-tokens': { ...count, path: '/v1/messages/count_tokens', surface: 'anthropic' },
  embeddings: { ...embedding, path: '/v1/embeddings', surface: 'any', explained: true },
  rerank: { ...rerank, path: '/v1/rerank', aliases: ['/v2/rerank', '/rerank'], explained: true },
  models: { ...listing, path: '/v1/models', explained: true },
  model: { ...listing, path: '/v1/models/{model}' },
  unknown: { ...nothing, path: '' },
} as const satisfies Record<string, OperationRow>;

type Operations = typeof operations;
export type OperationKind = keyof Operations;
type KindsWith<Row> = {
  [Kind in OperationKind]: Operations[Kind] extends Row ? Kind : never;
}[OperationKind];
/** Operations whose requests are sent to a node. */
export type InferenceKind = KindsWith<{ countsAs: 'generation' | 'embedding' | 'rerank' | 'count' }>;

export const operationKinds = Object.keys(operations) as OperationKind[];

/** Lists all paths of an operation, the principal path first. */
export function listPaths(kind: OperationKind): readonly string[] {
  const { path, aliases = [] }: OperationRow = operations[kind];
  return [path, ...aliases];
}
export type ExplainedKind = KindsWith<{ explained: true }>;
export const explainedKinds = operationKinds.filter(
  (kind): kind is ExplainedKind => 'explained' in operations[kind],
);

/** Returns the API surface of any path, even if no operation has it. Only for response formats, never for access control. */
export function pathSurface(path: string): Surface {
  return path.startsWith(operations.messages.path) ? 'anthropic' : 'openai';
}
