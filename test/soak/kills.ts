/**
 * Scenario 2: a gateway killed with SIGKILL under load, again and again, over the same data folder. What is billed is
 * never more than what nodes finished, short by no more than the last moments before each kill, and the same in every
 * fold of the usage log.
 */
import { type Settled, settle } from './accounts.ts';
import { load, randomFrom, type Seen, wantedFrom } from './clients.ts';
import { eventually, metric, type OrganisationTotals, type SoakFleet } from './fleet.ts';
import { difference } from './mixed-load.ts';

export interface KillsOptions {
  readonly kills: number;
  readonly seed: number;
  readonly say?: (progress: string) => void;
}

export interface KillsFigures {
  readonly requests: number;
  readonly settled: Settled;
  /** How long before the kill the requests whose rows are missing had been received whole, ms, longest first. */
  readonly missingAgesMs: readonly number[];
  /** Requests received whole in the last 10 ms before a kill, and whether billed or not. */
  readonly receivedInLastMoments: number;
  /** Of every fold: the control plane's from the beginning, another one's from nothing, and the sum of the rows. */
  readonly totals: readonly Readonly<Record<string, OrganisationTotals>>[];
}

/**
 * Rows are written together every few ms, 10 ms at most after their request; the rest is what a machine that runs whole
 * suites beside this one adds before a process gets its turn.
 */
export const forgottenMsMax = 250;
const organisations = ['narrow', 'wide'] as const;
/** Under load before the kill, ms: at least, and how much more at most. */
const lifeMsMin = 250;
const lifeMsSpread = 600;

export async function kills(fleet: SoakFleet, options: KillsOptions): Promise<KillsFigures> {
  const rowsBefore = (await fleet.usageRows()).length;
  const finishedBefore = await fleet.finished();
  const random = randomFrom(options.seed);
  const killedMs = new Map<Seen, number>();
  const seen: Seen[] = [];
  await fleet.healNodes();
  for (let kill = 1; kill <= options.kills; kill++) {
    const life = await liveAndDie(fleet, random);
    for (const one of life.seen) {
      seen.push(one);
      killedMs.set(one, life.killedMs);
    }
    options.say?.(`${kill} of ${options.kills} kills, ${seen.length} requests`);
  }
  // A start without load ships what the killed ones left behind.
  const last = await fleet.gateway('killed');
  await eventually(async () => (await metric(last, 'headgate_outbox_rows')) === 0);
  await last.end();
  const rows = await fleet.usageRows();
  const ageMs = (one: Seen): number => (killedMs.get(one) ?? 0) - one.endedMs;
  const missingAgesMs: number[] = [];
  const settled = settle({
    seen,
    rows: rows.slice(rowsBefore),
    finished: difference(await fleet.finished(), finishedBefore),
    mayBeMissing: (one) => {
      missingAgesMs.push(Math.max(0, Math.round(ageMs(one) * 10) / 10));
      return true;
    },
    wasKilled: (one) => ageMs(one) <= 0,
  });
  return {
    requests: seen.length,
    settled,
    missingAgesMs: missingAgesMs.sort((one, other) => other - one),
    receivedInLastMoments: seen.filter((one) => one.completed && ageMs(one) <= 10).length,
    totals: await everyFold(fleet, rows),
  };
}

async function liveAndDie(
  fleet: SoakFleet,
  random: () => number,
): Promise<{ seen: Seen[]; killedMs: number }> {
  const gateway = await fleet.gateway('killed');
  let killedMs = Number.POSITIVE_INFINITY;
  const kill = async (): Promise<void> => {
    killedMs = performance.now();
    await gateway.end('SIGKILL');
  };
  let killed: Promise<void> | undefined;
  setTimeout(
    () => {
      killed = kill();
    },
    lifeMsMin + random() * lifeMsSpread,
  );
  const seen = await load({
    api: gateway.ready.api,
    clients: fleet.clients,
    next: () => (killed === undefined ? wantedFrom(random, 0.1) : undefined),
  });
  await killed;
  await fleet.note();
  return { seen, killedMs };
}

type Row = Awaited<ReturnType<SoakFleet['usageRows']>>[number];

/** The totals as each fold of the usage log has them, once it has all rows. */
async function everyFold(
  fleet: SoakFleet,
  rows: readonly Row[],
): Promise<Record<string, OrganisationTotals>[]> {
  const summed: Record<string, OrganisationTotals> = {};
  for (const organisation of organisations) {
    const theirs = rows.filter((row) => row.organisation === organisation);
    const tokens = theirs.map(({ promptTokens, completionTokens }) => promptTokens + completionTokens);
    summed[organisation] = {
      totalTokens: tokens.reduce((sum, count) => sum + count, 0),
      requests: theirs.length,
    };
  }
  const anew = await fleet.controlPlane(`rebuilt-${rows.length}`);
  const told: Record<string, OrganisationTotals>[] = [summed];
  for (const admin of [undefined, anew]) {
    const totals: Record<string, OrganisationTotals> = {};
    for (const organisation of organisations) {
      const wanted = summed[organisation]?.requests ?? 0;
      const enough = async (): Promise<boolean> =>
        (await fleet.totals(organisation, admin)).requests >= wanted;
      await eventually(enough).catch(() => undefined);
      const { totalTokens, requests } = await fleet.totals(organisation, admin);
      totals[organisation] = { totalTokens, requests };
    }
    told.push(totals);
  }
  return told;
}
