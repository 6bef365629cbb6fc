/**
 * Usage over Kafka: a gateway killed (kill -9) under load again and again, whose appends to the usage log are answered
 * late, never, or by a cut connection, so that records are written twice; and one outbox that is deleted. What is billed
 * was finished, nothing is billed twice, a kill forgets only the last moments, and all folds give the same totals.
 */
import { join } from 'node:path';
import { usageTopic } from '../../schemas/usage.ts';
import { openUsageStore } from '../../shared/usage/usage-store.ts';
import { startKafka } from '../kafka/broker.ts';
import type { Fate } from '../kafka/door.ts';
import { randomFrom } from '../soak/clients.ts';
import { type OrganisationTotals, SoakFleet } from '../soak/fleet.ts';
import { type KillsFigures, kills } from '../soak/kills.ts';

export interface UsageOptions {
  readonly kills: number;
  readonly seed: number;
  readonly say?: (progress: string) => void;
}

export interface UsageFigures extends KillsFigures {
  readonly kills: number;
  /** Appends to the usage log that were meddled with, of how many. */
  readonly meddled: number;
  readonly appends: number;
  /** Of gateways, as they have folded them. */
  readonly gatewayTotals: readonly Readonly<Record<string, OrganisationTotals>>[];
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
    const random = randomFrom(options.seed + 1);
    let meddled = 0;
    door.onAppend = (topic) => {
      if (topic !== usageTopic || random() > 0.5) return 'pass';
      meddled++;
      return anyFate(random);
    };
    // Folds from the beginning, and is asked nothing.
    const bystander = await fleet.gateway('bystander');
    const figures = await kills(fleet, {
      ...options,
      flags: ['--log', door.url],
      lifeMs: 800,
      outboxDeletedAfter: Math.ceil(options.kills / 2),
    });
    await bystander.end();
    const gatewayTotals = ['bystander', 'killed'].map((name) => totalsIn(join(fleet.dir, name, 'usage.db')));
    const all = [...figures.totals, ...gatewayTotals];
    const unequal = new Set(all.map((totals) => JSON.stringify(totals))).size > 1;
    return {
      ...figures,
      kills: options.kills,
      meddled,
      appends: door.appends.get(usageTopic) ?? 0,
      gatewayTotals,
      faults: [...figures.settled.faults, ...(unequal ? [`the totals differ: ${JSON.stringify(all)}`] : [])],
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

function totalsIn(path: string): Record<string, OrganisationTotals> {
  const store = openUsageStore(path);
  const sum = (organisation: string): OrganisationTotals => {
    const periods = store.periods(organisation).map((period) => store.totals(organisation, period));
    return {
      totalTokens: periods.reduce((tokens, period) => tokens + period.totalTokens, 0),
      requests: periods.reduce((requests, period) => requests + period.requests, 0),
    };
  };
  const totals = Object.fromEntries(organisations.map((organisation) => [organisation, sum(organisation)]));
  store.close();
  return totals;
}
