/** Addresses of the service's hosts, as far as the control plane knows them. */

export interface Addresses {
  /** Base URL of the shared host, including the API version. */
  readonly shared?: string;
  /** Domain of the stacks' hosts. */
  readonly stackDomain?: string;
  /** Base URLs by stack, for stacks whose address does not follow from the domain. */
  readonly stacks?: Readonly<Record<string, string>>;
}

/** Base URL of a stack's API, or a placeholder that shows its form. */
export function stackUrl(stack: string, { stacks, stackDomain }: Addresses): string {
  return stacks?.[stack] ?? `https://${stack}.${stackDomain ?? 'YOUR-STACK-DOMAIN'}/v1`;
}
