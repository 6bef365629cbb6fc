/**
 * Scenario 2: a gateway under load is repeatedly killed with SIGKILL and restarted on the same data folder. Bills must never
 * exceed what nodes finished, may miss only the last moments before a kill, and must agree in every fold of the usage log.
 */

import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openOutbox } from '../../data-plane/usage/outbox.ts';
import type { UsageRow } from '../../schemas/records/usage.ts';
import { metric } from '../support/process-fleet.ts';
import { seededRandom } from '../support/random.ts';
import { until } from '../support/until.ts';
import { type SettledAccounts, settle } from './accounts.ts';
import { load, type Result, wantedFrom } from './clients.ts';
import type { OrganisationTotals, SoakFleet } from './fleet.ts';
import { difference } from './mixed-load.ts';

export interface KillsOptions {
  readonly kills: number;
  readonly seed: number;
  readonly say?: (progress: string) => void;
  /** Additional flags of the gateway that is killed. */
  readonly flags?: readonly string[];
  /** Minimum time under load before each kill, in ms. */
  readonly lifeMs?: number;
  /** Number of the kill after which the outbox is deleted. The first kill has the number 1. */
  readonly outboxDeletedAfter?: number;
}

export interface KillsFigures {
  readonly requests: number;
  readonly settled: SettledAccounts;
  /** Time between the arrival of a response and the kill, in ms, for each request without a row, longest first. */
  readonly missingAgesMs: readonly number[];
  /** `missingAgesMs` without the time for which the gateway waited for a processor. */
  readonly missingOwnAgesMs: readonly number[];
  /** Number of rows lost with the deleted outbox. */
  readonly missingWithOutbox: number;
  /** Number of requests received in full in the last 10 ms before a kill, whether billed or not. */
  readonly receivedInLastMoments: number;
  /** Totals from three sources: the sum of the rows, the first control plane, and a control plane with a fresh fold. */
  readonly totals: readonly Readonly<Record<string, OrganisationTotals>>[];
  /** Tokens that the gateways' counters report through `limits show` once they are at rest. */
  readonly counted: Readonly<Record<string, number>>;
}

/**
 * Longest time before a kill whose requests may be lost, in ms of the gateway's own time. Rows are written in batches at most
 * 10 ms after their request. A cold process, slow disk writes and a busy client account for the rest.
 */
export const forgottenMsMax = 50;
const sampleMs = 10;
const organisations = ['narrow', 'wide'] as const;
/** Time under load before a kill, in ms: the default minimum, and the largest random addition to it. */
const lifeMsMin = 250;
const lifeMsSpread = 600;

export async function kills(fleet: SoakFleet, options: KillsOptions): Promise<KillsFigures> {
  const rowsBefore = (await fleet.usageRows()).length;
  const finishedBefore = await fleet.finished();
  const random = seededRandom(options.seed);
  const lives = new Map<Result, Life>();
  const seen: Result[] = [];
  let inDeletedOutbox: ReadonlySet<string> = new Set();
  await fleet.healNodes();
  for (let kill = 1; kill <= options.kills; kill++) {
    const life = await liveAndDie(fleet, random, options);
    if (kill === options.outboxDeletedAfter) inDeletedOutbox = deleteOutbox(join(fleet.dir, 'killed'));
    for (const one of life.seen) {
      seen.push(one);
      lives.set(one, life);
    }
    options.say?.(`${kill} of ${options.kills} kills, ${seen.length} requests`);
  }
  // Starts the gateway without load, so that it publishes the rows that the killed gateways left behind.
  const last = await fleet.gateway('killed');
  await until(async () => (await metric(last, 'headgate_outbox_rows')) === 0, 60_000);
  await last.end();
  const rows = await fleet.usageRows();
  const ageMs = (one: Result): number => (lives.get(one)?.killedMs ?? 0) - one.endedMs;
  const missing: Result[] = [];
  let missingWithOutbox = 0;
  const settled = settle({
    seen,
    rows: rows.slice(rowsBefore),
    finished: difference(await fleet.finished(), finishedBefore),
    mayBeMissing: (one) => {
      if (inDeletedOutbox.has(one.requestId ?? '')) missingWithOutbox++;
      else missing.push(one);
      return true;
    },
    wasKilled: (one) => ageMs(one) <= 0,
  });
  return {
    requests: seen.length,
    settled,
    missingWithOutbox,
    missingAgesMs: longestFirst(missing.map(ageMs)),
    missingOwnAgesMs: longestFirst(missing.map((one) => ageMs(one) - waitedMs(lives.get(one), one.endedMs))),
    receivedInLastMoments: seen.filter((one) => one.completed && ageMs(one) <= 10).length,
    totals: await everyFold(fleet, rows),
    counted: await countedAtRest(fleet, rows, options),
  };
}

/** Waits for the counters, because they arrive over a separate topic. */
async function countedAtRest(
  fleet: SoakFleet,
  rows: readonly UsageRow[],
  { outboxDeletedAfter }: KillsOptions,
): Promise<Record<string, number>> {
  const counted: Record<string, number> = {};
  for (const organisation of organisations) {
    const { totalTokens } = sumOf(rows, organisation);
    // If the outbox was deleted, counts that it had not published are lost, so the sums never match.
    if (outboxDeletedAfter === undefined)
      await until(async () => (await fleet.counted(organisation)) === totalTokens).catch(() => undefined);
    counted[organisation] = await fleet.counted(organisation);
  }
  return counted;
}

function sumOf(rows: readonly UsageRow[], organisation: string): OrganisationTotals {
  const theirs = rows.filter((row) => row.organisation === organisation);
  const tokens = theirs.map(({ promptTokens, completionTokens }) => promptTokens + completionTokens);
  return { totalTokens: tokens.reduce((sum, count) => sum + count, 0), requests: theirs.length };
}

function longestFirst(ages: readonly number[]): number[] {
  const rounded = ages.map((ageMs) => Math.max(0, Math.round(ageMs * 10) / 10));
  return rounded.sort((one, other) => other - one);
}

/** The life of a gateway, from its start to its kill. */
interface Life {
  readonly seen: readonly Result[];
  readonly killedMs: number;
  /** Samples of the total time for which the gateway's threads have waited for a processor since the start, in ms. */
  readonly waits: readonly { readonly atMs: number; readonly waitedMs: number }[];
}

/** Returns the time for which a gateway waited for a processor between `sinceMs` and its kill, in ms. */
function waitedMs(life: Life | undefined, sinceMs: number): number {
  const before = life?.waits.findLast(({ atMs }) => atMs <= sinceMs) ?? life?.waits[0];
  return (life?.waits.at(-1)?.waitedMs ?? 0) - (before?.waitedMs ?? 0);
}

async function liveAndDie(
  fleet: SoakFleet,
  random: () => number,
  { flags = [], lifeMs = lifeMsMin }: KillsOptions,
): Promise<Life> {
  const gateway = await fleet.gateway('killed', ...flags);
  const waits: { atMs: number; waitedMs: number }[] = [];
  const sample = (): void => {
    waits.push({ atMs: performance.now(), waitedMs: waitedSoFarMs(gateway.ready.pid) });
  };
  const sampling = setInterval(sample, sampleMs);
  let killedMs = Number.POSITIVE_INFINITY;
  let killed: Promise<void> | undefined;
  setTimeout(
    () => {
      clearInterval(sampling);
      sample();
      killedMs = performance.now();
      killed = gateway.end('SIGKILL');
    },
    lifeMs + random() * lifeMsSpread,
  );
  const seen = await load({
    api: gateway.ready.api,
    clients: fleet.clients,
    next: () => (killed === undefined ? wantedFrom(random, 0.1) : undefined),
  });
  await killed;
  await fleet.note();
  return { seen, killedMs, waits };
}

/**
 * Returns how long the request thread and the thread that writes files have waited in total, in ms. A row passes through one
 * after the other.
 */
function waitedSoFarMs(pid: number): number {
  const of = (thread: string): number =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
  const others = readdirSync(`/proc/${pid}/task`).filter((thread) => thread !== String(pid));
  // It is not known which of the other threads writes the files, so take the one that waited longest.
  return of(String(pid)) + Math.max(0, ...others.map(of));
}

/** Deletes the outbox and returns the ids of its requests that were not yet confirmed on the usage log. */
function deleteOutbox(folder: string): Set<string> {
  const outbox = openOutbox({ path: join(folder, 'outbox.db') });
  const waiting = new Set<string>();
  for (let next = outbox.nextShipment(); next; next = outbox.nextShipment()) {
    for (const body of next.bodies) waiting.add((JSON.parse(body) as UsageRow).requestId);
    outbox.markShipped(next);
  }
  outbox.close();
  for (const suffix of ['', '-wal', '-shm']) rmSync(join(folder, `outbox.db${suffix}`), { force: true });
  return waiting;
}

/** Returns the totals from each fold of the usage log, once the fold contains all rows. */
async function everyFold(
  fleet: SoakFleet,
  rows: readonly UsageRow[],
): Promise<Record<string, OrganisationTotals>[]> {
  const summed: Record<string, OrganisationTotals> = {};
  for (const organisation of organisations) summed[organisation] = sumOf(rows, organisation);
  const rebuilt = await fleet.controlPlane(`rebuilt-${rows.length}`);
  const totalsOf: Record<string, OrganisationTotals>[] = [summed];
  for (const admin of [undefined, rebuilt]) {
    const totals: Record<string, OrganisationTotals> = {};
    for (const organisation of organisations) {
      const wanted = summed[organisation]?.requests ?? 0;
      const enough = async (): Promise<boolean> =>
        (await fleet.totals(organisation, admin)).requests >= wanted;
      await until(enough).catch(() => undefined);
      const { totalTokens, requests } = await fleet.totals(organisation, admin);
      totals[organisation] = { totalTokens, requests };
    }
    totalsOf.push(totals);
  }
  return totalsOf;
}
