/**
 * Kills brokers (kill -9) at random while two control planes take commands. Afterwards the log must contain every
 * acknowledged command exactly once, and no command that was reported to change nothing. Two control planes, two gateways and
 * a fresh replay must have folded the same state.
 */

import { setTimeout as pause } from 'node:timers/promises';
import { createDial } from '../../shared/log/kafka/client.ts';
import { type Kafka, startKafka } from '../kafka/broker.ts';
import { seededRandom } from '../support/random.ts';
import { until } from '../support/until.ts';
import { audit, countsOf, stream } from './commands.ts';
import { ChaosFleet, disagreements } from './fleet.ts';

export interface BrokerKillsOptions {
  /** Number of Kafka nodes. If there are three, the leader of the control log is the one that is killed. */
  readonly nodes: 1 | 3;
  readonly kills: number;
  readonly seed: number;
  readonly say?: (progress: string) => void;
}

export interface BrokerKillsFigures {
  readonly nodes: number;
  readonly kills: number;
  readonly commands: ReturnType<typeof countsOf>;
  /** Number of responses that left a command undecided, by error type. */
  readonly troubles: Readonly<Record<string, number>>;
  readonly position: number;
  readonly skipped: number;
  /** Median and longest time from a kill until the next command was carried out, in ms. */
  readonly gapMs: { readonly p50: number; readonly max: number };
  readonly seconds: number;
  readonly faults: readonly string[];
}

/** Time for which commands run before each kill, in ms: the minimum, and the largest random addition to it. */
const lifeMsMin = 300;
const lifeMsSpread = 1500;
/** Number of commands that must be carried out before the next kill. */
const commandsBetween = 5;

export async function brokerKills(options: BrokerKillsOptions): Promise<BrokerKillsFigures> {
  const kafka = await startKafka({ nodes: options.nodes });
  const fleet = new ChaosFleet(kafka);
  try {
    return await run(kafka, fleet, options);
  } finally {
    await fleet.close();
    await kafka.stop();
  }
}

async function run(
  kafka: Kafka,
  fleet: ChaosFleet,
  options: BrokerKillsOptions,
): Promise<BrokerKillsFigures> {
  const { nodes, kills, seed, say } = options;
  const planes = [await fleet.plane('plane-1'), await fleet.plane('plane-2')];
  await fleet.furnish(planes[0]!);
  const gateways = [await fleet.gateway('gateway-1'), await fleet.gateway('gateway-2')];
  const random = seededRandom(seed);
  const startedMs = performance.now();
  const gapsMs: number[] = [];
  let done = 0;
  let killedMs: number | undefined;
  let killing = true;
  const streaming = stream({
    planes: () => planes,
    workers: 8,
    seed,
    shouldContinue: () => killing,
    onSent: ({ fate }) => {
      if (fate !== 'done') return;
      done++;
      if (killedMs !== undefined) gapsMs.push(performance.now() - killedMs);
      killedMs = undefined;
    },
  });
  const killAll = async () => {
    for (let kill = 1; kill <= kills; kill++) {
      const before = done;
      await pause(lifeMsMin + random() * lifeMsSpread);
      await until(() => done >= before + commandsBetween, 60_000);
      const victim = nodes === 1 ? 1 : await leaderOf(kafka);
      await kafka.kill(victim);
      killedMs = performance.now();
      if (nodes === 3) await until(() => killedMs === undefined, 60_000);
      await kafka.restart(victim);
      if (kill % 5 === 0) say?.(`${kill} of ${kills} kills, ${done} commands carried out`);
    }
    await until(() => killedMs === undefined, 60_000);
  };
  // Ends the stream of commands when the kills are over, even if one of them has failed.
  const killed = killAll().finally(() => {
    killing = false;
  });
  const [{ sent, troubles }] = await Promise.all([streaming, killed]);
  const { faults, replayed } = await disagreements(fleet, [...planes, ...gateways]);
  gapsMs.sort((one, other) => one - other);
  return {
    nodes,
    kills,
    commands: countsOf(sent),
    troubles,
    position: replayed.position,
    skipped: replayed.skipped,
    gapMs: { p50: Math.round(gapsMs[gapsMs.length >> 1] ?? 0), max: Math.round(gapsMs.at(-1) ?? 0) },
    seconds: Math.round((performance.now() - startedMs) / 1000),
    faults: [...audit(sent, replayed.commits), ...faults],
  };
}

async function leaderOf(kafka: Kafka): Promise<number> {
  const dial = createDial({});
  for (;;) {
    for (const broker of kafka.brokers) {
      try {
        const connection = await dial({ host: '127.0.0.1', port: Number(broker.split(':')[1]) });
        const { partitions } = await connection
          .metadata('headgate.control')
          .finally(() => connection.destroy());
        const leader = partitions[0]?.leader ?? -1;
        if (leader > 0) return leader;
      } catch {
        // Ask the next broker, because it may know the leader.
      }
    }
    await pause(50);
  }
}
