/**
 * Takes down Kafka and control planes. A gateway with --when-stale=serve must answer indefinitely. A gateway with
 * --when-stale=fence must answer until 45 s after its last proof of freshness, and again soon after Kafka returns. Callers
 * must not notice a missing control plane. A gateway that starts while everything is down serves the public listing, and
 * accepts keys only with --when-stale=serve.
 */

import { setTimeout as pause } from 'node:timers/promises';
import { rssMegabytes } from '../../tools/bench/support/cpu.ts';
import { startKafka } from '../kafka/broker.ts';
import { metric } from '../support/process-fleet.ts';
import { until } from '../support/until.ts';
import { ChaosFleet, complete, type Key } from './fleet.ts';
import { Watch } from './watch.ts';

export interface OutageOptions {
  /** Time for which only the control plane is down, in ms. */
  readonly planeDownMs: number;
  /** Time for which Kafka is down, in ms. Fencing is checked only if this is more than 50 s. */
  readonly kafkaDownMs: number;
  /** Whether to start new gateways at the end, while everything is down. Defaults to true. */
  readonly coldStart?: boolean;
  /** Longest time from Kafka's return until keys must be accepted, in s. Defaults to 2. */
  readonly backSecondsMax?: number;
  readonly say?: (progress: string) => void;
}

export interface OutageFigures {
  readonly planeDown: { readonly requests: number; readonly failures: number };
  readonly serve: { readonly requests: number; readonly failures: number };
  readonly fence: {
    readonly requests: number;
    /** Time from the last proof of freshness to the first refusal, in s. Null if the outage was too short for a refusal. */
    readonly refusedAfterSeconds: number | null;
    /** Number of responses other than 200 before the first refusal. */
    readonly failuresBefore: number;
    /** Time from Kafka's return to the first accepted request, in s. */
    readonly backAfterSeconds: number;
  };
  /** Resident memory, in MB, of the gateway that keeps serving: before the outage and at its end. */
  readonly rssMegabytes: readonly [number, number];
  readonly coldStart: Readonly<Record<'fence' | 'serve', ColdStart>> | null;
  readonly faults: readonly string[];
}

export interface ColdStart {
  /** Time until the gateway served requests, in s. */
  readonly seconds: number;
  readonly listing: number;
  readonly keyed: number;
  /** Status of a request whose key fails its checksum. */
  readonly malformed: number;
}

const fencedSeconds = 45;
const toleranceSeconds = 2;

export async function outage(options: OutageOptions): Promise<OutageFigures> {
  const kafka = await startKafka();
  const fleet = new ChaosFleet(kafka);
  const { backSecondsMax = 2, say } = options;
  try {
    const plane = await fleet.plane('plane');
    const key = await fleet.furnish(plane);
    const serve = await fleet.gateway('serve', fleet.logUrl, '--when-stale', 'serve');
    const fence = await fleet.gateway('fence');
    const faults: string[] = [];
    const watches = (): Watch[] => [serve, serve, fence].map((gateway) => new Watch(() => gateway, key));

    await plane.end('SIGKILL');
    const alone = watches();
    await pause(options.planeDownMs);
    for (const watch of alone) await watch.stop();
    const planeDown = {
      requests: alone.reduce((sum, { requests }) => sum + requests, 0),
      failures: alone.reduce((sum, { failures }) => sum + failures, 0),
    };
    if (planeDown.failures > 0) faults.push(`${planeDown.failures} requests failed without a control plane`);
    say?.(`without a control plane: ${JSON.stringify(planeDown)}`);

    const [one, other, fenced] = watches() as [Watch, Watch, Watch];
    await pause(500);
    const rssBefore = Math.round(rssMegabytes(serve.ready.pid));
    await kafka.kill(1);
    const killedMs = performance.now();
    let provenMs = Number.NEGATIVE_INFINITY;
    while (performance.now() < killedMs + options.kafkaDownMs) {
      provenMs = Math.max(
        provenMs,
        performance.now() - (await metric(fence, 'headgate_fold_lag_seconds')) * 1000,
      );
      await pause(Math.min(1000, killedMs + options.kafkaDownMs - performance.now()));
    }
    say?.(
      `Kafka was down for ${options.kafkaDownMs} ms; the one that fences: ${JSON.stringify(fenced.counts)}`,
    );
    const rssAfter = Math.round(rssMegabytes(serve.ready.pid));
    await kafka.restart(1);
    const backMs = performance.now();
    const longEnough = options.kafkaDownMs > 50_000;
    await until(() => fenced.changes.at(-1)?.status === 200);
    const acceptedMs = longEnough ? fenced.changes.at(-1)!.atMs : backMs;
    await pause(500);
    for (const watch of [one, other, fenced]) await watch.stop();
    const refusedMs = fenced.changes.find(({ status }) => status !== 200)?.atMs;
    const figures = {
      requests: fenced.requests,
      refusedAfterSeconds: refusedMs === undefined ? null : seconds(refusedMs - provenMs),
      failuresBefore: refusedMs === undefined ? 0 : fenced.failures - (fenced.counts[503] ?? 0),
      backAfterSeconds: seconds(Math.max(0, acceptedMs - backMs)),
    };
    const served = { requests: one.requests + other.requests, failures: one.failures + other.failures };
    if (served.failures > 0)
      faults.push(
        `${served.failures} requests failed where a gateway was to serve: ${JSON.stringify([one.troubles, other.troubles])}`,
      );
    if (figures.failuresBefore > 0)
      faults.push('the gateway that fences gave other answers than 200 and 503');
    if (longEnough !== (figures.refusedAfterSeconds !== null))
      faults.push(`fencing: ${JSON.stringify(fenced.changes)}`);
    if (Math.abs((figures.refusedAfterSeconds ?? fencedSeconds) - fencedSeconds) > toleranceSeconds)
      faults.push(`it fenced ${figures.refusedAfterSeconds} s after its last proof`);
    if (figures.backAfterSeconds > backSecondsMax)
      faults.push(`it accepted keys only ${figures.backAfterSeconds} s after Kafka was back`);

    for (const { stderr } of [serve, fence])
      if (stderr().includes('Warning')) faults.push(`a gateway wrote ${stderr().slice(0, 500)}`);
    const ended = Promise.all([serve.end('SIGKILL'), fence.end('SIGTERM'), kafka.kill(1)]);
    const coldStarts = options.coldStart === false ? null : await ended.then(() => coldStart(fleet, key));
    faults.push(...(coldStarts ? coldFaults(coldStarts) : []));
    return {
      planeDown,
      serve: served,
      fence: figures,
      rssMegabytes: [rssBefore, rssAfter],
      coldStart: coldStarts,
      faults,
    };
  } finally {
    await fleet.close();
    await kafka.stop();
  }
}

/** Starts one gateway per policy on existing data while the log at this address is unreachable. */
export async function coldStart(
  fleet: ChaosFleet,
  key: Key,
  logUrl = fleet.logUrl,
): Promise<Record<'fence' | 'serve', ColdStart>> {
  const [fence, serve] = await Promise.all([
    startCold(fleet, key, 'fence', logUrl),
    startCold(fleet, key, 'serve', logUrl),
  ]);
  return { fence, serve };
}

/** Returns the cold starts in which a gateway answered differently from what its policy requires. */
export function coldFaults(starts: Awaited<ReturnType<typeof coldStart>>): string[] {
  return [{ policy: 'fence', keyed: 503 } as const, { policy: 'serve', keyed: 200 } as const].flatMap(
    ({ policy, keyed }) => {
      const found = starts[policy];
      // A fenced gateway does not reveal whether a credential is valid.
      const malformed = policy === 'fence' ? 503 : 401;
      const isRight = found.listing === 200 && found.keyed === keyed && found.malformed === malformed;
      return isRight ? [] : [`cold start, ${policy}: ${JSON.stringify(found)}`];
    },
  );
}

async function startCold(
  fleet: ChaosFleet,
  key: Key,
  policy: 'fence' | 'serve',
  logUrl: string,
): Promise<ColdStart> {
  const startedMs = performance.now();
  const gateway = await fleet.gateway(policy, logUrl, '--when-stale', policy);
  const took = seconds(performance.now() - startedMs);
  const listing = await fetch(`${gateway.ready.api}/models`);
  await listing.text();
  const found = {
    seconds: took,
    listing: listing.status,
    keyed: await complete(gateway, key),
    malformed: await complete(gateway, { ...key, value: `${key.value.slice(0, -1)}!` }),
  };
  await gateway.end('SIGKILL');
  return found;
}

function seconds(ms: number): number {
  return Math.round(ms / 10) / 100;
}
