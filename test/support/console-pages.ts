/** Every page of the console, with what its heading says, for tests of all of them. */
const stack = 'stk-amber-otter-9k2f';

export const consolePages: readonly (readonly [path: string, heading: string])[] = [
  ['/fleet', 'Fleet'],
  ['/gateways', 'Gateways'],
  ['/gateways/gateway-1', 'gateway-1'],
  ['/nodes', 'Nodes'],
  ['/nodes/pool-1', 'pool-1'],
  ['/stacks', 'Stacks'],
  [`/stacks/${stack}`, stack],
  [`/stacks/${stack}?tab=credentials`, stack],
  ['/orgs', 'Organisations'],
  ['/orgs/acme', 'Acme'],
  ['/models', 'Models'],
  ['/models/echo-small', 'echo-small'],
  ['/tiers', 'Plans'],
  ['/tiers/Pro', 'Pro'],
  ['/requests', 'Requests'],
  ['/keys', 'API keys'],
  ['/usage?org=acme', 'Usage'],
  ['/events', 'Events'],
  ['/doctor', 'Doctor'],
  ['/limits', 'Limits'],
  ['/limits?org=acme', 'Limits'],
  ['/explain', 'Explain'],
  ['/explain?org=acme', 'Explain'],
  ['/explain?org=cedar&model=echo-large', 'Explain'],
];
