/** Addresses of the service's hosts, as far as the control plane knows them. */

export interface Addresses {
  /** Base address of the shared host, with its version. */
  readonly shared?: string;
  /** The domain below which each stack has its host. */
  readonly stackDomain?: string;
  /** By stack, where they have addresses of their own. */
  readonly stacks?: Readonly<Record<string, string>>;
}

/** The address of a stack's API, or a text that shows its form. */
export function stackUrl(stack: string, { stacks, stackDomain }: Addresses): string {
  return stacks?.[stack] ?? `https://${stack}.${stackDomain ?? 'YOUR-STACK-DOMAIN'}/v1`;
}
