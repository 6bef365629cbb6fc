/**
 * Tracks how busy each node is, from this gateway's requests and other gateways' reports, and which nodes are ejected.
 * Ejected nodes are used only if all candidates are ejected. A node is ejected if no connection to it can be obtained, if
 * several requests in a row broke, or if it has not answered any request for a while. The last rule also counts requests that
 * clients gave up on, because clients give up long before this gateway does.
 *
 * Each ejection lasts twice as long as the one before, up to a limit, until a request succeeds. Clients' own faults and
 * well-formed errors do not count against a node, because the request may be the cause. A failure that either side may have
 * caused counts once per tenant, so that no tenant alone can eject a node for all.
 */

import type { PlacementReport } from '../../schemas/records/placements.ts';

/** How an attempt ended, as evidence about the health of its node. */
export type NodeOutcome =
  /** The node sent a complete response. */
  | 'answered'
  /** No connection to the node could be obtained. */
  | 'unreached'
  /** The connection was lost, a time-out passed, or the response was invalid. */
  | 'broken'
  /** The response cannot be passed on, for example because it is too large. The cause may be the node or the request. */
  | 'suspect'
  /** Says nothing about the node's health: the client disconnected, or the node answered with an error. */
  | 'neutral';

export interface NodeLoadOptions {
  /** Returns the current time of a monotonic clock, in ms. */
  readonly now?: () => number;
  /** Returns a random number from 0 up to, but not including, 1. */
  readonly random?: () => number;
}

interface NodeState {
  inFlight: number;
  /** Number of attempts at this node that broke since its last complete response. */
  broken: number;
  /** Tenants whose `suspect` attempts are included in `broken`. */
  suspectOwners: readonly string[];
  /** Number of times that this node was ejected since its last complete response. */
  ejections: number;
  ejectedUntilMs: number;
  /** Number of requests since this node last sent any part of a response, and the time of the first of these requests. */
  unanswered: number;
  unansweredSinceMs: number;
  /** Time at which a request to this node last began or ended, in monotonic ms. */
  lastUsedMs: number;
}

/** Time in ms for which a gateway's report counts. A busy gateway reports at least every 1.2 s unless it has stopped. */
const reportValidMs = 3000;
const reportsMax = 1000;
const brokenInARowMax = 3;
const ejectionFirstMs = 1000;
const ejectionMaxMs = 30_000;
/** A node hangs after so many requests, and so many ms, without a response. Requests far apart do not add up. */
const unansweredMin = 3;
const hangMs = 10_000;
/** Time in ms for which a hanging node is listed after its last request, and the maximum number of nodes listed. */
const reportedMs = 600_000;
const reportedMax = 20;
/** Number of idle nodes whose state is kept. Dropping it after every request would reallocate the map too often. */
const idleNodesMax = 1000;

/** Number of candidates that are examined if there are many of them and some node may be ejected. */
const sampleSize = 16;

export class NodeLoad {
  readonly #nodes = new Map<string, NodeState>();
  /** Latest report of each other gateway, by process id. */
  readonly #reports = new Map<string, { readonly atMs: number; readonly loads: PlacementReport['loads'] }>();
  /** Total number of requests in flight that other gateways report, by node. */
  readonly #reported = new Map<string, number>();
  readonly #now: () => number;
  readonly #random: () => number;
  #nodesMax = idleNodesMax;
  /** Time until which some node may be ejected. After that, no candidate has to be checked for it. */
  #ejectedUntilMs = Number.NEGATIVE_INFINITY;

  constructor({ now = () => performance.now(), random = Math.random }: NodeLoadOptions = {}) {
    this.#now = now;
    this.#random = random;
  }

  /** Number of requests in flight at a node: those of this gateway, and those that other gateways last reported. */
  inFlight(node: string): number {
    return (this.#nodes.get(node)?.inFlight ?? 0) + (this.#reported.get(node) ?? 0);
  }

  /** Average number of requests in flight per candidate. */
  mean(candidates: readonly { readonly node: string }[]): number {
    let sum = 0;
    for (const { node } of candidates) sum += this.inFlight(node);
    return sum / candidates.length;
  }

  /** Number of this gateway's requests in flight at each busy node. Also drops the reports of silent gateways. */
  ownLoads(): PlacementReport['loads'] {
    const sinceMs = this.#now() - reportValidMs;
    for (const [process, { atMs }] of this.#reports) if (atMs < sinceMs) this.receive(process, []);
    const all: [string, number][] = [];
    for (const [node, { inFlight }] of this.#nodes) if (inFlight > 0) all.push([node, inFlight]);
    return all;
  }

  /** Replaces the previous report of another gateway. */
  receive(process: string, loads: PlacementReport['loads']): void {
    const before = this.#reports.get(process)?.loads ?? [];
    this.#reports.delete(process);
    if (loads.length > 0 && this.#reports.size < reportsMax) {
      this.#reports.set(process, { atMs: this.#now(), loads });
      this.#addReported(loads, 1);
    }
    // Subtract the previous report last, so that a node that stays busy keeps its entry in the map.
    this.#addReported(before, -1);
  }

  #addReported(loads: PlacementReport['loads'], times: 1 | -1): void {
    for (const [node, inFlight] of loads) {
      const sum = (this.#reported.get(node) ?? 0) + times * inFlight;
      if (sum > 0) this.#reported.set(node, sum);
      else this.#reported.delete(node);
    }
  }

  /** Number of this gateway's requests in flight at all nodes. */
  inFlightTotal(): number {
    let sum = 0;
    for (const { inFlight } of this.#nodes.values()) sum += inFlight;
    return sum;
  }

  isEjected(node: string): boolean {
    return (this.#nodes.get(node)?.ejectedUntilMs ?? 0) > this.#now();
  }

  /** All candidates that are not ejected, or all candidates if all are ejected. */
  open<Candidate extends { readonly node: string }>(candidates: readonly Candidate[]): readonly Candidate[] {
    if (candidates.length <= 1 || this.#ejectedUntilMs <= this.#now()) return candidates;
    const open = candidates.filter(({ node }) => !this.isEjected(node));
    return open.length > 0 ? open : candidates;
  }

  /** Picks two random candidates and returns the less busy one. Ejected candidates count only if all are ejected. */
  choose<Candidate extends { readonly node: string }>(
    candidates: readonly Candidate[],
  ): Candidate | undefined {
    const among = this.#some(candidates);
    if (among.length <= 1) return among[0];
    const first = Math.floor(this.#random() * among.length);
    const step = 1 + Math.floor(this.#random() * (among.length - 1));
    const one = among[first] as Candidate;
    const other = among[(first + step) % among.length] as Candidate;
    return this.inFlight(other.node) < this.inFlight(one.node) ? other : one;
  }

  /** Candidates to choose from: if there are many, an even sample of them, unless all in the sample are ejected. */
  #some<Candidate extends { readonly node: string }>(candidates: readonly Candidate[]): readonly Candidate[] {
    const { length } = candidates;
    if (length <= 2 * sampleSize || this.#ejectedUntilMs <= this.#now()) return this.open(candidates);
    const from = Math.floor(this.#random() * length);
    const step = Math.floor(length / sampleSize);
    const sample = Array.from({ length: sampleSize }, (_, at) => candidates[(from + at * step) % length]);
    const open = sample.filter((each) => each !== undefined && !this.isEjected(each.node));
    return open.length > 0 ? (open as Candidate[]) : this.open(candidates);
  }

  /** Counts the start of a request. If `awaitsAnswer` is true, the node counts as hanging if it does not answer. */
  begin(node: string, awaitsAnswer = true): void {
    let state = this.#nodes.get(node);
    if (state === undefined) {
      if (this.#nodes.size >= this.#nodesMax) this.#forgetIdle();
      state = {
        ...{ inFlight: 0, broken: 0, suspectOwners: [], ejections: 0, ejectedUntilMs: 0 },
        ...{ unanswered: 0, unansweredSinceMs: 0, lastUsedMs: 0 },
      };
      this.#nodes.set(node, state);
    }
    state.inFlight += 1;
    if (awaitsAnswer) this.#awaitAnswer(state);
  }

  /** Must be called when the node begins to answer a request, and for every further event of the answer. */
  answering(node: string): void {
    const state = this.#nodes.get(node);
    if (state === undefined || state.unanswered === 0) return;
    if (isHanging(state, this.#now())) {
      state.ejections = 0;
      state.ejectedUntilMs = 0;
    }
    state.unanswered = 0;
  }

  /** Names of up to 20 nodes that have not answered any request for a while. */
  hanging(): string[] {
    const nowMs = this.#now();
    return [...this.#nodes]
      .filter(([, state]) => isHanging(state, nowMs) && nowMs - state.lastUsedMs < reportedMs)
      .map(([node]) => node)
      .slice(0, reportedMax);
  }

  /** Counts the end of a request. Must be called once for each `begin`. `owner` is the tenant that sent the request. */
  end(node: string, outcome: NodeOutcome, owner = ''): void {
    const state = this.#nodes.get(node);
    if (state === undefined) return;
    state.inFlight -= 1;
    state.lastUsedMs = this.#now();
    if (outcome === 'answered') {
      state.unanswered = 0;
      if (state.broken > 0) state.suspectOwners = [];
      state.broken = 0;
      state.ejections = 0;
      state.ejectedUntilMs = 0;
    } else if (outcome === 'broken' || (outcome === 'suspect' && isNewSuspect(state, owner))) {
      state.broken += 1;
      if (state.broken >= brokenInARowMax) this.#eject(state);
    } else if (outcome === 'unreached') {
      // Reset the count of unanswered requests, because this one never reached the node.
      state.unanswered = 0;
      this.#eject(state);
    }
  }

  /** Counts a request that awaits a response. Ejects a hanging node again, so that about one request at a time tries it. */
  #awaitAnswer(state: NodeState): void {
    const nowMs = this.#now();
    const isApart = state.inFlight === 1 && nowMs - state.lastUsedMs > hangMs;
    if (state.unanswered === 0 || (isApart && !isHanging(state, nowMs))) {
      state.unanswered = 0;
      state.unansweredSinceMs = nowMs;
    }
    state.unanswered += 1;
    state.lastUsedMs = nowMs;
    if (isHanging(state, nowMs)) this.#eject(state, nowMs - state.unansweredSinceMs);
  }

  /** Removes the entries of healthy, idle nodes, because these nodes need none. */
  #forgetIdle(): void {
    for (const [node, { inFlight, broken, ejections }] of this.#nodes)
      if (inFlight === 0 && broken === 0 && ejections === 0) this.#nodes.delete(node);
    // Allow twice as many nodes as remain, so that a large fleet does not cause a removal for every new node.
    this.#nodesMax = Math.max(idleNodesMax, 2 * this.#nodes.size);
  }

  #eject(state: NodeState, ms = ejectionFirstMs * 2 ** state.ejections): void {
    // Ignore this outcome: the request was already in flight when the node was ejected, so it proves nothing new.
    if (state.ejectedUntilMs > this.#now()) return;
    state.ejectedUntilMs = this.#now() + Math.min(ms, ejectionMaxMs);
    this.#ejectedUntilMs = Math.max(this.#ejectedUntilMs, state.ejectedUntilMs);
    state.ejections += 1;
    state.broken = 0;
    state.suspectOwners = [];
  }
}

function isHanging({ unanswered, unansweredSinceMs }: NodeState, nowMs: number): boolean {
  return unanswered >= unansweredMin && nowMs - unansweredSinceMs >= hangMs;
}

/** Whether this is the tenant's first suspect response since the last reset. Remembers no more tenants than are needed. */
function isNewSuspect(state: NodeState, owner: string): boolean {
  const { suspectOwners } = state;
  if (suspectOwners.length >= brokenInARowMax || suspectOwners.includes(owner)) return false;
  state.suspectOwners = [...suspectOwners, owner];
  return true;
}
