/**
 * The operations of the API, one row each. Admission, the decision journal, explanations, spans, the activity of an
 * organisation and the playground derive from it what they know of an operation. Kinds are names in metrics and answers.
 */
import type { Surface } from '../names.ts';

interface OperationRow {
  /** HEAD is asked like GET. */
  readonly method: 'GET' | 'POST';
  /** The route in spans. `{model}` is the rest of a path; nothing is at an empty one. */
  readonly path: string;
  /** Further paths by which clients ask for the same. */
  readonly aliases?: readonly string[];
  /** Of the stacks that have it. */
  readonly surface: Surface | 'any';
  /** For the limits: a count of tokens has its own, a listing none. */
  readonly countsAs: 'generation' | 'embedding' | 'rerank' | 'count' | 'listing' | 'nothing';
  readonly bodyBytesMax: number;
  /** People may ask how it would be decided. */
  readonly explained?: true;
}

const generation = { method: 'POST', countsAs: 'generation', bodyBytesMax: 32 * 1024 * 1024 } as const;
const count = { ...generation, countsAs: 'count' } as const;
const embedding = { ...generation, countsAs: 'embedding' } as const;
const rerank = {
  ...generation,
  countsAs: 'rerank',
  surface: 'openai',
  // Engines send the documents back, and an answer is bounded, too.
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
/** What a node answers. */
export type InferenceKind = KindsWith<{ countsAs: 'generation' | 'embedding' | 'rerank' | 'count' }>;

export const operationKinds = Object.keys(operations) as OperationKind[];

/** All paths of an operation, the one that others name it by first. */
export function pathsOf(kind: OperationKind): readonly string[] {
  const { path, aliases = [] }: OperationRow = operations[kind];
  return [path, ...aliases];
}
export type ExplainedKind = KindsWith<{ explained: true }>;
export const explainedKinds = operationKinds.filter(
  (kind): kind is ExplainedKind => 'explained' in operations[kind],
);

/** The API that speaks at a path, also at one where nothing is: it says how an answer is headed, never who may have it. */
export function surfaceOfPath(path: string): Surface {
  return path.startsWith(operations.messages.path) ? 'anthropic' : 'openai';
}
