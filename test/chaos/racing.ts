/**
 * Two control planes write to one topic while their appends go wrong. One is frozen during an append and resumed after others
 * have written. Responses to appends are lost, cut off or late. Someone else writes records with the right number that do not
 * follow the chain. Every command must end as done or refused, the log must contain it once or never, and all folds must be
 * equal.
 */

import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { toStored } from '../../schemas/events/events.ts';
import { composeCommit, recordHash } from '../../shared/log/core/chain.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { startKafka } from '../kafka/broker.ts';
import type { Fate as AppendFate, Door } from '../kafka/door.ts';
import { type AdminAsk, answerOfAdmin } from '../support/ask-admin.ts';
import { headOf } from '../support/log-head.ts';
import { seededRandom } from '../support/random.ts';
import { until } from '../support/until.ts';
import { audit, countsOf, type Sent, stream } from './commands.ts';
import { ChaosFleet, disagreements, type Gateway, organisation, type Plane } from './fleet.ts';

export interface RacingOptions {
  /** Time for which a control plane is frozen in each round, in ms. */
  readonly freezesMs: readonly number[];
  /** Number of freezes at random moments in a stream of commands. */
  readonly randomFreezes: number;
  /** Number of appends that never arrive, or whose responses are lost, cut off or late. */
  readonly meddledAppends: number;
  /** Number of forged records with the right number and a wrong `prev`. */
  readonly forgeries: number;
  readonly seed: number;
  readonly say?: (progress: string) => void;
}

export interface RacingFigures {
  /** For each command of a frozen control plane, its first response and its final outcome. */
  readonly frozen: readonly string[];
  /** Number of commands with each outcome among those sent during random freezes. */
  readonly underFreezes: ReturnType<typeof countsOf>;
  /** Number of commands with each outcome among those sent while appends were interfered with. */
  readonly underLoss: ReturnType<typeof countsOf>;
  readonly meddled: Readonly<Record<string, number>>;
  readonly troubles: Readonly<Record<string, number>>;
  /** Longest time until a command was decided, including repeated attempts, in ms. */
  readonly slowestMs: number;
  readonly forgeries: number;
  readonly position: number;
  readonly skipped: number;
  readonly seconds: number;
  readonly faults: readonly string[];
}

const controlTopic = 'headgate.control';

interface Scene {
  readonly fleet: ChaosFleet;
  readonly planes: readonly [Plane, Plane];
  readonly gateways: readonly Gateway[];
  readonly doors: readonly Door[];
  readonly options: RacingOptions;
}

export async function racing(options: RacingOptions): Promise<RacingFigures> {
  const kafka = await startKafka({ doors: 2 });
  const fleet = new ChaosFleet(kafka);
  try {
    const { doors } = kafka;
    const planes = [
      await fleet.plane('plane-1', doors[0]!.url),
      await fleet.plane('plane-2', doors[1]!.url),
    ] as const;
    await fleet.furnish(planes[0]);
    const gateways = [await fleet.gateway('gateway-1'), await fleet.gateway('gateway-2')];
    return await run({ fleet, planes, gateways, doors, options });
  } finally {
    await fleet.close();
    await kafka.stop();
  }
}

async function run(scene: Scene): Promise<RacingFigures> {
  const { fleet, planes, gateways, options } = scene;
  const startedMs = performance.now();
  const sent: Sent[] = [];
  const faults: string[] = [];
  const frozen: string[] = [];
  for (const [round, frozenMs] of options.freezesMs.entries()) {
    // In every third round no other writer writes, so the late append is the one that counts.
    const others = round % 3 === 2 ? 0 : 3;
    const reported = await freezeInAppend(scene, frozenMs, { others, releaseFirst: round % 2 === 0 });
    sent.push(...reported.sent);
    faults.push(...reported.faults);
    frozen.push(reported.reported);
    options.say?.(`frozen for ${frozenMs} ms: ${reported.reported}`);
  }
  const underFreezes = await freezeAtRandom(scene);
  const { loss, meddled } = await meddle(scene);
  sent.push(...underFreezes.sent, ...loss.sent);
  faults.push(...(await forge(scene)));
  const { faults: unequal, replayed } = await disagreements(fleet, [...planes, ...gateways]);
  return {
    frozen,
    underFreezes: countsOf(underFreezes.sent),
    underLoss: countsOf(loss.sent),
    meddled,
    troubles: loss.troubles,
    slowestMs: Math.round(Math.max(0, ...sent.map(({ tookMs }) => tookMs))),
    forgeries: options.forgeries,
    position: replayed.position,
    skipped: replayed.skipped,
    seconds: Math.round((performance.now() - startedMs) / 1000),
    faults: [...faults, ...audit(sent, replayed.commits), ...unequal],
  };
}

/** Freezes the first control plane during an append. The append reaches the broker only after others have written. */
async function freezeInAppend(
  { planes: [first, second], doors, fleet }: Scene,
  frozenMs: number,
  { others, releaseFirst }: { readonly others: number; readonly releaseFirst: boolean },
) {
  const door = doors[0]!;
  const before = await fleet.replay();
  let isHeld = false;
  door.onAppend = (topic) => {
    if (topic !== controlTopic || isHeld) return 'pass';
    isHeld = true;
    return 'hold';
  };
  const id = randomUUID();
  const body = { organisation, name: 'frozen', expires: 'never' };
  const startedMs = performance.now();
  const signal = AbortSignal.timeout(frozenMs + 60_000);
  const keysOf = ({ ready }: Plane, asked: AdminAsk) => answerOfAdmin(ready.admin, '/keys', asked);
  const answering = keysOf(first, { id, body, signal }).catch(() => undefined);
  await until(() => isHeld);
  first.child.kill('SIGSTOP');
  const sent: Sent[] = [];
  for (let n = 0; n < others; n++) {
    const other = randomUUID();
    const answer = await keysOf(second, { id: other, body });
    const position = Number(answer.body['position']);
    sent.push({ id: other, fate: 'done', position, attempts: 1, tookMs: 0 });
  }
  await pause(frozenMs);
  if (releaseFirst) door.release();
  // Gives all readers time to read the append while the control plane that sent it is still frozen.
  if (releaseFirst) await pause(200);
  first.child.kill('SIGCONT');
  door.release();
  const answer = await answering;
  const error = (answer?.body['error'] as { type?: string } | undefined)?.type ?? 'no answer';
  let reported = answer?.status === 200 ? 'done' : error;
  let decided = answer;
  let attempts = 1;
  for (; decided?.status !== 200 && attempts < 20; attempts++) {
    await pause(100);
    decided = await keysOf(attempts % 2 === 0 ? first : second, { id, body }).catch(() => undefined);
  }
  if (attempts > 1) reported += decided?.body['repeated'] === true ? ', then found done' : ', then done';
  const position = Number(decided?.body['position'] ?? 0);
  sent.push({ id, fate: 'done', position, attempts, tookMs: performance.now() - startedMs });
  const { skipped } = await fleet.replay();
  const faults =
    others > 0 && skipped <= before.skipped
      ? ['the late append of a frozen control plane was not skipped']
      : [];
  door.onAppend = () => 'pass';
  return { sent, faults, reported };
}

async function freezeAtRandom({ planes, options }: Scene) {
  const random = seededRandom(options.seed);
  let freezing = true;
  const streaming = stream({
    planes: () => planes,
    workers: 4,
    seed: options.seed,
    shouldContinue: () => freezing,
  });
  for (let n = 0; n < options.randomFreezes; n++) {
    const { child } = planes[n % 2]!;
    await pause(random() * 500);
    child.kill('SIGSTOP');
    await pause(random() * 2000);
    child.kill('SIGCONT');
  }
  freezing = false;
  return await streaming;
}

/** Both control planes write, and a third of their appends are interfered with until the requested number is reached. */
async function meddle({ planes, doors, options }: Scene) {
  const { meddledAppends, say } = options;
  const random = seededRandom(options.seed + 1);
  const meddled: Record<string, number> = {};
  let count = 0;
  const fateOf = (topic: string): AppendFate => {
    if (topic !== controlTopic || count >= meddledAppends || random() > 0.4) return 'pass';
    count++;
    const fate = anyFate(random);
    const name = typeof fate === 'object' ? 'late' : fate;
    meddled[name] = (meddled[name] ?? 0) + 1;
    if (count % 100 === 0) say?.(`${count} of ${meddledAppends} appends meddled with`);
    return fate;
  };
  for (const door of doors) door.onAppend = fateOf;
  const loss = await stream({
    planes: () => planes,
    workers: 6,
    seed: options.seed + 1,
    shouldContinue: () => count < meddledAppends,
  });
  for (const door of doors) door.onAppend = () => 'pass';
  return { loss, meddled };
}

/** Mostly cuts appends off, because a missing response costs the sender five seconds. */
function anyFate(random: () => number): AppendFate {
  const kind = random();
  if (kind < 0.06) return 'lose';
  if (kind < 0.45) return 'cut';
  if (kind < 0.7) return 'swallow';
  return { lateMs: kind < 0.95 ? random() * 1000 : 4000 + random() * 2000 };
}

/** Appends a record that claims the next number but a wrong predecessor, and checks that the control planes continue. */
async function forge({ fleet, planes, options }: Scene): Promise<string[]> {
  const faults: string[] = [];
  const log = await openLog(fleet.logUrl, { topic: controlTopic });
  try {
    for (let n = 0; n < options.forgeries; n++) {
      const head = await headOf(log);
      const forged = composeCommit({
        head: { ...head, hash: recordHash(Buffer.from(randomUUID())) },
        id: `forged-${n}`,
        at: new Date().toISOString(),
        by: 'operator',
        events: [toStored({ type: 'no_op', data: {} })],
      });
      await log.append(forged);
      const body = { organisation, name: `behind forgery ${n}`, expires: 'never' };
      const answer = await answerOfAdmin(planes[n % 2]!.ready.admin, '/keys', { body });
      if (answer.status !== 200 || Number(answer.body['position']) <= head.seq)
        faults.push(`behind a forged record at ${head.seq + 1}: ${JSON.stringify(answer)}`);
    }
  } finally {
    await log.close();
  }
  return faults;
}
