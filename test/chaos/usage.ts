/**
 * Counts usage over Kafka. A gateway under load is repeatedly killed (kill -9) while responses to its appends are late,
 * missing or cut off, so records are written twice. One outbox is deleted. Everything billed must have been completed,
 * nothing may be billed twice, and a kill may lose only the last moments. All folds must have the same totals, and gateways
 * must never count more than these.
 */
import { join } from 'node:path';
import { usageTopic } from '../../schemas/records/usage.ts';
import { openCounterCopy } from '../../shared/limits/counter-copy.ts';
import { CounterState } from '../../shared/limits/counters.ts';
import { startKafka } from '../kafka/broker.ts';
import type { Fate } from '../kafka/door.ts';
import { SoakFleet } from '../soak/fleet.ts';
import { type KillsFigures, kills } from '../soak/kills.ts';
import { seededRandom } from '../support/random.ts';

export interface UsageOptions {
  readonly kills: number;
  readonly seed: number;
  readonly say?: (progress: string) => void;
}

export interface UsageFigures extends KillsFigures {
  readonly kills: number;
  /** Number of the `appends` to the usage log that were interfered with. */
  readonly meddled: number;
  readonly appends: number;
  /** Number of tokens that an idle gateway has counted for the other gateways, by organisation. */
  readonly counted: Readonly<Record<string, number>>;
  readonly faults: readonly string[];
}

const organisations = ['narrow', 'wide'];

export async function usage(options: UsageOptions): Promise<UsageFigures> {
  const kafka = await startKafka({ doors: 1 });
  const fleet = await SoakFleet.start(kafka.url).catch(async (error: unknown) => {
    await kafka.stop();
    throw error;
  });
  try {
    const door = kafka.doors[0]!;
    const random = seededRandom(options.seed + 1);
    let meddled = 0;
    door.onAppend = (topic) => {
      if (topic !== usageTopic || random() > 0.5) return 'pass';
      meddled++;
      return anyFate(random);
    };
    // This gateway receives no requests and reads the counters from the beginning.
    const bystander = await fleet.gateway('bystander');
    const figures = await kills(fleet, {
      ...options,
      flags: ['--log', door.url],
      lifeMs: 800,
      outboxDeletedAfter: Math.ceil(options.kills / 2),
    });
    await bystander.end();
    const counted = countedIn(join(fleet.dir, 'bystander', 'counters.db'));
    const unequal = new Set(figures.totals.map((totals) => JSON.stringify(totals))).size > 1;
    // Counts may be missing if a deleted outbox had not published them, but nothing may be counted twice.
    const twice = organisations.filter(
      (each) => (counted[each] ?? 0) > (figures.totals[0]?.[each]?.totalTokens ?? 0),
    );
    return {
      ...figures,
      kills: options.kills,
      meddled,
      appends: door.appends.get(usageTopic) ?? 0,
      counted,
      faults: [
        ...figures.settled.faults,
        ...(unequal ? [`the totals differ: ${JSON.stringify(figures.totals)}`] : []),
        ...(twice.length > 0 ? [`more was counted than billed: ${JSON.stringify(counted)}`] : []),
      ],
    };
  } finally {
    await fleet.close();
    await kafka.stop();
  }
}

function anyFate(random: () => number): Fate {
  const kind = random();
  if (kind < 0.05) return 'lose';
  if (kind < 0.6) return 'cut';
  if (kind < 0.8) return 'swallow';
  return { lateMs: random() * 300 };
}

function countedIn(path: string): Record<string, number> {
  const copy = openCounterCopy(path);
  const state = new CounterState();
  copy.loadInto(state);
  copy.close();
  const sums: Record<string, number> = {};
  for (const key of state.keys()) {
    const [subject = ''] = key.split(' ');
    sums[subject] = (sums[subject] ?? 0) + state.sum(key).tokens;
  }
  return sums;
}
