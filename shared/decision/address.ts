/**
 * What a request addresses: its host selects the shared service or a stack, its method and path the operation. Pure, and
 * without a look-up: a label of stack form names a stack whether or not one exists, and a path reveals nothing of a stack.
 */
import { stackIdSchema } from '../../schemas/names.ts';
import { Refusal } from './refusal.ts';

export type Target = { readonly kind: 'shared' } | { readonly kind: 'stack'; readonly stack: string };

export interface HostNames {
  /** Names of the shared host, lower case, without port. */
  readonly shared: ReadonlySet<string>;
  /** Stack hosts are `<stack id>.<stackDomain>`; lower case. */
  readonly stackDomain: string;
}

export const sharedTarget: Target = { kind: 'shared' };

/** Resolves a `Host` header, its port ignored. Throws NotFoundError for any other host. */
export function resolveHost(header: string | undefined, names: HostNames): Target {
  const host = withoutPort(header ?? '').toLowerCase();
  if (names.shared.has(host)) return sharedTarget;
  const suffix = `.${names.stackDomain}`;
  if (host.endsWith(suffix)) {
    const label = host.slice(0, -suffix.length);
    if (stackIdSchema.safeParse(label).success) return { kind: 'stack', stack: label };
  }
  throw new Refusal('NotFoundError', 'No such host is served here.', { reason: 'unknown host' });
}

function withoutPort(host: string): string {
  if (host.startsWith('[')) return host.slice(1, host.indexOf(']') === -1 ? undefined : host.indexOf(']'));
  const colon = host.indexOf(':');
  const name = colon === -1 ? host : host.slice(0, colon);
  return name.endsWith('.') ? name.slice(0, -1) : name;
}

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
