/**
 * Tests the effect of each event on the rows. After some given events, one more event must change exactly the listed rows. A
 * check below ensures that there is a case for every event type and for every reason to skip an event.
 */
import { expect, test } from 'vitest';
import { eventTypeNames } from '../../schemas/events/event-definitions.ts';
import type { KnownEvent } from '../../schemas/events/events.ts';
import { ChainWriter, firstMomentMs, known, sha256 } from '../../test/support/commits.ts';
import { memorySnapshot } from './open-snapshot.ts';
import type { Snapshot } from './snapshot.ts';
import { type TableName, type TableRow, tableNames, tableSpecs } from './tables.ts';
import { verify } from './verify.ts';

/** A test case. `leaves` lists, after the event, all rows of each changed table. All other tables must stay unchanged. */
type Case = readonly [
  name: string,
  given: readonly KnownEvent[],
  when: KnownEvent,
  leaves: Partial<Record<TableName, readonly TableRow[]>>,
];

/** Time in ms of the third commit, which contains `when`. The first creates the log, the second contains the given events. */
const whenMs = firstMomentMs + 3000;
const givenMs = firstMomentMs + 2000;
const hashOf = (text: string): Buffer => Buffer.from(sha256(text), 'hex');
const stackId = 'stk-amber-otter-1';

const tierRow = (row: TableRow): TableRow => ({
  id: 'Team',
  rank: 1,
  requests_per_minute: null,
  concurrency: null,
  context_tokens: null,
  monthly_tokens: null,
  free_turns: null,
  network_factor: null,
  total_requests_per_minute: null,
  total_concurrency: null,
  total_tokens_per_day: null,
  ...row,
});
const keyRow = (row: TableRow = {}): TableRow => ({
  id: 'key-1',
  hash: hashOf('key-1'),
  organisation: 'acme',
  name: 'laptop',
  expires: 'never',
  expires_at: null,
  created_at: whenMs,
  created_by: 'operator',
  revoked_at: null,
  revoked_by: null,
  ...row,
});
const nodeRow = (row: TableRow = {}): TableRow => ({
  id: 'node-1',
  place: 'pool',
  url: 'http://127.0.0.1:9001',
  dialect: 'vllm',
  credential: null,
  models: null,
  agent: 1,
  drained: 0,
  owner: null,
  generation: 0,
  up: 0,
  loaded: '[]',
  windows: '{}',
  image_models: '[]',
  rerank_models: '[]',
  reason: null,
  changed_at: null,
  ...row,
});
/** Returns the row of a node that its owner reported up in the commit before the tested one. */
const upRow = (row: TableRow = {}): TableRow =>
  nodeRow({
    owner: 'control-1',
    generation: 1,
    up: 1,
    loaded: '["echo","large"]',
    changed_at: givenMs,
    ...row,
  });
const routeRow = (row: TableRow = {}): TableRow => ({
  place: 'pool',
  model: 'echo',
  node: 'node-1',
  served: 'echo',
  url: 'http://127.0.0.1:9001',
  dialect: 'vllm',
  credential: null,
  window_tokens: null,
  takes_images: 0,
  reranks: 0,
  ...row,
});

const bothRoutes = [routeRow(), routeRow({ model: 'large', served: 'large' })];

const tier = known('tier.set', { id: 'Team', rank: 1, models: ['echo', 'large'] });
const model = known('model.set', { id: 'echo', family: 'e', added: '2026-01-01T00:00:00Z', weight: 2 });
const organisation = known('organisation.set', {
  id: 'acme',
  name: 'Acme',
  tier: 'Team',
  anchor: '2026-01-01',
});
const organisationRow: TableRow = {
  id: 'acme',
  name: 'Acme',
  tier: 'Team',
  anchor: '2026-01-01',
  suspended: 0,
};
const key = known('key.created', {
  id: 'key-1',
  organisation: 'acme',
  name: 'laptop',
  hash: sha256('key-1'),
  expires: 'never',
  expiresAt: null,
});
const forgotten = known('key.forgotten', { id: 'key-1', organisation: 'acme', name: 'laptop' });
const stack = known('stack.created', { id: stackId, organisation: 'acme', surface: 'openai' });
const stackRow: TableRow = { id: stackId, organisation: 'acme', surface: 'openai', created_at: givenMs };
const registered = (place: { kind: 'pool' } | { kind: 'stack' | 'organisation'; id: string }) =>
  known('node.registered', {
    id: 'node-1',
    place,
    url: 'http://127.0.0.1:9001',
    dialect: 'vllm',
    agent: true,
  });
const node = registered({ kind: 'pool' });
const joined = known('node.joined', { id: 'node-1', owner: 'control-1', generation: 1 });
const health = known('node.health_changed', {
  id: 'node-1',
  owner: 'control-1',
  generation: 1,
  up: true,
  models: ['large', 'echo', 'echo'],
});
const upNode = [node, joined, health];
const installed = known('pool.model_installed', { model: 'echo' });
const token = known('node.token_created', { id: 'token-1', node: 'node-1', hash: sha256('token-1') });
const tokenRow: TableRow = {
  id: 'token-1',
  node: 'node-1',
  hash: hashOf('token-1'),
  created_at: givenMs,
  revoked_at: null,
};
const member = known('member.set', { organisation: 'acme', person: 'ana', role: 'owner' });
const adjusted = (tokens: number): KnownEvent =>
  known('usage.adjusted', { organisation: 'acme', period: '2026-01-01', tokens });

const tenantCases: Case[] = [
  ['a second log.created changes nothing', [], known('log.created', { log: 'x' }), {}],
  ['log.signers_set changes no row', [], known('log.signers_set', { signers: ['x'] }), {}],
  [
    'session.ended changes no row',
    [],
    known('session.ended', { kind: 'person', subject: 'ana', until: '2026-01-01T00:00:00.000Z' }),
    {},
  ],
  ['no_op changes nothing', [], known('no_op', {}), {}],
  ['a checkpoint changes no row', [], known('checkpoint', { foldVersion: 0, digests: {} }), {}],
  [
    'tier.set adds a tier; omitted limits are NULL',
    [],
    known('tier.set', {
      id: 'Team',
      rank: 1,
      requestsPerMinute: 60,
      contextTokens: 0,
      models: ['b', 'a', 'b'],
    }),
    {
      tier: [tierRow({ requests_per_minute: 60, context_tokens: 0 })],
      tier_model: [
        { tier: 'Team', model: 'a' },
        { tier: 'Team', model: 'b' },
      ],
    },
  ],
  [
    'tier.set replaces the tier’s limits and models',
    [tier],
    known('tier.set', { id: 'Team', rank: 7, concurrency: 4, monthlyTokens: 9, models: '*' }),
    {
      tier: [tierRow({ rank: 7, concurrency: 4, monthly_tokens: 9 })],
      tier_model: [{ tier: 'Team', model: '*' }],
    },
  ],
  [
    'tier.removed removes the tier’s models and leaves its organisations',
    [tier, organisation],
    known('tier.removed', { id: 'Team' }),
    { tier: [], tier_model: [] },
  ],
  [
    'anonymous.set is stored in the tier table without a rank',
    [],
    known('anonymous.set', { freeTurns: 10, requestsPerMinute: 5, models: ['echo'] }),
    {
      tier: [tierRow({ id: 'anonymous', rank: null, requests_per_minute: 5, free_turns: 10 })],
      tier_model: [{ tier: 'anonymous', model: 'echo' }],
    },
  ],
  [
    'anonymous.removed removes visitors’ limits and models',
    [known('anonymous.set', { freeTurns: 10, models: ['echo'] })],
    known('anonymous.removed', {}),
    { tier: [], tier_model: [] },
  ],
  [
    'bounds.set replaces all bounds, and omitted ones get their defaults',
    [known('bounds.set', { keysPerOrganisation: 7 })],
    known('bounds.set', { activeKeysPerOrganisation: 5, commandsPerPersonPerMinute: 9 }),
    {
      bounds: [
        {
          id: 'fleet',
          active_keys_per_organisation: 5,
          keys_per_organisation: null,
          commands_per_person_per_minute: 9,
          commands_per_organisation_per_minute: null,
        },
      ],
    },
  ],
  [
    'anonymous.set has limits for networks and for all visitors together',
    [],
    known('anonymous.set', {
      freeTurns: 1,
      networkFactor: 3,
      models: [],
      total: { requestsPerMinute: 60, concurrency: 4, tokensPerDay: 1000 },
    }),
    {
      tier: [
        tierRow({
          ...{ id: 'anonymous', rank: null, free_turns: 1, network_factor: 3 },
          ...{ total_requests_per_minute: 60, total_concurrency: 4, total_tokens_per_day: 1000 },
        }),
      ],
    },
  ],
  [
    'model.set adds a model',
    [],
    model,
    { model: [{ id: 'echo', family: 'e', added: Date.UTC(2026, 0, 1), weight: 2, affinity: 'prefix' }] },
  ],
  [
    'model.set replaces a model',
    [model],
    known('model.set', {
      id: 'echo',
      family: 'f',
      added: '2026-01-02T00:00:00.5Z',
      weight: 1,
      affinity: 'none',
    }),
    { model: [{ id: 'echo', family: 'f', added: Date.UTC(2026, 0, 2) + 500, weight: 1, affinity: 'none' }] },
  ],
  [
    'model.removed leaves tiers and installs that name it',
    [model, tier, installed],
    known('model.removed', { id: 'echo' }),
    { model: [] },
  ],
  ['organisation.set adds an organisation', [], organisation, { organisation: [organisationRow] }],
  [
    'organisation.set keeps a suspension',
    [organisation, known('organisation.suspended', { id: 'acme', suspended: true })],
    known('organisation.set', { id: 'acme', name: 'Acme 2', tier: null, anchor: '2026-02-01' }),
    { organisation: [{ id: 'acme', name: 'Acme 2', tier: null, anchor: '2026-02-01', suspended: 1 }] },
  ],
  [
    'organisation.suspended suspends',
    [organisation],
    known('organisation.suspended', { id: 'acme', suspended: true }),
    { organisation: [{ ...organisationRow, suspended: 1 }] },
  ],
  [
    'organisation.suspended lifts a suspension',
    [organisation, known('organisation.suspended', { id: 'acme', suspended: true })],
    known('organisation.suspended', { id: 'acme', suspended: false }),
    { organisation: [organisationRow] },
  ],
  [
    'organisation.removed removes members, keys, stacks, own nodes, their tokens, routes and adjustments',
    [
      organisation,
      known('organisation.set', { id: 'other', name: 'Other', tier: null, anchor: '2026-01-01' }),
      member,
      known('member.set', { organisation: 'other', person: 'ana', role: 'owner' }),
      key,
      known('key.created', {
        ...key.data,
        id: 'key-2',
        hash: sha256('key-2'),
        organisation: 'other',
      } as never),
      stack,
      known('stack.model_installed', { stack: stackId, model: 'echo' }),
      known('node.registered', {
        id: 'node-2',
        place: { kind: 'stack', id: stackId },
        url: 'http://127.0.0.1:9002',
        dialect: 'sglang',
        agent: false,
      }),
      registered({ kind: 'organisation', id: 'acme' }),
      joined,
      health,
      token,
      adjusted(5),
    ],
    known('organisation.removed', { id: 'acme' }),
    {
      organisation: [{ id: 'other', name: 'Other', tier: null, anchor: '2026-01-01', suspended: 0 }],
      member: [{ organisation: 'other', person: 'ana', role: 'owner' }],
      api_key: [keyRow({ id: 'key-2', hash: hashOf('key-2'), organisation: 'other', created_at: givenMs })],
      stack: [],
      stack_model: [],
      node: [],
      node_token: [],
      routes: [],
      usage_adjustment: [],
    },
  ],
  [
    'member.set is kept without its organisation',
    [],
    member,
    { member: [{ organisation: 'acme', person: 'ana', role: 'owner' }] },
  ],
  [
    'member.set changes the role',
    [member],
    known('member.set', { organisation: 'acme', person: 'ana', role: 'viewer' }),
    { member: [{ organisation: 'acme', person: 'ana', role: 'viewer' }] },
  ],
  [
    'Authentication 5: member.removed leaves the keys that the person created',
    [organisation, member, key],
    known('member.removed', { organisation: 'acme', person: 'ana' }),
    { member: [] },
  ],
  ['key.created is kept without its organisation', [], key, { api_key: [keyRow()] }],
  [
    'key.created keeps its expiry',
    [],
    known('key.created', { ...key.data, expires: '30d', expiresAt: '2026-01-31T00:00:00Z' } as never),
    { api_key: [keyRow({ expires: '30d', expires_at: Date.UTC(2026, 0, 31) })] },
  ],
  [
    'key.revoked marks the key',
    [key],
    known('key.revoked', { id: 'key-1' }),
    { api_key: [keyRow({ created_at: givenMs, revoked_at: whenMs, revoked_by: 'operator' })] },
  ],
  [
    'a revocation may precede its key',
    [],
    known('key.revoked', { id: 'key-1' }),
    {
      api_key: [
        keyRow({
          hash: null,
          organisation: null,
          name: null,
          expires: null,
          created_at: null,
          created_by: null,
          revoked_at: whenMs,
          revoked_by: 'operator',
        }),
      ],
    },
  ],
  [
    'a key whose revocation came first is revoked from the start',
    [known('key.revoked', { id: 'key-1' })],
    key,
    { api_key: [keyRow({ revoked_at: givenMs, revoked_by: 'operator' })] },
  ],
  [
    'key.forgotten removes a revoked key',
    [key, known('key.revoked', { id: 'key-1' })],
    forgotten,
    { api_key: [] },
  ],
  [
    'key.forgotten removes an expired key',
    [known('key.created', { ...key.data, expires: '30d', expiresAt: '2026-01-01T00:00:00Z' } as never)],
    forgotten,
    { api_key: [] },
  ],
  [
    'usage.adjusted starts from nothing',
    [],
    adjusted(-5),
    { usage_adjustment: [{ organisation: 'acme', period: '2026-01-01', tokens: -5 }] },
  ],
  [
    'usage.adjusted adds up',
    [adjusted(7)],
    adjusted(-9),
    { usage_adjustment: [{ organisation: 'acme', period: '2026-01-01', tokens: -2 }] },
  ],
  [
    'usage.adjusted stays within exact integers',
    [adjusted(Number.MAX_SAFE_INTEGER)],
    adjusted(Number.MAX_SAFE_INTEGER),
    {},
  ],
];

const capacityCases: Case[] = [
  [
    'stack.created is kept without its organisation',
    [],
    stack,
    { stack: [{ ...stackRow, created_at: whenMs }] },
  ],
  [
    'What the service does 4: stack.surface_set switches the surface',
    [stack],
    known('stack.surface_set', { id: stackId, surface: 'anthropic' }),
    { stack: [{ ...stackRow, surface: 'anthropic' }] },
  ],
  [
    'stack.removed removes installs, nodes, tokens and routes',
    [
      stack,
      known('stack.model_installed', { stack: stackId, model: 'echo' }),
      registered({ kind: 'stack', id: stackId }),
      joined,
      health,
      token,
    ],
    known('stack.removed', { id: stackId }),
    { stack: [], stack_model: [], node: [], node_token: [], routes: [] },
  ],
  [
    'a model installed on a stack changes only the installs, because routes belong to nodes',
    [registered({ kind: 'stack', id: stackId }), joined, health],
    known('stack.model_installed', { stack: stackId, model: 'echo' }),
    { stack_model: [{ stack: stackId, model: 'echo' }] },
  ],
  [
    'a second install changes nothing',
    [stack, known('stack.model_installed', { stack: stackId, model: 'echo' })],
    known('stack.model_installed', { stack: stackId, model: 'echo' }),
    {},
  ],
  [
    'a model uninstalled from a stack leaves the others installed',
    [
      registered({ kind: 'stack', id: stackId }),
      joined,
      health,
      known('stack.model_installed', { stack: stackId, model: 'echo' }),
      known('stack.model_installed', { stack: stackId, model: 'large' }),
    ],
    known('stack.model_uninstalled', { stack: stackId, model: 'echo' }),
    { stack_model: [{ stack: stackId, model: 'large' }] },
  ],
  [
    'uninstalling a model that is not installed changes nothing',
    upNode,
    known('stack.model_uninstalled', { stack: stackId, model: 'echo' }),
    {},
  ],
  [
    'a model installed on the pool changes only the installs',
    upNode,
    installed,
    { pool_model: [{ model: 'echo' }] },
  ],
  [
    'a model uninstalled from the pool changes only the installs',
    [...upNode, installed],
    known('pool.model_uninstalled', { model: 'echo' }),
    { pool_model: [] },
  ],
  ['a node begins down and unclaimed', [], node, { node: [nodeRow()] }],
  [
    'a node keeps its credential name, model names and kind of monitoring',
    [],
    known('node.registered', {
      id: 'node-1',
      place: { kind: 'organisation', id: 'acme' },
      url: 'https://node.test',
      dialect: 'ollama',
      credential: 'MAIN',
      models: { large: 'engine-large' },
      agent: false,
    }),
    {
      node: [
        nodeRow({
          place: 'organisation:acme',
          url: 'https://node.test',
          dialect: 'ollama',
          credential: 'MAIN',
          models: '{"large":"engine-large"}',
          agent: 0,
        }),
      ],
    },
  ],
  [
    'a node registered again is down until found up, and keeps its drain and its generation',
    [...upNode, installed, known('node.drained', { id: 'node-1' })],
    registered({ kind: 'organisation', id: 'acme' }),
    { node: [nodeRow({ place: 'organisation:acme', drained: 1, generation: 1 })] },
  ],
  [
    'a node registered again serves nothing until found up',
    [...upNode, installed],
    node,
    { node: [nodeRow({ generation: 1 })], routes: [] },
  ],
  [
    'a drained node serves nothing',
    [...upNode, installed],
    known('node.drained', { id: 'node-1' }),
    { node: [upRow({ drained: 1 })], routes: [] },
  ],
  [
    'an undrained node serves again',
    [...upNode, installed, known('node.drained', { id: 'node-1' })],
    known('node.undrained', { id: 'node-1' }),
    { node: [upRow()], routes: bothRoutes },
  ],
  [
    'node.removed removes its tokens and routes',
    [...upNode, installed, token],
    known('node.removed', { id: 'node-1' }),
    { node: [], node_token: [], routes: [] },
  ],
  [
    'a token is stored as its hash, even without its node',
    [],
    token,
    { node_token: [{ ...tokenRow, created_at: whenMs }] },
  ],
  [
    'node.token_revoked marks the token',
    [token],
    known('node.token_revoked', { id: 'token-1' }),
    { node_token: [{ ...tokenRow, revoked_at: whenMs }] },
  ],
  [
    'node.joined claims a node for its owner',
    [node],
    joined,
    { node: [nodeRow({ owner: 'control-1', generation: 1 })] },
  ],
  [
    'a later claim takes over the node without an interruption',
    [...upNode, installed],
    known('node.joined', { id: 'node-1', owner: 'control-2', generation: 2 }),
    { node: [upRow({ owner: 'control-2', generation: 2 })] },
  ],
  [
    'a node found up can serve what it has loaded',
    [node, joined],
    health,
    { node: [upRow({ changed_at: whenMs })], routes: bothRoutes },
  ],
  [
    "an organisation's own node can serve what it has loaded",
    [registered({ kind: 'organisation', id: 'acme' }), joined],
    health,
    {
      node: [upRow({ place: 'organisation:acme', changed_at: whenMs })],
      routes: [
        routeRow({ place: 'organisation:acme' }),
        routeRow({ place: 'organisation:acme', model: 'large', served: 'large' }),
      ],
    },
  ],
  [
    'a node found down serves nothing',
    [...upNode, installed],
    known('node.health_changed', { ...health.data, up: false, reason: 'lost' } as never),
    { node: [upRow({ up: 0, reason: 'lost', changed_at: whenMs })], routes: [] },
  ],
  [
    'a node that has unloaded a model no longer serves it',
    [...upNode, installed],
    known('node.health_changed', { ...health.data, models: ['large'] } as never),
    {
      node: [upRow({ loaded: '["large"]', changed_at: whenMs })],
      routes: [routeRow({ model: 'large', served: 'large' })],
    },
  ],
  [
    'a declared name takes precedence over the engine’s own, if the engine has loaded it',
    [
      known('node.registered', {
        id: 'node-1',
        place: { kind: 'organisation', id: 'acme' },
        url: 'http://127.0.0.1:9001',
        dialect: 'vllm',
        agent: true,
        models: { large: 'engine large', echo: 'gone' },
      }),
      joined,
    ],
    known('node.health_changed', { ...health.data, models: ['engine large', 'echo'] } as never),
    {
      node: [
        upRow({
          place: 'organisation:acme',
          models: '{"large":"engine large","echo":"gone"}',
          loaded: '["echo","engine large"]',
          changed_at: whenMs,
        }),
      ],
      routes: [routeRow({ place: 'organisation:acme', model: 'large', served: 'engine large' })],
    },
  ],
  [
    'a route has the context window that the engine reports under its own name',
    [node, joined, installed],
    known('node.health_changed', { ...health.data, windows: { echo: 4096, constructor: 1 } } as never),
    {
      node: [upRow({ windows: '{"echo":4096,"constructor":1}', changed_at: whenMs })],
      routes: [routeRow({ window_tokens: 4096 }), routeRow({ model: 'large', served: 'large' })],
    },
  ],
  [
    'a route accepts images if the engine reports that for the model under its own name',
    [
      known('node.registered', { ...node.data, models: { large: 'echo', echo: 'large' } } as never),
      joined,
      installed,
    ],
    known('node.health_changed', { ...health.data, imageModels: ['other', 'large', 'large'] } as never),
    {
      node: [
        upRow({
          models: '{"large":"echo","echo":"large"}',
          image_models: '["large","other"]',
          changed_at: whenMs,
        }),
      ],
      routes: [routeRow({ served: 'large', takes_images: 1 }), routeRow({ model: 'large', served: 'echo' })],
    },
  ],
  [
    'a report without image models removes images from the routes',
    [
      node,
      joined,
      installed,
      known('node.health_changed', { ...health.data, imageModels: ['echo'] } as never),
    ],
    health,
    { node: [upRow({ changed_at: whenMs })], routes: bothRoutes },
  ],
  [
    'a route reranks as long as the engine shows that for the model under its own name',
    [node, joined, installed],
    known('node.health_changed', { ...health.data, rerankModels: ['large', 'other'] } as never),
    {
      node: [upRow({ rerank_models: '["large","other"]', changed_at: whenMs })],
      routes: [routeRow({}), routeRow({ model: 'large', served: 'large', reranks: 1 })],
    },
  ],
];

const staged = known('change.staged', {
  change: '7',
  events: [{ type: 'pool.model_uninstalled', v: 1, critical: true, data: { model: 'echo' } }],
  waves: [{ gateways: ['gw-1'] }, { share: 1 }],
  holdSeconds: 300,
  watch: { refusals: 1, errors: 1, least: 50 },
});
const advanced = known('change.advanced', { change: '7', wave: 1 });
const releaseRow = {
  id: '7',
  waves: '[{"gateways":["gw-1"]},{"share":1}]',
  wave: 0,
  hold_seconds: 300,
  watch: '{"refusals":1,"errors":1,"least":50}',
  by: 'operator',
};
const changeRow = (row: TableRow = {}): TableRow => ({
  slot: 'open',
  ...releaseRow,
  events: '[{"type":"pool.model_uninstalled","v":1,"critical":true,"data":{"model":"echo"}}]',
  wave_at: whenMs,
  advance_unseen: 0,
  at: whenMs,
  passed_over: 0,
  passed_over_reason: null,
  ...row,
});
const closedRow = (row: TableRow): TableRow => ({
  ...releaseRow,
  at: givenMs,
  closed_at: whenMs,
  closed_by: 'operator',
  reason: null,
  ...row,
});
const gone = { tbl: 'pool_model', key: 'echo', row: null };
const changeCases: readonly Case[] = [
  [
    'a staged change leaves its subject unchanged, and keeps the rows of its events apart',
    [installed],
    staged,
    { change: [changeRow()], overlay: [gone] },
  ],
  [
    'an event whose model is not in the catalogue is counted, and writes nothing',
    [],
    known('change.staged', {
      ...staged.data,
      events: [{ type: 'pool.model_installed', v: 1, critical: true, data: { model: 'echo' } }],
    } as never),
    {
      change: [
        changeRow({
          events: '[{"type":"pool.model_installed","v":1,"critical":true,"data":{"model":"echo"}}]',
          passed_over: 1,
          passed_over_reason: 'pool.model_installed: no model echo',
        }),
      ],
    },
  ],
  [
    'a change follows the rows beneath it',
    [installed, staged],
    known('pool.model_uninstalled', { model: 'echo' }),
    { pool_model: [], overlay: [] },
  ],
  [
    'a change continues with a later wave',
    [staged],
    advanced,
    { change: [changeRow({ at: givenMs, wave: 1 })] },
  ],
  [
    'a withdrawn change leaves none of its events’ rows',
    [installed, staged, advanced],
    known('change.withdrawn', { change: '7', reason: 'refusals' }),
    {
      change: [],
      overlay: [],
      closed_change: [closedRow({ state: 'withdrawn', wave: 1, reason: 'refusals' })],
    },
  ],
  [
    'a completed change leaves its rows to the events that follow it',
    [installed, staged],
    known('change.completed', { change: '7' }),
    { change: [], overlay: [], closed_change: [closedRow({ state: 'completed' })] },
  ],
];

const secondChange = known('change.staged', { ...staged.data, change: '8' } as never);
/** Events about an object that does not exist, or no longer exists. */
const ofNothing: readonly (readonly [when: KnownEvent, noun: string, given?: readonly KnownEvent[]])[] = [
  [known('tier.removed', { id: 'Team' }), 'tier'],
  [known('model.removed', { id: 'echo' }), 'model'],
  [known('organisation.suspended', { id: 'acme', suspended: true }), 'organisation'],
  [known('organisation.removed', { id: 'acme' }), 'organisation', [key, member, stack]],
  [known('member.removed', { organisation: 'acme', person: 'ana' }), 'member'],
  [forgotten, 'key'],
  [known('stack.surface_set', { id: stackId, surface: 'anthropic' }), 'stack'],
  [known('stack.removed', { id: stackId }), 'stack'],
  [known('node.drained', { id: 'node-1' }), 'node'],
  [known('node.undrained', { id: 'node-1' }), 'node'],
  [known('node.removed', { id: 'node-1' }), 'node', [token]],
  [known('node.token_revoked', { id: 'token-1' }), 'token'],
  [joined, 'node'],
  [health, 'node'],
];

const otherPassedOver: readonly (readonly [
  name: string,
  given: readonly KnownEvent[],
  when: KnownEvent,
  reason: string,
])[] = [
  [
    'tier.set may not use the visitors’ id',
    [],
    known('tier.set', { id: 'anonymous', rank: 1, models: '*' }),
    'the id is reserved',
  ],
  [
    'tier.removed cannot remove the visitors',
    [known('anonymous.set', { freeTurns: 1, models: [] })],
    known('tier.removed', { id: 'anonymous' }),
    'no such tier',
  ],
  [
    'anonymous.removed when visitors are not served',
    [],
    known('anonymous.removed', {}),
    'visitors are not served',
  ],
  [
    'a second key with the same id',
    [key],
    known('key.created', { ...key.data, hash: sha256('key-2') } as never),
    'the key is there already',
  ],
  [
    'a second key with the same hash',
    [key],
    known('key.created', { ...key.data, id: 'key-2', organisation: 'other' } as never),
    'the key is there already',
  ],
  [
    'a second revocation',
    [key, known('key.revoked', { id: 'key-1' })],
    known('key.revoked', { id: 'key-1' }),
    'revoked already',
  ],
  [
    'key.forgotten for a key still in force at the commit’s time',
    [known('key.created', { ...key.data, expires: '1y', expiresAt: '2030-01-01T00:00:00Z' } as never)],
    forgotten,
    'the key has not ended',
  ],
  ['key.forgotten for a key without an end', [key], forgotten, 'the key has not ended'],
  ['a second change while one is open', [staged], secondChange, 'another change is open'],
  [
    'a change with an event that acts at once',
    [],
    known('change.staged', {
      ...staged.data,
      events: [{ type: 'key.revoked', v: 1, critical: true, data: { id: 'key-1' } }],
    } as never),
    'an event of the change cannot be staged',
  ],
  [
    'a change does not go back to a wave that it has passed',
    [staged, advanced],
    advanced,
    'it is no later wave',
  ],
  [
    'a second stack with the same id',
    [stack],
    known('stack.created', { id: stackId, organisation: 'other', surface: 'anthropic' }),
    'the stack is there already',
  ],
  [
    'a second token with the same id',
    [token],
    known('node.token_created', { id: 'token-1', node: 'node-2', hash: sha256('other') }),
    'the token is there already',
  ],
  [
    'a second revocation of a token',
    [token, known('node.token_revoked', { id: 'token-1' })],
    known('node.token_revoked', { id: 'token-1' }),
    'no such token',
  ],
  [
    'of two claims on one generation, the first counts',
    [node, joined],
    known('node.joined', { id: 'node-1', owner: 'control-2', generation: 1 }),
    'another replica was first',
  ],
  [
    'a claim may not skip a generation',
    [node, joined],
    known('node.joined', { id: 'node-1', owner: 'control-2', generation: 3 }),
    'another replica was first',
  ],
  [
    'a former owner’s report',
    [...upNode, installed, known('node.joined', { id: 'node-1', owner: 'control-2', generation: 2 })],
    known('node.health_changed', { ...health.data, up: false } as never),
    'not the owner',
  ],
  [
    'the owner’s report about an earlier generation',
    [node, joined, known('node.joined', { id: 'node-1', owner: 'control-1', generation: 2 })],
    health,
    'not the owner',
  ],
  ...[
    advanced,
    known('change.withdrawn', { change: '7', reason: 'x' }),
    known('change.completed', { change: '7' }),
  ].map(
    (when) =>
      [`${when.type} of a change that is not open`, [secondChange], when, 'no such change is open'] as const,
  ),
];

function rowsOf(snapshot: Snapshot): Record<TableName, TableRow[]> {
  const all = tableNames.map((name) => {
    const { columns, key } = tableSpecs[name];
    const order = key.join(', ');
    return [
      name,
      snapshot.db.prepare(`SELECT ${Object.keys(columns).join()} FROM ${name} ORDER BY ${order}`).all(),
    ];
  });
  return Object.fromEntries(all) as Record<TableName, TableRow[]>;
}

const cases = [...tenantCases, ...capacityCases, ...changeCases];
const passedOver = [
  ...ofNothing.map(
    ([when, noun, given = []]) => [`${when.type} of no ${noun}`, given, when, `no such ${noun}`] as const,
  ),
  ...otherPassedOver,
];

/** Folds the events. Returns the rows before and after `when`, and why `when` was skipped. */
function folded(given: readonly KnownEvent[], when: KnownEvent) {
  const writer = new ChainWriter();
  const snapshot = memorySnapshot();
  snapshot.apply([writer.open(), writer.add(given)]);
  const before = rowsOf(snapshot);
  snapshot.apply([writer.add([when])]);
  expect(verify(snapshot.db).differing).toEqual([]);
  const anomalies = snapshot.db.prepare('SELECT type, reason FROM anomaly WHERE seq = 3').all();
  return { before, after: rowsOf(snapshot), anomalies };
}

test.each(cases)('%s', (_name, given, when, leaves) => {
  const { before, after, anomalies } = folded(given, when);
  expect(after).toEqual({ ...before, ...leaves });
  expect(anomalies).toEqual([]);
  // The expected rows must not exist before the event, because the test would then prove nothing.
  for (const name of Object.keys(leaves) as TableName[]) expect(before[name]).not.toEqual(leaves[name]);
});

test.each(passedOver)('passed over: %s', (_name, given, when, reason) => {
  const { before, after, anomalies } = folded(given, when);
  expect(after).toEqual(before);
  expect(anomalies).toEqual([{ type: when.type, reason }]);
});

test('every event type has a case', () => {
  const tried = new Set(cases.map(([, , when]) => when.type));
  expect(eventTypeNames.filter((type) => !tried.has(type))).toEqual([]);
});

test('some case changes every table', () => {
  const changed = new Set(cases.flatMap(([, , , leaves]) => Object.keys(leaves)));
  expect(tableNames.filter((name) => !changed.has(name))).toEqual([]);
});
