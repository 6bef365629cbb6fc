/**
 * Scenario 2: a gateway killed with SIGKILL under load, again and again, over the same data folder. What is billed is
 * never more than what nodes finished, short by no more than the last moments before each kill, and the same in every
 * fold of the usage log.
 */

import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openOutbox } from '../../data-plane/usage/outbox.ts';
import type { UsageRow } from '../../schemas/records/usage.ts';
import { metric } from '../support/process-fleet.ts';
import { seededRandom } from '../support/random.ts';
import { until } from '../support/until.ts';
import { type Settled, settle } from './accounts.ts';
import { load, type Seen, wantedFrom } from './clients.ts';
import type { OrganisationTotals, SoakFleet } from './fleet.ts';
import { difference } from './mixed-load.ts';

export interface KillsOptions {
  readonly kills: number;
  readonly seed: number;
  readonly say?: (progress: string) => void;
  /** Further flags of the gateway that is killed. */
  readonly flags?: readonly string[];
  /** Under load before each kill, ms, at least. */
  readonly lifeMs?: number;
  /** After this kill, counted from 1, its outbox is deleted. */
  readonly outboxDeletedAfter?: number;
}

export interface KillsFigures {
  readonly requests: number;
  readonly settled: Settled;
  /** How long before the kill the requests whose rows are missing had been received whole, ms, longest first. */
  readonly missingAgesMs: readonly number[];
  /** The same without the time in which the gateway was ready to run and the machine ran something else. */
  readonly missingOwnAgesMs: readonly number[];
  /** Rows that went with the deleted outbox. */
  readonly missingWithOutbox: number;
  /** Requests received whole in the last 10 ms before a kill, and whether billed or not. */
  readonly receivedInLastMoments: number;
  /** Of every fold: the control plane's from the beginning, another one's from nothing, and the sum of the rows. */
  readonly totals: readonly Readonly<Record<string, OrganisationTotals>>[];
  /** What the counters of the gateways count, by `limits show`, at rest. */
  readonly counted: Readonly<Record<string, number>>;
}

/**
 * Of the gateway's own time: rows are written together, 10 ms at most after their request. The rest is what a cold
 * process, slow writes to the disk and a busy client add to that.
 */
export const forgottenMsMax = 50;
const sampleMs = 10;
const organisations = ['narrow', 'wide'] as const;
/** Under load before the kill, ms: at least where nothing else is said, and how much more at most. */
const lifeMsMin = 250;
const lifeMsSpread = 600;

export async function kills(fleet: SoakFleet, options: KillsOptions): Promise<KillsFigures> {
  const rowsBefore = (await fleet.usageRows()).length;
  const finishedBefore = await fleet.finished();
  const random = seededRandom(options.seed);
  const lives = new Map<Seen, Life>();
  const seen: Seen[] = [];
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
  // A start without load ships what the killed ones left behind.
  const last = await fleet.gateway('killed');
  await until(async () => (await metric(last, 'headgate_outbox_rows')) === 0, 60_000);
  await last.end();
  const rows = await fleet.usageRows();
  const ageMs = (one: Seen): number => (lives.get(one)?.killedMs ?? 0) - one.endedMs;
  const missing: Seen[] = [];
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

/** The counters come over a topic of their own, so they are awaited. */
async function countedAtRest(
  fleet: SoakFleet,
  rows: readonly UsageRow[],
  { outboxDeletedAfter }: KillsOptions,
): Promise<Record<string, number>> {
  const counted: Record<string, number> = {};
  for (const organisation of organisations) {
    const { totalTokens } = sumOf(rows, organisation);
    // With a folder, what it had not published is gone.
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

/** One gateway from its start to its kill. */
interface Life {
  readonly seen: readonly Seen[];
  readonly killedMs: number;
  /** How long its threads had waited for a processor since its start, at moments of its life, ms. */
  readonly waits: readonly { readonly atMs: number; readonly waitedMs: number }[];
}

/** How long a gateway waited for a processor between a moment and its kill. */
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

/** A row passes two threads, that of requests and one that writes files, and each waits for a processor by itself, ms. */
function waitedSoFarMs(pid: number): number {
  const of = (thread: string): number =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
  const others = readdirSync(`/proc/${pid}/task`).filter((thread) => thread !== String(pid));
  // Which of the others wrote is not known: the one that waited longest.
  return of(String(pid)) + Math.max(0, ...others.map(of));
}

/** The requests whose rows were in its log and not yet known to be on the usage log. */
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

/** The totals as each fold of the usage log has them, once it has all rows. */
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
