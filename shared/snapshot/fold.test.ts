/**
 * What each event does to the rows: given these events, when this one comes, then exactly these rows differ.
 * Every type has a case (checked below), and so has every reason for which the fold passes an event over.
 */
import { expect, test } from 'vitest';
import { eventTypeNames } from '../../schemas/event-definitions.ts';
import type { KnownEvent } from '../../schemas/events.ts';
import { ChainWriter, firstMomentMs, known, sha256 } from '../../test/support/commits.ts';
import { memorySnapshot } from './open-snapshot.ts';
import type { Snapshot } from './snapshot.ts';
import { type TableName, type TableRow, tableNames, tableSpecs } from './tables.ts';
import { verify } from './verify.ts';

interface Case {
  readonly name: string;
  readonly given?: readonly KnownEvent[];
  readonly when: KnownEvent;
  /** All rows of each table that changed; tables left out must not have changed. */
  readonly leaves: Partial<Record<TableName, readonly TableRow[]>>;
  /** Why the event was passed over. */
  readonly passedOver?: string;
}

/** The commit of `when` is the third: genesis, given, when. */
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
/** A node that its owner found up in the commit before. */
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

/** Of a node that has both models loaded. */
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
  { name: 'a second log.created changes nothing', when: known('log.created', { log: 'x' }), leaves: {} },
  {
    name: 'log.signers_set changes no row',
    when: known('log.signers_set', { signers: ['x'] }),
    leaves: {},
  },
  {
    name: 'session.ended changes no row',
    when: known('session.ended', { kind: 'person', subject: 'ana', until: '2026-01-01T00:00:00.000Z' }),
    leaves: {},
  },
  { name: 'no_op changes nothing', when: known('no_op', {}), leaves: {} },
  {
    name: 'a checkpoint changes no row',
    when: known('checkpoint', { foldVersion: 0, digests: {} }),
    leaves: {},
  },
  {
    name: 'tier.set adds a tier; limits left out are NULL',
    when: known('tier.set', {
      id: 'Team',
      rank: 1,
      requestsPerMinute: 60,
      contextTokens: 0,
      models: ['b', 'a', 'b'],
    }),
    leaves: {
      tier: [tierRow({ requests_per_minute: 60, context_tokens: 0 })],
      tier_model: [
        { tier: 'Team', model: 'a' },
        { tier: 'Team', model: 'b' },
      ],
    },
  },
  {
    name: 'tier.set replaces limits and models of the tier',
    given: [tier],
    when: known('tier.set', { id: 'Team', rank: 7, concurrency: 4, monthlyTokens: 9, models: '*' }),
    leaves: {
      tier: [tierRow({ rank: 7, concurrency: 4, monthly_tokens: 9 })],
      tier_model: [{ tier: 'Team', model: '*' }],
    },
  },
  {
    name: 'tier.set may not take the id of the visitors',
    when: known('tier.set', { id: 'anonymous', rank: 1, models: '*' }),
    leaves: {},
    passedOver: 'the id is reserved',
  },
  {
    name: 'tier.removed takes its models along and leaves its organisations',
    given: [tier, organisation],
    when: known('tier.removed', { id: 'Team' }),
    leaves: { tier: [], tier_model: [] },
  },
  {
    name: 'tier.removed of no tier is passed over',
    when: known('tier.removed', { id: 'Team' }),
    leaves: {},
    passedOver: 'no such tier',
  },
  {
    name: 'tier.removed cannot remove the visitors',
    given: [known('anonymous.set', { freeTurns: 1, models: [] })],
    when: known('tier.removed', { id: 'anonymous' }),
    leaves: {},
    passedOver: 'no such tier',
  },
  {
    name: 'anonymous.set is stored in the tier table without a rank',
    when: known('anonymous.set', { freeTurns: 10, requestsPerMinute: 5, models: ['echo'] }),
    leaves: {
      tier: [tierRow({ id: 'anonymous', rank: null, requests_per_minute: 5, free_turns: 10 })],
      tier_model: [{ tier: 'anonymous', model: 'echo' }],
    },
  },
  {
    name: 'bounds.set replaces all bounds, and what it leaves out is the default',
    given: [known('bounds.set', { keysPerOrganisation: 7 })],
    when: known('bounds.set', { activeKeysPerOrganisation: 5, commandsPerPersonPerMinute: 9 }),
    leaves: {
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
  },
  {
    name: 'anonymous.set has limits of networks and of all visitors together',
    when: known('anonymous.set', {
      freeTurns: 1,
      networkFactor: 3,
      models: [],
      total: { requestsPerMinute: 60, concurrency: 4, tokensPerDay: 1000 },
    }),
    leaves: {
      tier: [
        tierRow({
          ...{ id: 'anonymous', rank: null, free_turns: 1, network_factor: 3 },
          ...{ total_requests_per_minute: 60, total_concurrency: 4, total_tokens_per_day: 1000 },
        }),
      ],
    },
  },
  {
    name: 'model.set adds a model',
    when: model,
    leaves: {
      model: [{ id: 'echo', family: 'e', added: Date.UTC(2026, 0, 1), weight: 2, affinity: 'prefix' }],
    },
  },
  {
    name: 'model.set replaces a model',
    given: [model],
    when: known('model.set', {
      id: 'echo',
      family: 'f',
      added: '2026-01-02T00:00:00.5Z',
      weight: 1,
      affinity: 'none',
    }),
    leaves: {
      model: [{ id: 'echo', family: 'f', added: Date.UTC(2026, 0, 2) + 500, weight: 1, affinity: 'none' }],
    },
  },
  {
    name: 'model.removed leaves tiers and installs that name it',
    given: [model, tier, installed],
    when: known('model.removed', { id: 'echo' }),
    leaves: { model: [] },
  },
  {
    name: 'model.removed of no model is passed over',
    when: known('model.removed', { id: 'echo' }),
    leaves: {},
    passedOver: 'no such model',
  },
  {
    name: 'organisation.set adds an organisation',
    when: organisation,
    leaves: { organisation: [organisationRow] },
  },
  {
    name: 'organisation.set keeps a suspension',
    given: [organisation, known('organisation.suspended', { id: 'acme', suspended: true })],
    when: known('organisation.set', { id: 'acme', name: 'Acme 2', tier: null, anchor: '2026-02-01' }),
    leaves: {
      organisation: [{ id: 'acme', name: 'Acme 2', tier: null, anchor: '2026-02-01', suspended: 1 }],
    },
  },
  {
    name: 'organisation.suspended suspends',
    given: [organisation],
    when: known('organisation.suspended', { id: 'acme', suspended: true }),
    leaves: { organisation: [{ ...organisationRow, suspended: 1 }] },
  },
  {
    name: 'organisation.suspended lifts a suspension',
    given: [organisation, known('organisation.suspended', { id: 'acme', suspended: true })],
    when: known('organisation.suspended', { id: 'acme', suspended: false }),
    leaves: { organisation: [organisationRow] },
  },
  {
    name: 'organisation.suspended of no organisation is passed over',
    when: known('organisation.suspended', { id: 'acme', suspended: true }),
    leaves: {},
    passedOver: 'no such organisation',
  },
  {
    name: 'organisation.removed takes members, keys, stacks, own nodes, their tokens, routes and adjustments along',
    given: [
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
    when: known('organisation.removed', { id: 'acme' }),
    leaves: {
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
  },
  {
    name: 'organisation.removed of no organisation is passed over, whatever refers to it',
    given: [key, member, stack],
    when: known('organisation.removed', { id: 'acme' }),
    leaves: {},
    passedOver: 'no such organisation',
  },
  {
    name: 'member.set is kept without its organisation',
    when: member,
    leaves: { member: [{ organisation: 'acme', person: 'ana', role: 'owner' }] },
  },
  {
    name: 'member.set changes the role',
    given: [member],
    when: known('member.set', { organisation: 'acme', person: 'ana', role: 'viewer' }),
    leaves: { member: [{ organisation: 'acme', person: 'ana', role: 'viewer' }] },
  },
  {
    name: 'Authentication 5: member.removed leaves the keys that the person made',
    given: [organisation, member, key],
    when: known('member.removed', { organisation: 'acme', person: 'ana' }),
    leaves: { member: [] },
  },
  {
    name: 'member.removed of no member is passed over',
    when: known('member.removed', { organisation: 'acme', person: 'ana' }),
    leaves: {},
    passedOver: 'no such member',
  },
  { name: 'key.created is kept without its organisation', when: key, leaves: { api_key: [keyRow()] } },
  {
    name: 'key.created keeps its expiry',
    when: known('key.created', { ...key.data, expires: '30d', expiresAt: '2026-01-31T00:00:00Z' } as never),
    leaves: { api_key: [keyRow({ expires: '30d', expires_at: Date.UTC(2026, 0, 31) })] },
  },
  {
    name: 'a second key under one id is passed over',
    given: [key],
    when: known('key.created', { ...key.data, hash: sha256('key-2') } as never),
    leaves: {},
    passedOver: 'the key is there already',
  },
  {
    name: 'a second key with one hash is passed over',
    given: [key],
    when: known('key.created', { ...key.data, id: 'key-2', organisation: 'other' } as never),
    leaves: {},
    passedOver: 'the key is there already',
  },
  {
    name: 'key.revoked marks the key',
    given: [key],
    when: known('key.revoked', { id: 'key-1' }),
    leaves: { api_key: [keyRow({ created_at: givenMs, revoked_at: whenMs, revoked_by: 'operator' })] },
  },
  {
    name: 'a second revocation is passed over',
    given: [key, known('key.revoked', { id: 'key-1' })],
    when: known('key.revoked', { id: 'key-1' }),
    leaves: {},
    passedOver: 'revoked already',
  },
  {
    name: 'a revocation may precede its key',
    when: known('key.revoked', { id: 'key-1' }),
    leaves: {
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
  },
  {
    name: 'a key whose revocation came first is revoked from the start',
    given: [known('key.revoked', { id: 'key-1' })],
    when: key,
    leaves: { api_key: [keyRow({ revoked_at: givenMs, revoked_by: 'operator' })] },
  },
  {
    name: 'key.forgotten removes a revoked key',
    given: [key, known('key.revoked', { id: 'key-1' })],
    when: forgotten,
    leaves: { api_key: [] },
  },
  {
    name: 'key.forgotten removes an expired key',
    given: [
      known('key.created', { ...key.data, expires: '30d', expiresAt: '2026-01-01T00:00:00Z' } as never),
    ],
    when: forgotten,
    leaves: { api_key: [] },
  },
  {
    name: 'key.forgotten of a key that is in force at the time of its commit is passed over',
    given: [known('key.created', { ...key.data, expires: '1y', expiresAt: '2030-01-01T00:00:00Z' } as never)],
    when: forgotten,
    leaves: {},
    passedOver: 'the key has not ended',
  },
  {
    name: 'key.forgotten of a key without an end is passed over',
    given: [key],
    when: forgotten,
    leaves: {},
    passedOver: 'the key has not ended',
  },
  {
    name: 'key.forgotten of no key is passed over',
    when: forgotten,
    leaves: {},
    passedOver: 'no such key',
  },
  {
    name: 'usage.adjusted begins at nothing',
    when: adjusted(-5),
    leaves: { usage_adjustment: [{ organisation: 'acme', period: '2026-01-01', tokens: -5 }] },
  },
  {
    name: 'usage.adjusted adds up',
    given: [adjusted(7)],
    when: adjusted(-9),
    leaves: { usage_adjustment: [{ organisation: 'acme', period: '2026-01-01', tokens: -2 }] },
  },
  {
    name: 'usage.adjusted stays within the integers that are exact',
    given: [adjusted(Number.MAX_SAFE_INTEGER)],
    when: adjusted(Number.MAX_SAFE_INTEGER),
    leaves: {},
  },
];

const capacityCases: Case[] = [
  {
    name: 'stack.created is kept without its organisation',
    when: stack,
    leaves: { stack: [{ ...stackRow, created_at: whenMs }] },
  },
  {
    name: 'a second stack under one id is passed over',
    given: [stack],
    when: known('stack.created', { id: stackId, organisation: 'other', surface: 'anthropic' }),
    leaves: {},
    passedOver: 'the stack is there already',
  },
  {
    name: 'What the service does 4: stack.surface_set switches the surface',
    given: [stack],
    when: known('stack.surface_set', { id: stackId, surface: 'anthropic' }),
    leaves: { stack: [{ ...stackRow, surface: 'anthropic' }] },
  },
  {
    name: 'stack.surface_set of no stack is passed over',
    when: known('stack.surface_set', { id: stackId, surface: 'anthropic' }),
    leaves: {},
    passedOver: 'no such stack',
  },
  {
    name: 'stack.removed takes installs, nodes, tokens and routes along',
    given: [
      stack,
      known('stack.model_installed', { stack: stackId, model: 'echo' }),
      registered({ kind: 'stack', id: stackId }),
      joined,
      health,
      token,
    ],
    when: known('stack.removed', { id: stackId }),
    leaves: { stack: [], stack_model: [], node: [], node_token: [], routes: [] },
  },
  {
    name: 'stack.removed of no stack is passed over',
    when: known('stack.removed', { id: stackId }),
    leaves: {},
    passedOver: 'no such stack',
  },
  {
    name: 'a model installed on a stack changes the installs alone: routes are of nodes',
    given: [registered({ kind: 'stack', id: stackId }), joined, health],
    when: known('stack.model_installed', { stack: stackId, model: 'echo' }),
    leaves: { stack_model: [{ stack: stackId, model: 'echo' }] },
  },
  {
    name: 'a second install changes nothing',
    given: [stack, known('stack.model_installed', { stack: stackId, model: 'echo' })],
    when: known('stack.model_installed', { stack: stackId, model: 'echo' }),
    leaves: {},
  },
  {
    name: 'a model uninstalled from a stack leaves the others installed',
    given: [
      registered({ kind: 'stack', id: stackId }),
      joined,
      health,
      known('stack.model_installed', { stack: stackId, model: 'echo' }),
      known('stack.model_installed', { stack: stackId, model: 'large' }),
    ],
    when: known('stack.model_uninstalled', { stack: stackId, model: 'echo' }),
    leaves: { stack_model: [{ stack: stackId, model: 'large' }] },
  },
  {
    name: 'an uninstall of what is not installed changes nothing',
    given: upNode,
    when: known('stack.model_uninstalled', { stack: stackId, model: 'echo' }),
    leaves: {},
  },
  {
    name: 'a model installed on the pool changes the installs alone',
    given: upNode,
    when: installed,
    leaves: { pool_model: [{ model: 'echo' }] },
  },
  {
    name: 'a model uninstalled from the pool changes the installs alone',
    given: [...upNode, installed],
    when: known('pool.model_uninstalled', { model: 'echo' }),
    leaves: { pool_model: [] },
  },
  {
    name: 'a node begins down and unclaimed',
    when: node,
    leaves: { node: [nodeRow()] },
  },
  {
    name: 'a node keeps its credential name, its names of models and how it is watched',
    when: known('node.registered', {
      id: 'node-1',
      place: { kind: 'organisation', id: 'acme' },
      url: 'https://node.test',
      dialect: 'ollama',
      credential: 'MAIN',
      models: { large: 'engine-large' },
      agent: false,
    }),
    leaves: {
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
  },
  {
    name: 'a node registered again is down until found up, keeps its drain and its generation',
    given: [...upNode, installed, known('node.drained', { id: 'node-1' })],
    when: registered({ kind: 'organisation', id: 'acme' }),
    leaves: { node: [nodeRow({ place: 'organisation:acme', drained: 1, generation: 1 })] },
  },
  {
    name: 'a node registered again serves nothing until found up',
    given: [...upNode, installed],
    when: node,
    leaves: { node: [nodeRow({ generation: 1 })], routes: [] },
  },
  {
    name: 'a drained node serves nothing',
    given: [...upNode, installed],
    when: known('node.drained', { id: 'node-1' }),
    leaves: { node: [upRow({ drained: 1 })], routes: [] },
  },
  {
    name: 'node.drained of no node is passed over',
    when: known('node.drained', { id: 'node-1' }),
    leaves: {},
    passedOver: 'no such node',
  },
  {
    name: 'an undrained node serves again',
    given: [...upNode, installed, known('node.drained', { id: 'node-1' })],
    when: known('node.undrained', { id: 'node-1' }),
    leaves: { node: [upRow()], routes: bothRoutes },
  },
  {
    name: 'node.undrained of no node is passed over',
    when: known('node.undrained', { id: 'node-1' }),
    leaves: {},
    passedOver: 'no such node',
  },
  {
    name: 'node.removed takes its tokens and routes along',
    given: [...upNode, installed, token],
    when: known('node.removed', { id: 'node-1' }),
    leaves: { node: [], node_token: [], routes: [] },
  },
  {
    name: 'node.removed of no node is passed over',
    given: [token],
    when: known('node.removed', { id: 'node-1' }),
    leaves: {},
    passedOver: 'no such node',
  },
  {
    name: 'a token is kept as its hash, without its node too',
    when: token,
    leaves: { node_token: [{ ...tokenRow, created_at: whenMs }] },
  },
  {
    name: 'a second token under one id is passed over',
    given: [token],
    when: known('node.token_created', { id: 'token-1', node: 'node-2', hash: sha256('other') }),
    leaves: {},
    passedOver: 'the token is there already',
  },
  {
    name: 'node.token_revoked marks the token',
    given: [token],
    when: known('node.token_revoked', { id: 'token-1' }),
    leaves: { node_token: [{ ...tokenRow, revoked_at: whenMs }] },
  },
  {
    name: 'node.token_revoked of no token is passed over',
    when: known('node.token_revoked', { id: 'token-1' }),
    leaves: {},
    passedOver: 'no such token',
  },
  {
    name: 'a second revocation of a token is passed over',
    given: [token, known('node.token_revoked', { id: 'token-1' })],
    when: known('node.token_revoked', { id: 'token-1' }),
    leaves: {},
    passedOver: 'no such token',
  },
  {
    name: 'node.joined claims a node for its owner',
    given: [node],
    when: joined,
    leaves: { node: [nodeRow({ owner: 'control-1', generation: 1 })] },
  },
  {
    name: 'a later claim takes the node over without a break of service',
    given: [...upNode, installed],
    when: known('node.joined', { id: 'node-1', owner: 'control-2', generation: 2 }),
    leaves: { node: [upRow({ owner: 'control-2', generation: 2 })] },
  },
  {
    name: 'of two claims of one generation the first counts',
    given: [node, joined],
    when: known('node.joined', { id: 'node-1', owner: 'control-2', generation: 1 }),
    leaves: {},
    passedOver: 'another replica was first',
  },
  {
    name: 'a claim may not skip a generation',
    given: [node, joined],
    when: known('node.joined', { id: 'node-1', owner: 'control-2', generation: 3 }),
    leaves: {},
    passedOver: 'another replica was first',
  },
  {
    name: 'node.joined of no node is passed over',
    when: joined,
    leaves: {},
    passedOver: 'no such node',
  },
  {
    name: 'a node found up can serve what it has loaded',
    given: [node, joined],
    when: health,
    leaves: { node: [upRow({ changed_at: whenMs })], routes: bothRoutes },
  },
  {
    name: "an organisation's own node can serve what it has loaded",
    given: [registered({ kind: 'organisation', id: 'acme' }), joined],
    when: health,
    leaves: {
      node: [upRow({ place: 'organisation:acme', changed_at: whenMs })],
      routes: [
        routeRow({ place: 'organisation:acme' }),
        routeRow({ place: 'organisation:acme', model: 'large', served: 'large' }),
      ],
    },
  },
  {
    name: 'a node found down serves nothing',
    given: [...upNode, installed],
    when: known('node.health_changed', { ...health.data, up: false, reason: 'lost' } as never),
    leaves: { node: [upRow({ up: 0, reason: 'lost', changed_at: whenMs })], routes: [] },
  },
  {
    name: 'a node that unloaded the model serves it no more',
    given: [...upNode, installed],
    when: known('node.health_changed', { ...health.data, models: ['large'] } as never),
    leaves: {
      node: [upRow({ loaded: '["large"]', changed_at: whenMs })],
      routes: [routeRow({ model: 'large', served: 'large' })],
    },
  },
  {
    name: "a declared name goes before the engine's own, and only where the engine has it loaded",
    given: [
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
    when: known('node.health_changed', { ...health.data, models: ['engine large', 'echo'] } as never),
    leaves: {
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
  },
  {
    name: 'a route carries the context window that the engine reports under its own name',
    given: [node, joined, installed],
    when: known('node.health_changed', { ...health.data, windows: { echo: 4096, constructor: 1 } } as never),
    leaves: {
      node: [upRow({ windows: '{"echo":4096,"constructor":1}', changed_at: whenMs })],
      routes: [routeRow({ window_tokens: 4096 }), routeRow({ model: 'large', served: 'large' })],
    },
  },
  {
    name: 'a route takes images where the engine reports that under its own name for the model',
    given: [
      known('node.registered', { ...node.data, models: { large: 'echo', echo: 'large' } } as never),
      joined,
      installed,
    ],
    when: known('node.health_changed', { ...health.data, imageModels: ['other', 'large', 'large'] } as never),
    leaves: {
      node: [
        upRow({
          models: '{"large":"echo","echo":"large"}',
          image_models: '["large","other"]',
          changed_at: whenMs,
        }),
      ],
      routes: [routeRow({ served: 'large', takes_images: 1 }), routeRow({ model: 'large', served: 'echo' })],
    },
  },
  {
    name: 'a report without models that take images takes that from the routes',
    given: [
      node,
      joined,
      installed,
      known('node.health_changed', { ...health.data, imageModels: ['echo'] } as never),
    ],
    when: health,
    leaves: { node: [upRow({ changed_at: whenMs })], routes: bothRoutes },
  },
  {
    name: 'a route reranks where the engine shows that under its own name for the model, until it shows it no more',
    given: [node, joined, installed],
    when: known('node.health_changed', { ...health.data, rerankModels: ['large', 'other'] } as never),
    leaves: {
      node: [upRow({ rerank_models: '["large","other"]', changed_at: whenMs })],
      routes: [routeRow({}), routeRow({ model: 'large', served: 'large', reranks: 1 })],
    },
  },
  {
    name: 'a report of a former owner is passed over',
    given: [...upNode, installed, known('node.joined', { id: 'node-1', owner: 'control-2', generation: 2 })],
    when: known('node.health_changed', { ...health.data, up: false } as never),
    leaves: {},
    passedOver: 'not the owner',
  },
  {
    name: 'a report of the owner about an earlier generation is passed over',
    given: [node, joined, known('node.joined', { id: 'node-1', owner: 'control-1', generation: 2 })],
    when: health,
    leaves: {},
    passedOver: 'not the owner',
  },
  {
    name: 'a report on no node is passed over',
    when: health,
    leaves: {},
    passedOver: 'no such node',
  },
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
  {
    name: 'a staged change leaves what it is about, and keeps the rows that its events would write apart',
    given: [installed],
    when: staged,
    leaves: { change: [changeRow()], overlay: [gone] },
  },
  {
    name: 'a second change is passed over while one is open',
    given: [staged],
    when: known('change.staged', { ...staged.data, change: '8' } as never),
    leaves: {},
    passedOver: 'another change is open',
  },
  {
    name: 'a change with an event that acts at once is passed over',
    when: known('change.staged', {
      ...staged.data,
      events: [{ type: 'key.revoked', v: 1, critical: true, data: { id: 'key-1' } }],
    } as never),
    leaves: {},
    passedOver: 'an event of the change cannot be staged',
  },
  {
    name: 'an event whose model is not in the catalog is counted, and writes nothing',
    when: known('change.staged', {
      ...staged.data,
      events: [{ type: 'pool.model_installed', v: 1, critical: true, data: { model: 'echo' } }],
    } as never),
    leaves: {
      change: [
        changeRow({
          events: '[{"type":"pool.model_installed","v":1,"critical":true,"data":{"model":"echo"}}]',
          passed_over: 1,
          passed_over_reason: 'pool.model_installed: no model echo',
        }),
      ],
    },
  },
  {
    name: 'a change follows the rows beneath it',
    given: [installed, staged],
    when: known('pool.model_uninstalled', { model: 'echo' }),
    leaves: { pool_model: [], overlay: [] },
  },
  {
    name: 'a change continues with a later wave',
    given: [staged],
    when: advanced,
    leaves: { change: [changeRow({ at: givenMs, wave: 1 })] },
  },
  {
    name: 'a change does not go back to a wave that it has passed',
    given: [staged, advanced],
    when: advanced,
    leaves: {},
    passedOver: 'it is no later wave',
  },
  {
    name: 'a withdrawn change leaves no row of its events',
    given: [installed, staged, advanced],
    when: known('change.withdrawn', { change: '7', reason: 'refusals' }),
    leaves: {
      change: [],
      overlay: [],
      closed_change: [closedRow({ state: 'withdrawn', wave: 1, reason: 'refusals' })],
    },
  },
  {
    name: 'a completed change leaves its rows to the events that follow it',
    given: [installed, staged],
    when: known('change.completed', { change: '7' }),
    leaves: { change: [], overlay: [], closed_change: [closedRow({ state: 'completed' })] },
  },
  ...[
    advanced,
    known('change.withdrawn', { change: '7', reason: 'x' }),
    known('change.completed', { change: '7' }),
  ].map((when) => ({
    name: `${when.type} of no open change is passed over`,
    given: [known('change.staged', { ...staged.data, change: '8' } as never)],
    when,
    leaves: {},
    passedOver: 'no such change is open',
  })),
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

test.each(cases)('$name', ({ given = [], when, leaves, passedOver }) => {
  const writer = new ChainWriter();
  const snapshot = memorySnapshot();
  snapshot.apply([writer.open(), writer.add(given)]);
  const before = rowsOf(snapshot);
  snapshot.apply([writer.add([when])]);
  expect(rowsOf(snapshot)).toEqual({ ...before, ...leaves });
  const anomalies = snapshot.db.prepare('SELECT type, reason FROM anomaly WHERE seq = 3').all();
  expect(anomalies).toEqual(passedOver === undefined ? [] : [{ type: when.type, reason: passedOver }]);
  expect(verify(snapshot.db).differing).toEqual([]);
  // A case whose rows are there before would prove nothing.
  for (const name of Object.keys(leaves) as TableName[]) expect(before[name]).not.toEqual(leaves[name]);
});

test('every event type has a case', () => {
  const tried = new Set(cases.map(({ when }) => when.type));
  expect(eventTypeNames.filter((type) => !tried.has(type))).toEqual([]);
});

test('every table is changed by some case', () => {
  const changed = new Set(cases.flatMap(({ leaves }) => Object.keys(leaves)));
  expect(tableNames.filter((name) => !changed.has(name))).toEqual([]);
});
