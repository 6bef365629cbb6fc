/**
 * Which host was addressed: the shared one, or a stack's. Pure; the hostname alone selects the stack, and a label of
 * stack shape names a stack whether or not one exists.
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

/** Resolves a `Host` header, its port ignored. Throws NotFoundError for any host that is not ours. */
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
