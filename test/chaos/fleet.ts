/**
 * Runs the chaos scenarios' processes on a real Kafka: control planes, gateways and a simulated node. The scenario provides
 * each process's log address and chooses the commands' Idempotency-Keys. The state that each process has folded can be
 * compared with a fresh replay of the log.
 */

import { setTimeout as pause } from 'node:timers/promises';
import { CommitReader } from '../../control-plane/state/commits.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { Replicator } from '../../shared/snapshot/replicator.ts';
import type { Kafka } from '../kafka/broker.ts';
import {
  completion,
  type GatewayProcess,
  metric,
  model,
  organisation,
  type Plane,
  ProcessFleet,
  smallFleet,
} from '../support/process-fleet.ts';
import { until } from '../support/until.ts';

export type { Plane };
export type Gateway = GatewayProcess;

export interface Key {
  readonly id: string;
  readonly value: string;
}

export interface Replay {
  readonly position: number;
  readonly digest: string;
  readonly skipped: number;
}

export { model, organisation };

export class ChaosFleet extends ProcessFleet {
  constructor({ url }: Pick<Kafka, 'url'>) {
    super({ logUrl: url, timeoutMs: 90_000 });
  }

  /** Starts a control plane. Control planes of the same name share a data folder. */
  plane(name: string, logUrl = this.logUrl): Promise<Plane> {
    return this.serve('control-plane', name, ['--log', logUrl]);
  }

  gateway(name: string, logUrl = this.logUrl, ...more: string[]): Promise<Gateway> {
    return this.serve('gateway', name, ['--log', logUrl, ...more]);
  }

  /** Creates one organisation on a tier without limits, and a pool of one node with one model. */
  async furnish(plane: Plane): Promise<Key> {
    const node = await this.simNode('node', '--models', model, '--tokens-per-second', '0');
    await plane.admin.apply(smallFleet(node.ready.url));
    await until(async () => (await plane.admin.nodes()).every(({ up }) => up));
    return await createKey(plane);
  }

  /** Folds the whole log into memory. Rejects after one minute. */
  async replay(logUrl = this.logUrl): Promise<Replay & { readonly commits: ReadonlyMap<string, number[]> }> {
    const log = await openLog(logUrl, { topic: 'headgate.control' });
    const snapshot = memorySnapshot();
    const replicator = new Replicator({ snapshot, log });
    try {
      replicator.start();
      await replicator.caughtUp(60_000);
      const commits = new Map<string, number[]>();
      for await (const batch of new CommitReader(log, null).upTo(snapshot.seq))
        for (const { commit } of batch)
          commits.set(commit.id, [...(commits.get(commit.id) ?? []), commit.seq]);
      return { position: snapshot.seq, digest: snapshot.digest(), skipped: snapshot.skipped, commits };
    } finally {
      await replicator.stop();
      snapshot.close();
      await log.close();
    }
  }
}

export function createKey(plane: Plane, name = 'chaos'): Promise<Key> {
  return plane.admin.createKey(organisation, name);
}

export async function revokeKey(plane: Plane, key: Key): Promise<void> {
  await plane.admin.call('POST', `/keys/${key.id}/revoke`);
}

/** Returns the status of one completion, or 0 if there is no response. `onTrouble` receives any result other than a 200. */
export async function complete(
  gateway: Gateway,
  key: Key,
  onTrouble: (what: string) => void = () => undefined,
): Promise<number> {
  try {
    const signal = AbortSignal.timeout(30_000);
    const response = await completion(gateway.ready.api, key.value, {}, { signal });
    const text = await response.text();
    if (response.status !== 200) onTrouble(`${response.status} ${/"type":"(\w+)"/.exec(text)?.[1]}`);
    return response.status;
  } catch (error) {
    const { cause, name } = error as Error & { cause?: { code?: string } };
    onTrouble(`no answer: ${cause?.code ?? name}`);
    return 0;
  }
}

/** Reads what a control plane or gateway has folded from its metrics and health endpoints. */
async function foldedBy(process: Plane | Gateway): Promise<Replay> {
  const skipped = await metric(process, 'headgate_fold_skipped_total');
  if ('admin' in process) {
    const { position, digest } = await process.admin.call('GET', '/status');
    return { position, digest, skipped };
  }
  const health = await (await fetch(`${process.ready.metrics}/readyz?verbose`)).text();
  const [, position, digest = ''] = /fold at (\d+), digest (\S+)/.exec(health) ?? [];
  return { position: Number(position), digest, skipped };
}

/**
 * Waits until all processes have reached the position of a fresh replay. Returns the differences, which are none if all
 * states are equal.
 */
export async function disagreements(
  fleet: ChaosFleet,
  processes: readonly (Plane | Gateway)[],
): Promise<{ readonly faults: string[]; readonly replayed: Awaited<ReturnType<ChaosFleet['replay']>> }> {
  for (let attempt = 0; ; attempt++) {
    const replayed = await fleet.replay();
    const standing = await Promise.all(processes.map(foldedBy));
    const behind = standing.some(({ position }) => position !== replayed.position);
    if (behind && attempt < 40) {
      await pause(250);
      continue;
    }
    const wanted = { position: replayed.position, digest: replayed.digest, skipped: replayed.skipped };
    const faults = standing.flatMap((folded, n) =>
      JSON.stringify(folded) === JSON.stringify(wanted)
        ? []
        : [`process ${n} stands at ${JSON.stringify(folded)}, a fresh replay at ${JSON.stringify(wanted)}`],
    );
    return { faults, replayed };
  }
}
