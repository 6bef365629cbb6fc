/** Builds requests of every kind to a route. Each request names something that belongs to one organisation. */
import type { Route } from './registered-routes.ts';

/** Names and ids that belong to the organisation whose data must not leak. */
export interface Belongings {
  readonly organisation: string;
  readonly person: string;
  readonly key: string;
  readonly stack: string;
  readonly node: string;
  readonly token: string;
  readonly model: string;
  readonly request: string;
  /** Log positions: an early one, one in the middle, and the last. */
  readonly positions: readonly number[];
}

export interface CrawlRequest {
  readonly path: string;
  readonly body?: object;
}

/** Returns requests to one route. Throws if the route has a parameter for which the crawl has no value. */
export function requestsTo(route: Route, own: Belongings): CrawlRequest[] {
  const path = pathOf(route, own);
  if (route.method === 'GET') return queriesOf(route, own).map((query) => ({ path: `${path}${query}` }));
  return bodiesOf(route, own).map((body) => ({ path, body }));
}

function known(values: Readonly<Record<string, unknown>>, name: string, route: Route): unknown {
  if (Object.hasOwn(values, name)) return values[name];
  throw new Error(`${route.method} ${route.url}: say in the crawl what ${name} may be`);
}

function pathOf(route: Route, own: Belongings): string {
  const { organisation, key, stack, node, token, model, person, request, positions } = own;
  const ids = {
    ...{ organisations: organisation, keys: key, stacks: stack, nodes: node, tokens: token },
    ...{ tiers: 'Wide', models: model, 'staged-changes': '17' },
  };
  const parameters = { person, model, request, position: positions[1], name: 'gateway-1' };
  const values = { ...parameters, fingerprint: 'ab'.repeat(32) };
  const parts = route.url.split('/');
  return parts
    .map((part, at) => {
      if (!part.startsWith(':')) return part;
      const name = part.slice(1);
      const value = name === 'id' ? known(ids, parts[at - 1] ?? '', route) : known(values, name, route);
      return encodeURIComponent(String(value));
    })
    .join('/');
}

const paging = { limit: '5', state: 'active', sort: 'id', after: 'x', min: '1' };
const spans = { from: '1', to: '5', buckets: '5' };
const commanding = { why: 'crawl', force: 'true', dryRun: 'true' };

function queriesOf(route: Route, own: Belongings): string[] {
  const { organisation, person, key, stack, node, positions } = own;
  const about = { organisation, key, stack, node, actor: person };
  const values = {
    ...{ ...paging, ...spans, ...commanding, ...about },
    ...{ text: organisation, at: String(positions[1]), only: 'log', skip: 'log' },
    ...{ timeoutSeconds: '0', order: 'desc', type: 'key.created', host: stack, gateway: 'gateway-1' },
    ...{ since: '1h', period: '2026-01-01', outcome: 'served', model: own.model, request: own.request },
    ...{ 'slower-than': '1ms', next: 'x', by: 'key', 'rows-per-second': '5', inParts: 'true' },
    ...{ stage: 'true', waves: 'one,all', hold: '5m', watch: 'least=1', advanceUnseen: 'true', wave: 'true' },
  };
  const names = route.query ?? Object.keys(about);
  const single = names.map((name) => [[name, String(known(values, name, route))]] as const);
  const past = positions.flatMap((position) => [
    [['at', String(position)]] as const,
    [
      ['at', String(position)],
      ['organisation', organisation],
    ] as const,
  ]);
  const searched = [organisation, person].map((text) => [['text', text]] as const);
  const queries = [...single, ...past, ...searched].map((pairs) => `?${new URLSearchParams(pairs as never)}`);
  return ['', ...new Set(queries)];
}

/** Returns commands about the organisation, for the route that predicts the effect of commands. */
function commandsAbout({ organisation, person, key, stack, node, model }: Belongings): object[] {
  return [
    { method: 'PATCH', path: `/organisations/${organisation}`, body: { suspended: true } },
    { method: 'DELETE', path: `/organisations/${organisation}/members/${person}` },
    { method: 'POST', path: `/keys/${key}/revoke` },
    { method: 'POST', path: '/keys', body: { organisation, name: 'crawl', expires: '30d' } },
    { method: 'PUT', path: `/stacks/${stack}/surface`, body: { surface: 'anthropic' } },
    { method: 'DELETE', path: `/stacks/${stack}` },
    { method: 'POST', path: `/nodes/${node}/drain` },
    { method: 'PUT', path: '/tiers/Wide', body: { rank: 1, models: [model] } },
    { method: 'POST', path: '/events/1/undo' },
    { fleet: { version: 1 }, prune: true },
  ];
}

function bodiesOf(route: Route, own: Belongings): object[] {
  if (route.url.endsWith('/effect')) return commandsAbout(own);
  const { organisation, person, key, stack, node, model, request, positions } = own;
  const subjects: Readonly<Record<string, unknown>> = {
    ...{ organisation, key, request, visitor: true },
    record: { organisation, key, model, host: stack, at: new Date().toISOString() },
  };
  const facts = {
    ...{ id: stack, name: 'crawl', tier: null, anchor: '2026-01-01', role: 'owner', expires: '30d' },
    ...{ suspended: true, surface: 'openai', seconds: 60, tokens: 5, publicKey: 'x', prune: true },
    ...{ rank: 1, requestsPerMinute: 1, concurrency: 1, contextTokens: 1, monthlyTokens: 1, freeTurns: 1 },
    ...{ networkFactor: 1, total: {}, models: [model], family: 'x', weight: 1, affinity: 'none' },
    ...{ activeKeysPerOrganisation: 5, keysPerOrganisation: 5 },
    ...{ commandsPerPersonPerMinute: 5, commandsPerOrganisationPerMinute: 5 },
    ...{ added: '2026-01-01T00:00:00Z', url: 'http://127.0.0.1:1', dialect: 'vllm', credential: 'X' },
    ...{ agent: true, place: { kind: 'organisation', id: organisation }, fleet: { version: 1 }, model },
    ...{ host: stack, path: '/v1/chat/completions', promptTokens: 1, maxTokens: 1 },
    ...{ at: String(positions[1]), diff: String(positions[2]), node, person, reason: 'crawl' },
    ...{ wave: true, inWave: 1 },
  };
  const names = route.body ?? [];
  const asked = names.filter((name) => Object.hasOwn(subjects, name));
  const filled = Object.fromEntries(
    names.filter((name) => !asked.includes(name)).map((name) => [name, known(facts, name, route)]),
  );
  const { at: _at, diff: _diff, ...present } = filled;
  const about = asked.length === 0 ? [{}] : asked.map((name) => ({ [name]: subjects[name] }));
  const bodies = about.flatMap((subject) => [
    { ...present, ...subject },
    { ...filled, ...subject },
    { ...present, ...subject, host: 'shared' },
    subject,
  ]);
  const undeclared = [{ organisation }, { demo: person }, { organisation, person, key, stack }];
  return [{}, ...bodies, ...(route.body === undefined ? undeclared : [])];
}
