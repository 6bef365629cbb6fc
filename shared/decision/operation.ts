/**
 * Which operation a method and path name. By path only, never by stack, so that it reveals nothing of one.
 * A method that a path does not take is the same as an unknown path.
 */

export type Operation =
  | { readonly kind: 'chat' | 'embeddings' | 'messages' | 'count-tokens' | 'unknown' }
  | ListingOperation;

export type ListingOperation =
  | { readonly kind: 'models' }
  | { readonly kind: 'model'; readonly model: string };

const posts = {
  '/v1/chat/completions': { kind: 'chat' },
  '/v1/embeddings': { kind: 'embeddings' },
  '/v1/messages': { kind: 'messages' },
  '/v1/messages/count_tokens': { kind: 'count-tokens' },
} as const satisfies Record<string, Operation>;

const unknownOperation: Operation = { kind: 'unknown' };

/** `path` is without its query. */
export function resolveOperation(method: string, path: string): Operation {
  if (method === 'POST')
    return Object.hasOwn(posts, path) ? posts[path as keyof typeof posts] : unknownOperation;
  if (method !== 'GET') return unknownOperation;
  if (path === '/v1/models') return { kind: 'models' };
  if (!path.startsWith('/v1/models/') || path.length === '/v1/models/'.length) return unknownOperation;
  try {
    return { kind: 'model', model: decodeURIComponent(path.slice('/v1/models/'.length)) };
  } catch {
    return unknownOperation;
  }
}
