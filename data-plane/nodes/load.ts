/**
 * Tracks how busy each node is, from this gateway's requests and other gateways' reports, and which nodes are ejected. A node
 * is ejected if no connection to it can be obtained, if it broke several requests in a row, or if it has answered none for a
 * while, even if the clients ended them: clients give up long before this gateway does. The time doubles with each ejection
 * up to a bound, until a request succeeds. Neither a client's own faults nor a well-formed error, which the request may have
 * caused, count against a node. A failure that either side may have caused counts once per tenant, so that no single tenant
 * can eject a node for the others. Ejection orders the candidates; it never empties their list.
 */

import type { PlacementReport } from '../../schemas/records/placements.ts';

/** The way that an attempt ended, as evidence about the node. */
export type NodeOutcome =
  /** The node sent a complete answer. */
  | 'answered'
  /** No connection was obtained. */
  | 'unreached'
  /** The connection was lost, a timeout passed or the answer was invalid. */
  | 'broken'
  /** The answer cannot be passed on, for example because it is too large. Node or request may be the cause. */
  | 'suspect'
  /** No evidence about the node: the client left, or the node answered with an error. */
  | 'neutral';

export interface NodeLoadOptions {
  /** Monotonic clock, in ms. */
  readonly now?: () => number;
  /** Random numbers from 0 up to, but not including, 1. */
  readonly random?: () => number;
}

interface NodeState {
  inFlight: number;
  /** Broken attempts since the last answer. */
  broken: number;
  /** Tenants whose suspect answers count among the broken attempts. */
  suspectOwners: readonly string[];
  /** Ejections since the last answer. */
  ejections: number;
  ejectedUntilMs: number;
  /** Requests since the node last began to answer one, and the time of the first of them. */
  unanswered: number;
  unansweredSinceMs: number;
  /** Time when a request last began or ended. */
  lastUsedMs: number;
}

/** A busy gateway reports at least every 1.2 s, so one that has been silent for this long (ms) has stopped. */
const reportValidMs = 3000;
/** Largest number of gateways whose reports count. A fleet may have this many. */
const reportsMax = 1000;
const brokenInARowMax = 3;
const ejectionFirstMs = 1000;
const ejectionMaxMs = 30_000;
/** A node hangs if it has answered none of at least three requests for 10 s. Requests further apart do not count together. */
const unansweredMin = 3;
const hangMs = 10_000;
/** Longest time for which a hanging node is reported after its last request, and the largest number of nodes reported. */
const reportedMs = 600_000;
const reportedMax = 20;
/** Largest number of idle nodes kept. If entries came and went with every request, the map would be reallocated often. */
const idleNodesMax = 1000;

/** Number of candidates examined, of many, while any node is ejected. */
const sampleSize = 16;

export class NodeLoad {
  readonly #nodes = new Map<string, NodeState>();
  /** Last report of each other gateway, by process. */
  readonly #reports = new Map<string, { readonly atMs: number; readonly loads: PlacementReport['loads'] }>();
  /** Sum of the last reports, by node. */
  readonly #reported = new Map<string, number>();
  readonly #now: () => number;
  readonly #random: () => number;
  #nodesMax = idleNodesMax;
  /** No node is ejected after this time, so none needs to be examined. */
  #ejectedUntilMs = Number.NEGATIVE_INFINITY;

  constructor({ now = () => performance.now(), random = Math.random }: NodeLoadOptions = {}) {
    this.#now = now;
    this.#random = random;
  }

  /** Requests in flight at a node, both this gateway's and those that other gateways reported recently. */
  inFlight(node: string): number {
    return (this.#nodes.get(node)?.inFlight ?? 0) + (this.#reported.get(node) ?? 0);
  }

  /** Mean requests in flight per node. */
  mean(candidates: readonly { readonly node: string }[]): number {
    let sum = 0;
    for (const { node } of candidates) sum += this.inFlight(node);
    return sum / candidates.length;
  }

  /** This gateway's requests in flight by node, without idle nodes. Drops the reports of gateways that have fallen silent. */
  ownLoads(): PlacementReport['loads'] {
    const sinceMs = this.#now() - reportValidMs;
    for (const [process, { atMs }] of this.#reports) if (atMs < sinceMs) this.receive(process, []);
    const all: [string, number][] = [];
    for (const [node, { inFlight }] of this.#nodes) if (inFlight > 0) all.push([node, inFlight]);
    return all;
  }

  /** Replaces the previous load report of another gateway. */
  receive(process: string, loads: PlacementReport['loads']): void {
    const before = this.#reports.get(process)?.loads ?? [];
    this.#reports.delete(process);
    if (loads.length > 0 && this.#reports.size < reportsMax) {
      this.#reports.set(process, { atMs: this.#now(), loads });
      this.#addReported(loads, 1);
    }
    // Subtract the old report last, so that a node that stays busy keeps its place in the map.
    this.#addReported(before, -1);
  }

  #addReported(loads: PlacementReport['loads'], times: 1 | -1): void {
    for (const [node, inFlight] of loads) {
      const sum = (this.#reported.get(node) ?? 0) + times * inFlight;
      if (sum > 0) this.#reported.set(node, sum);
      else this.#reported.delete(node);
    }
  }

  /** Requests in flight at all nodes together. */
  inFlightTotal(): number {
    let sum = 0;
    for (const { inFlight } of this.#nodes.values()) sum += inFlight;
    return sum;
  }

  isEjected(node: string): boolean {
    return (this.#nodes.get(node)?.ejectedUntilMs ?? 0) > this.#now();
  }

  /** Returns the candidates that are not ejected, or all of them if every one is. */
  open<Candidate extends { readonly node: string }>(candidates: readonly Candidate[]): readonly Candidate[] {
    if (candidates.length <= 1 || this.#ejectedUntilMs <= this.#now()) return candidates;
    const open = candidates.filter(({ node }) => !this.isEjected(node));
    return open.length > 0 ? open : candidates;
  }

  /** Returns the less loaded of two random candidates, ignoring ejected ones unless all are ejected. */
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

  /** Candidates that are not ejected; of many, only those of a small, even sample, unless all of it is ejected. */
  #some<Candidate extends { readonly node: string }>(candidates: readonly Candidate[]): readonly Candidate[] {
    const { length } = candidates;
    if (length <= 2 * sampleSize || this.#ejectedUntilMs <= this.#now()) return this.open(candidates);
    const from = Math.floor(this.#random() * length);
    const step = Math.floor(length / sampleSize);
    const sample = Array.from({ length: sampleSize }, (_, at) => candidates[(from + at * step) % length]);
    const open = sample.filter((each) => each !== undefined && !this.isEjected(each.node));
    return open.length > 0 ? (open as Candidate[]) : this.open(candidates);
  }

  /** `awaitsAnswer`: whether silence means that the node hangs. */
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

  /** Called when the node begins to answer a request, and for each further event. */
  answering(node: string): void {
    const state = this.#nodes.get(node);
    if (state === undefined || state.unanswered === 0) return;
    if (isHanging(state, this.#now())) {
      state.ejections = 0;
      state.ejectedUntilMs = 0;
    }
    state.unanswered = 0;
  }

  /** Returns up to 20 nodes that have answered none of their requests for a while. */
  hanging(): string[] {
    const nowMs = this.#now();
    return [...this.#nodes]
      .filter(([, state]) => isHanging(state, nowMs) && nowMs - state.lastUsedMs < reportedMs)
      .map(([node]) => node)
      .slice(0, reportedMax);
  }

  /** Must be called exactly once for each `begin`. `owner` is the tenant that sent the request. */
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
      // The request never reached the node.
      state.unanswered = 0;
      this.#eject(state);
    }
  }

  /** Counts an unanswered request. Ejects a hanging node, so that only about one request at a time tries it. */
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

  /** An idle, healthy node needs no entry, so only busy and failing nodes limit how far the map can shrink. */
  #forgetIdle(): void {
    for (const [node, { inFlight, broken, ejections }] of this.#nodes)
      if (inFlight === 0 && broken === 0 && ejections === 0) this.#nodes.delete(node);
    // A higher limit avoids walking many nodes in use for every new one.
    this.#nodesMax = Math.max(idleNodesMax, 2 * this.#nodes.size);
  }

  #eject(state: NodeState, ms = ejectionFirstMs * 2 ** state.ejections): void {
    // Requests that were in flight when the node was ejected are no new evidence.
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

/** Whether this is the tenant's first suspect answer since the last reset. Remembers as many tenants as eject a node. */
function isNewSuspect(state: NodeState, owner: string): boolean {
  const { suspectOwners } = state;
  if (suspectOwners.length >= brokenInARowMax || suspectOwners.includes(owner)) return false;
  state.suspectOwners = [...suspectOwners, owner];
  return true;
}
