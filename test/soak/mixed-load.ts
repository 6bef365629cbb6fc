/**
 * Scenario 1: many requests with clients that leave, nodes that fail and waits that time out. Afterwards no slot may be
 * taken, the narrow tier must admit its full concurrency, memory and descriptors must be back at their level after the
 * warm-up, and the three accounts must agree.
 */

import { readdirSync } from 'node:fs';
import { Agent } from 'node:http';
import { rssMegabytes } from '../../tools/bench/support/cpu.ts';
import { metric } from '../support/process-fleet.ts';
import { seededRandom } from '../support/random.ts';
import { until } from '../support/until.ts';
import { type SettledAccounts, settle } from './accounts.ts';
import { ask, load, type Result, wantedFrom } from './clients.ts';
import { failNodes } from './faults.ts';
import { narrowUnits, type SoakFleet, type SoakGateway } from './fleet.ts';

export interface MixedLoadOptions {
  readonly requests: number;
  /** Time after which no further request is sent, in seconds. */
  readonly secondsMax?: number;
  readonly seed: number;
  readonly say?: (progress: string) => void;
}

export interface MixedLoadFigures {
  readonly settled: SettledAccounts;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly requests: number;
  readonly outages: number;
  readonly seconds: number;
  /** The gateway's resident memory after each twentieth of the requests, in MB. */
  readonly rssMegabytes: readonly number[];
  readonly inFlightUnits: number;
  /**
   * Number of files and sockets that the gateway had open before and after the load. Connections to nodes stay open for a
   * while.
   */
  readonly descriptors: readonly [number, number];
  /** Number of requests admitted when the narrow organisation sends one more than its tier allows, measured twice. */
  readonly admitted: readonly [number, number];
}

const sampleCount = 20;

export async function mixedLoad(fleet: SoakFleet, options: MixedLoadOptions): Promise<MixedLoadFigures> {
  const { requests, secondsMax = Number.POSITIVE_INFINITY, seed, say } = options;
  const rowsBefore = (await fleet.usageRows()).length;
  const finishedBefore = await fleet.finished();
  const gateway = await fleet.gateway('mixed-load');
  const descriptorsBefore = descriptors(gateway);
  const random = seededRandom(seed);
  const rss: number[] = [];
  const started = performance.now();
  let done = 0;
  let left = requests;
  const mayContinue = (): boolean => left-- > 0 && performance.now() < started + secondsMax * 1000;
  const onSeen = (): void => {
    if (++done % Math.ceil(requests / sampleCount) !== 0) return;
    rss.push(Math.round(rssMegabytes(gateway.ready.pid)));
    say?.(
      `${done} of ${requests} requests, ${Math.round((performance.now() - started) / 1000)} s, ${rss.at(-1)} MB`,
    );
  };
  const noting = setInterval(() => void fleet.note(), 250);
  const heal = await failNodes(fleet);
  const seen = await load({
    api: gateway.ready.api,
    clients: fleet.clients,
    next: () => (mayContinue() ? wantedFrom(random) : undefined),
    onSeen,
  });
  const seconds = (performance.now() - started) / 1000;
  clearInterval(noting);
  const outages = await heal();
  await until(async () => (await metric(gateway, 'headgate_limiter_in_flight_units')) === 0).catch(
    () => undefined,
  );
  const inFlightUnits = await metric(gateway, 'headgate_limiter_in_flight_units');
  await until(async () => (await metric(gateway, 'headgate_outbox_rows')) === 0);
  const settled = settle({
    seen,
    rows: (await fleet.usageRows()).slice(rowsBefore),
    finished: difference(await fleet.finished(), finishedBefore),
  });
  const admitted = [await admits(fleet, gateway), await admits(fleet, gateway)] as const;
  const figures = {
    settled,
    outcomes: outcomesOf(seen),
    requests: seen.length,
    outages,
    seconds,
    rssMegabytes: rss,
    inFlightUnits,
    descriptors: [descriptorsBefore, descriptors(gateway)] as const,
    admitted,
  };
  await gateway.end();
  return figures;
}

function descriptors({ ready }: SoakGateway): number {
  return readdirSync(`/proc/${ready.pid}/fd`).length;
}

/** Sends one long request more than the narrow tier allows, and returns the number admitted. */
async function admits(fleet: SoakFleet, gateway: SoakGateway): Promise<number> {
  const agent = new Agent({ keepAlive: false });
  const light = fleet.narrow[1];
  if (light === undefined) throw new Error('the narrow organisation has too few clients');
  for (let attempt = 0; ; attempt++) {
    const asked = Array.from({ length: narrowUnits + 1 }, () =>
      ask(gateway.ready.api, agent, light, { kind: 'stream', words: 20_000, leavesMs: undefined }),
    );
    const statuses = await Promise.all(asked.map(({ head }) => head));
    for (const one of asked) one.leave();
    await Promise.all(asked.map(({ seen }) => seen));
    await until(async () => (await metric(gateway, 'headgate_limiter_in_flight_units')) === 0);
    // On a busy machine even a healthy node may be late. The resulting 503 says nothing about the limit, so try again.
    if (attempt < 5 && statuses.includes(503)) continue;
    return statuses.filter((status) => status === 200).length;
  }
}

function outcomesOf(seen: readonly Result[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { completed, left, refusal } of seen) {
    const outcome = completed ? 'completed' : left ? 'left by the client' : (refusal ?? 'cut');
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  return counts;
}

export function difference(
  now: ReadonlyMap<string, number>,
  before: ReadonlyMap<string, number>,
): Map<string, number> {
  return new Map([...now].map(([model, count]) => [model, count - (before.get(model) ?? 0)]));
}
