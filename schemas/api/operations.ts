/**
 * Table of the API's operations, which admission, journal, explanations, spans and the playground read. The room
 * `schemas/api` defines clients' requests and answers. Kinds are names in metrics and answers, so they must not change.
 */
import type { Surface } from '../names.ts';

interface OperationRow {
  /** GET operations also accept HEAD. */
  readonly method: 'GET' | 'POST';
  /** Route as spans show it. `{model}` matches the non-empty rest of a path. */
  readonly path: string;
  readonly aliases?: readonly string[];
  /** Surface of the stacks that offer the operation. */
  readonly surface: Surface | 'any';
  /** Class of the request for the limits. Token counts have a limit of their own, listings have none. */
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
  // Engines send the documents back, and the size of an answer is bounded too.
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
/** Kinds that a node answers. */
export type InferenceKind = KindsWith<{ countsAs: 'generation' | 'embedding' | 'rerank' | 'count' }>;

export const operationKinds = Object.keys(operations) as OperationKind[];

/** All paths of an operation, its principal path first. */
export function listPaths(kind: OperationKind): readonly string[] {
  const { path, aliases = [] }: OperationRow = operations[kind];
  return [path, ...aliases];
}
export type ExplainedKind = KindsWith<{ explained: true }>;
export const explainedKinds = operationKinds.filter(
  (kind): kind is ExplainedKind => 'explained' in operations[kind],
);

/** API surface of any path, even if nothing exists there. Use it for an answer's format, never to decide who gets it. */
export function pathSurface(path: string): Surface {
  return path.startsWith(operations.messages.path) ? 'anthropic' : 'openai';
}
