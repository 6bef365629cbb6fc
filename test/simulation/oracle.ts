/**
 * Determines what the service must answer according to the specification. The oracle folds the commits of the control log
 * into plain maps, and shares no code with the product's fold, look-ups and decisions.
 */
import { createHash } from 'node:crypto';

interface Tier {
  readonly models: '*' | ReadonlySet<string>;
  readonly requestsPerMinute: number;
  readonly concurrency: number;
}

interface Node {
  readonly place: string;
  readonly owner: string | undefined;
  readonly generation: number;
  readonly up: boolean;
  readonly isDrained: boolean;
  readonly loaded: readonly string[];
}

/** The state of the fleet after one commit. */
class State {
  readonly tiers = new Map<string, Tier>();
  readonly models = new Map<string, { readonly weight: number }>();
  readonly organisations = new Map<string, { readonly tier: string | null; readonly isSuspended: boolean }>();
  readonly keys = new Map<
    string,
    { readonly id: string; readonly organisation: string; readonly expiresMs: number }
  >();
  readonly revoked = new Set<string>();
  readonly stacks = new Map<string, { readonly organisation: string }>();
  /** Models installed in the pool or on a stack, as `pool MODEL` or `STACK MODEL`. */
  readonly installed = new Set<string>();
  readonly nodes = new Map<string, Node>();
  /** Id of the command that made this commit. */
  command = '';

  next(command: string): State {
    return Object.assign(new State(), structuredClone({ ...this }), { command });
  }

  /** Returns the nodes of a place that currently serve the model. */
  serving(place: string, model: string): string[] {
    const isOwn = place.startsWith('organisation:');
    if (!isOwn && !this.installed.has(`${place.replace('stack:', '')} ${model}`)) return [];
    return [...this.nodes]
      .filter(([, node]) => node.place === place && node.up && !node.isDrained && node.loaded.includes(model))
      .map(([id]) => id);
  }

  updateNode(id: string, change: Partial<Node>): void {
    const node = this.nodes.get(id);
    if (node) this.nodes.set(id, { ...node, ...change });
  }

  removePlace(place: string): void {
    for (const [id, node] of this.nodes) if (node.place === place) this.nodes.delete(id);
  }

  removeStack(id: string): void {
    this.stacks.delete(id);
    this.removePlace(`stack:${id}`);
    for (const each of this.installed) if (each.startsWith(`${id} `)) this.installed.delete(each);
  }
}

/** The data of an event. It is not checked against the product's schemas, so that the oracle does not depend on them. */
// biome-ignore lint/suspicious/noExplicitAny: each effect knows its event's data.
type Data = any;

/** Changes the state as each type of event requires. Events whose type is not listed do not change answers. */
const effects: Readonly<Record<string, (state: State, data: Data) => unknown>> = {
  'tier.set': ({ tiers }, data) =>
    tiers.set(data.id, {
      models: data.models === '*' ? '*' : new Set(data.models),
      requestsPerMinute: data.requestsPerMinute ?? Number.POSITIVE_INFINITY,
      concurrency: data.concurrency ?? Number.POSITIVE_INFINITY,
    }),
  'tier.removed': ({ tiers }, { id }) => tiers.delete(id),
  'model.set': ({ models }, { id, weight }) => models.set(id, { weight }),
  'model.removed': ({ models }, { id }) => models.delete(id),
  'organisation.set': ({ organisations }, { id, tier }) =>
    organisations.set(id, { tier, isSuspended: organisations.get(id)?.isSuspended ?? false }),
  'organisation.suspended': ({ organisations }, { id, suspended: isSuspended }) => {
    const organisation = organisations.get(id);
    if (organisation) organisations.set(id, { ...organisation, isSuspended });
  },
  'organisation.removed': (state, { id }) => {
    state.organisations.delete(id);
    state.removePlace(`organisation:${id}`);
    for (const [hash, { organisation }] of state.keys) if (organisation === id) state.keys.delete(hash);
    for (const [stack, { organisation }] of state.stacks) if (organisation === id) state.removeStack(stack);
  },
  'key.created': ({ keys }, { id, organisation, hash, expiresAt }) =>
    keys.set(hash, {
      ...{ id, organisation },
      expiresMs: expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt),
    }),
  'key.revoked': ({ revoked }, { id }) => revoked.add(id),
  'stack.created': ({ stacks }, { id, organisation }) => stacks.set(id, { organisation }),
  'stack.removed': (state, { id }) => state.removeStack(id),
  'stack.model_installed': ({ installed }, { stack, model }) => installed.add(`${stack} ${model}`),
  'stack.model_uninstalled': ({ installed }, { stack, model }) => installed.delete(`${stack} ${model}`),
  'pool.model_installed': ({ installed }, { model }) => installed.add(`pool ${model}`),
  'pool.model_uninstalled': ({ installed }, { model }) => installed.delete(`pool ${model}`),
  'node.registered': ({ nodes }, { id, place }) => {
    const { generation = 0, isDrained = false } = nodes.get(id) ?? {};
    const at = place.kind === 'pool' ? 'pool' : `${place.kind}:${place.id}`;
    nodes.set(id, { place: at, owner: undefined, generation, up: false, isDrained, loaded: [] });
  },
  'node.removed': ({ nodes }, { id }) => nodes.delete(id),
  'node.drained': (state, { id }) => state.updateNode(id, { isDrained: true }),
  'node.undrained': (state, { id }) => state.updateNode(id, { isDrained: false }),
  'node.joined': (state, { id, owner, generation }) => {
    const isNext = generation === (state.nodes.get(id)?.generation ?? 0) + 1;
    if (isNext) state.updateNode(id, { owner, generation });
  },
  'node.health_changed': (state, { id, owner, generation, up, models: loaded }) => {
    const node = state.nodes.get(id);
    const isOwner = node?.owner === owner && node?.generation === generation;
    if (isOwner) state.updateNode(id, { up, loaded });
  },
};

export interface ClientRequest {
  /** Stack that the host names, or undefined for the shared host. */
  readonly stack: string | undefined;
  readonly key: string | undefined;
  readonly model: string;
}

/** What the specification allows as the answer: a certain refusal, or an answer from one of these nodes. */
export type Allowed = { readonly refusal: string } | { readonly nodes: readonly string[] };

export class Oracle {
  /** States by position of the log. The first one is empty. */
  readonly states: State[] = [new State()];
  /** Time at which each position appeared on the log, in ms. */
  readonly timesMs: number[] = [0];
  #log: string | undefined;
  readonly #organisations = new Map<string, string>();
  #hash = '0'.repeat(64);

  get end(): number {
    return this.states.length - 1;
  }

  /** Folds a record of the control log if it continues the chain. Returns whether it did. */
  fold(value: Buffer, nowMs: number): boolean {
    const commit = JSON.parse(value.toString());
    const isNext = commit.seq === this.states.length && commit.prev === this.#hash;
    if (!isNext || (this.#log !== undefined && commit.log !== this.#log)) return false;
    this.#log = commit.log;
    this.#hash = createHash('sha256').update(value).digest('hex');
    const state = (this.states.at(-1) as State).next(commit.id);
    for (const { type, data } of commit.events) {
      effects[type]?.(state, data);
      if (type === 'key.created') this.#organisations.set(data.hash, data.organisation);
    }
    this.states.push(state);
    this.timesMs.push(nowMs);
    return true;
  }

  /** Returns the organisation for which a key was created, even if the key has ended since. */
  organisationOf(key: string): string | undefined {
    return this.#organisations.get(createHash('sha256').update(key).digest('hex'));
  }

  /** Returns the last position that was on the log at this time. */
  positionAt(ms: number): number {
    let position = this.end;
    while (position > 0 && (this.timesMs[position] as number) > ms) position--;
    return position;
  }
}

/**
 * Returns what the state allows as the answer to a request, apart from limits. `nowMs` is the gateway's wall clock. The list
 * of nodes is never empty, because a request without nodes is refused.
 */
export function answerOf(state: State, { stack, key, model }: ClientRequest, nowMs: number): Allowed {
  const hash = key === undefined ? '' : createHash('sha256').update(key).digest('hex');
  const owner = state.keys.get(hash);
  // The key is unknown, revoked or expired (specification, Authentication 8).
  if (owner === undefined || state.revoked.has(owner.id) || owner.expiresMs <= nowMs)
    return { refusal: 'Unauthorized' };
  const { organisation } = owner;
  const { tier: tierId = null, isSuspended = true } = state.organisations.get(organisation) ?? {};
  const tier = tierId === null ? undefined : state.tiers.get(tierId);
  // The organisation has no entitlement (specification, Errors 4).
  if (tier === undefined || isSuspended) return { refusal: 'ModelNotInPlanError' };
  if (stack !== undefined) {
    // Specification, Errors 6: a stack of another organisation and a stack that does not serve look the same.
    const nodes =
      state.stacks.get(stack)?.organisation === organisation ? state.serving(`stack:${stack}`, model) : [];
    return nodes.length > 0 ? { nodes } : { refusal: 'TargetNotServingError' };
  }
  // Specification, Routing algorithm 1 to 3.
  const own = state.serving(`organisation:${organisation}`, model);
  if (own.length > 0) return { nodes: own };
  if (!state.installed.has(`pool ${model}`)) {
    const isAway = [...state.nodes.values()].some(
      (node) => node.place === `organisation:${organisation}` && node.loaded.includes(model),
    );
    return { refusal: isAway ? 'InferenceUnavailableError' : 'DedicatedOnlyModelError' };
  }
  if (tier.models !== '*' && !tier.models.has(model)) return { refusal: 'ModelNotInPlanError' };
  const pool = state.serving('pool', model);
  return pool.length > 0 ? { nodes: pool } : { refusal: 'InferenceUnavailableError' };
}

/** Returns the tier of the organisation that owns the key, or undefined if the key is not valid in this state. */
export function tierOf(
  state: State,
  key: string | undefined,
): { organisation: string; tier: Tier } | undefined {
  const hash = key === undefined ? '' : createHash('sha256').update(key).digest('hex');
  const organisation = state.keys.get(hash)?.organisation;
  if (organisation === undefined) return undefined;
  const tier = state.tiers.get(state.organisations.get(organisation)?.tier ?? '');
  return tier && { organisation, tier };
}
