/** Addresses of the service's hosts, as far as the control plane knows them. */

export interface Addresses {
  /** Base URL of the shared host. It includes the API version. */
  readonly shared?: string;
  /** Domain that contains the hosts of the stacks. */
  readonly stackDomain?: string;
  /** Base URLs of stacks whose address does not follow from the domain, by stack id. */
  readonly stacks?: Readonly<Record<string, string>>;
}

/** Returns the base URL of a stack's API, or a placeholder that shows the form of the URL. */
export function stackUrl(stack: string, { stacks, stackDomain }: Addresses): string {
  return stacks?.[stack] ?? `https://${stack}.${stackDomain ?? 'YOUR-STACK-DOMAIN'}/v1`;
}
