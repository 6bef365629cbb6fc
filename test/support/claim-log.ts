/**
 * Claimants that share one log without delays, in simulated time. A test can cut each of them off, make it lag, suspend it or
 * kill it.
 */

import { Claimant } from '../../data-plane/limits/claimant.ts';
import type { GaugeRecord } from '../../schemas/records/gauges.ts';
import type { Limit } from '../../shared/limits/claims-rows.ts';
import { readGauges } from './read-gauges.ts';

const tickMs = 200;
let minted = 0;

interface Member {
  readonly claimant: Claimant;
  /** `behind` means that the claimant's records reach the log, but that the claimant reads nothing from the log. */
  state: 'live' | 'behind' | 'cut off' | 'suspended';
  read: number;
}

export class ClaimLog {
  readonly records: GaugeRecord[] = [];
  nowMs = 0;
  readonly #members: Member[] = [];

  /** Adds a gateway that reads the whole log. `predecessor` is the process that used its data folder before. */
  open(predecessor?: string): Claimant {
    const mint = (): string => `process-${++minted}`;
    const claimant = new Claimant({ name: 'gw', mint, live: 1, predecessor });
    const member: Member = { claimant, state: 'live', read: 0 };
    this.#members.push(member);
    this.#read(member);
    return claimant;
  }

  /** Adds `count` gateways and lets time pass until they know of each other and use their standing shares. */
  openAll(count: number): Claimant[] {
    const all = Array.from({ length: count }, () => this.open());
    this.pass(4000);
    return all;
  }

  /** Lets time pass: every running claimant ticks. Records of a claimant that is cut off are lost. */
  pass(ms: number): void {
    for (const untilMs = this.nowMs + ms; this.nowMs < untilMs; this.nowMs += tickMs)
      for (const member of [...this.#members]) {
        if (member.state === 'suspended') continue;
        member.claimant.expire(this.nowMs);
        this.#send(member, member.claimant.records(this.nowMs, this.nowMs));
      }
  }

  /** Publishes urgent records of a gateway between two ticks and returns them. */
  urgent(claimant: Claimant): GaugeRecord[] {
    const records = claimant.isUrgent ? claimant.records(this.nowMs, this.nowMs, true) : [];
    this.#send(this.#of(claimant), records);
    return records;
  }

  append(records: readonly GaugeRecord[]): void {
    this.records.push(...records);
    for (const member of this.#members) if (member.state === 'live') this.#read(member);
  }

  set(claimant: Claimant, state: Member['state']): void {
    const member = this.#of(claimant);
    member.state = state;
    if (state === 'live') this.#read(member);
  }

  kill(claimant: Claimant): void {
    this.#members.splice(this.#members.indexOf(this.#of(claimant)), 1);
  }

  leave(claimant: Claimant): void {
    this.append([claimant.goodbye(this.nowMs)]);
    this.kill(claimant);
  }

  /** Tries to admit this many requests at once and returns the number admitted. */
  take(claimant: Claimant, limit: Limit, requests: number): number {
    let admitted = 0;
    for (let n = 0; n < requests; n++) {
      if (!claimant.admits(limit, 1, this.nowMs)) continue;
      claimant.add(limit, 1, this.nowMs);
      admitted++;
    }
    return admitted;
  }

  #of(claimant: Claimant): Member {
    const member = this.#members.find((each) => each.claimant === claimant);
    if (member === undefined) throw new Error('this gateway is not there');
    return member;
  }

  #send({ state }: Member, records: readonly GaugeRecord[]): void {
    if (state !== 'cut off' && records.length > 0) this.append(records);
  }

  #read(member: Member): void {
    for (; member.read < this.records.length; member.read++)
      member.claimant.onRecord(
        readGauges(this.records[member.read] as GaugeRecord),
        member.read + 1,
        this.nowMs,
      );
    member.claimant.settle(this.nowMs);
  }
}
