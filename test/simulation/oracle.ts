/**
 * Determines what the service must answer according to the specification. The oracle folds the commits of the control log
 * into plain maps, and shares no code with the product's fold, look-ups and decisions.
 */
import { createHash } from 'node:crypto';

interface Tier {
  readonly models: '*' | ReadonlySet<string>;
  readonly requestsPerMinute: number;
  readonly concurrency: number;
  readonly monthlyTokens: number;
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
  readonly stacks = new Map<string, { readonly organisation: string; readonly surface: string }>();
  /** Models installed in the pool or on a stack, as `pool MODEL` or `STACK MODEL`. */
  readonly installed = new Set<string>();
  readonly nodes = new Map<string, Node>();
  /** Id of the command that made this commit. */
  command = '';

  next(): State {
    const next = new State();
    for (const name of ['tiers', 'models', 'organisations', 'keys', 'stacks', 'nodes'] as const)
      for (const [id, value] of this[name]) next[name].set(id, value as never);
    for (const name of ['revoked', 'installed'] as const)
      for (const value of this[name]) next[name].add(value);
    return next;
  }

  /** Returns the nodes of a place that currently serve the model. */
  serving(place: string, model: string): string[] {
    const isOwn = place.startsWith('organisation:');
    if (!isOwn && !this.installed.has(`${place.replace('stack:', '')} ${model}`)) return [];
    return [...this.nodes]
      .filter(([, node]) => node.place === place && node.up && !node.isDrained && node.loaded.includes(model))
      .map(([id]) => id);
  }

  #update(id: string, change: Partial<Node>): void {
    const node = this.nodes.get(id);
    if (node) this.nodes.set(id, { ...node, ...change });
  }

  #removeNodes(place: string): void {
    for (const [id, node] of this.nodes) if (node.place === place) this.nodes.delete(id);
  }

  #removeStack(id: string): void {
    this.stacks.delete(id);
    this.#removeNodes(`stack:${id}`);
    for (const installed of this.installed)
      if (installed.startsWith(`${id} `)) this.installed.delete(installed);
  }

  // biome-ignore lint/suspicious/noExplicitAny: the events are read without the product's schemas.
  apply(type: string, data: any): void {
    const { id } = data;
    switch (type) {
      case 'tier.set':
        this.tiers.set(id, {
          models: data.models === '*' ? '*' : new Set(data.models),
          requestsPerMinute: data.requestsPerMinute ?? Number.POSITIVE_INFINITY,
          concurrency: data.concurrency ?? Number.POSITIVE_INFINITY,
          monthlyTokens: data.monthlyTokens ?? Number.POSITIVE_INFINITY,
        });
        return;
      case 'tier.removed':
        this.tiers.delete(id);
        return;
      case 'model.set':
        this.models.set(id, { weight: data.weight });
        return;
      case 'model.removed':
        this.models.delete(id);
        return;
      case 'organisation.set':
        this.organisations.set(id, {
          tier: data.tier,
          isSuspended: this.organisations.get(id)?.isSuspended ?? false,
        });
        return;
      case 'organisation.suspended': {
        const organisation = this.organisations.get(id);
        if (organisation) this.organisations.set(id, { ...organisation, isSuspended: data.suspended });
        return;
      }
      case 'organisation.removed':
        this.organisations.delete(id);
        this.#removeNodes(`organisation:${id}`);
        for (const [hash, key] of this.keys) if (key.organisation === id) this.keys.delete(hash);
        for (const [stack, { organisation }] of this.stacks)
          if (organisation === id) this.#removeStack(stack);
        return;
      case 'key.created':
        this.keys.set(data.hash, {
          id,
          organisation: data.organisation,
          expiresMs: data.expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(data.expiresAt),
        });
        return;
      case 'key.revoked':
        this.revoked.add(id);
        return;
      case 'stack.created':
        this.stacks.set(id, { organisation: data.organisation, surface: data.surface });
        return;
      case 'stack.surface_set': {
        const stack = this.stacks.get(id);
        if (stack) this.stacks.set(id, { ...stack, surface: data.surface });
        return;
      }
      case 'stack.removed':
        this.#removeStack(id);
        return;
      case 'stack.model_installed':
        this.installed.add(`${data.stack} ${data.model}`);
        return;
      case 'stack.model_uninstalled':
        this.installed.delete(`${data.stack} ${data.model}`);
        return;
      case 'pool.model_installed':
        this.installed.add(`pool ${data.model}`);
        return;
      case 'pool.model_uninstalled':
        this.installed.delete(`pool ${data.model}`);
        return;
      case 'node.registered': {
        const { place } = data;
        const before = this.nodes.get(id);
        this.nodes.set(id, {
          place: place.kind === 'pool' ? 'pool' : `${place.kind}:${place.id}`,
          ...{ owner: undefined, generation: before?.generation ?? 0, up: false, loaded: [] },
          isDrained: before?.isDrained ?? false,
        });
        return;
      }
      case 'node.removed':
        this.nodes.delete(id);
        return;
      case 'node.drained':
      case 'node.undrained':
        this.#update(id, { isDrained: type === 'node.drained' });
        return;
      case 'node.joined':
        if (data.generation === (this.nodes.get(id)?.generation ?? 0) + 1)
          this.#update(id, { owner: data.owner, generation: data.generation });
        return;
      case 'node.health_changed': {
        const node = this.nodes.get(id);
        if (node?.owner === data.owner && node?.generation === data.generation)
          this.#update(id, { up: data.up, loaded: data.models });
      }
    }
  }
}

/** A request as its client sent it. */
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
    const state = (this.states.at(-1) as State).next();
    state.command = commit.id;
    for (const { type, data } of commit.events) state.apply(type, data);
    this.states.push(state);
    this.timesMs.push(nowMs);
    return true;
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
  // Specification, Authentication 8.
  if (owner === undefined || state.revoked.has(owner.id) || owner.expiresMs <= nowMs)
    return { refusal: 'Unauthorized' };
  const { organisation } = owner;
  const { tier: tierId = null, isSuspended = true } = state.organisations.get(organisation) ?? {};
  const tier = tierId === null ? undefined : state.tiers.get(tierId);
  // Specification, Errors 4: the organisation has no entitlement.
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
