/**
 * Writes a restore: onto a log that holds nothing, in order, each record until it is acknowledged; then reads the whole
 * log back and compares. What stands there twice is passed over by every reader, so trying again does no harm.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { readLogId } from '../../shared/snapshot/log-identity.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { CliError, interrupted, usageError } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';
import { readContext } from '../terminal/settings.ts';
import type { RestorePlan } from './restore-plan.ts';

/** Appends under way at once. */
const appendsAtOnce = 100;
/** How long a log that cannot be reached is tried. */
const retryForMs = 60_000;
const progressEveryMs = 2000;
const pauseMsMin = 50;
const pauseMsMax = 2000;

/** Opens the log, which must hold nothing. Throws a CliError with exit 6 where it does. */
async function openEmpty(session: Session): Promise<ControlLog> {
  const url = session.io.env['HEADGATE_LOG'] || readContext(session.io).log;
  if (!url) throw usageError('no log is known', 'set HEADGATE_LOG, for example sqlite:./data/log');
  const log = await openLog(url, { topic: 'headgate.control' });
  try {
    const end = await log.end();
    if (end === 0) return log;
    const id = await readLogId(log).catch(() => null);
    throw new CliError('the log that HEADGATE_LOG names is not empty', {
      type: 'Conflict',
      exitCode: 6,
      why: id === null ? `it ends at offset ${end}` : `it holds log ${id}, up to offset ${end}`,
      next: 'move the file, or delete the topic, as docs/operate.md says; a restore that was cut short is begun anew so, too',
    });
  } catch (error) {
    await log.close();
    throw error;
  }
}

/** Throws a CliError where the log holds something already, or does not hold afterwards what was planned. */
export async function writeRestore(session: Session, plan: RestorePlan): Promise<void> {
  const [first, ...rest] = plan.records;
  const log = await openEmpty(session);
  try {
    if (first) await append(session, log, [first]);
    await checkOwn(log, plan.log);
    let reportedMs = performance.now();
    for (let done = 0; done < rest.length; done += appendsAtOnce) {
      await append(session, log, rest.slice(done, done + appendsAtOnce));
      if (performance.now() - reportedMs < progressEveryMs) continue;
      session.note(`${done + 1} of ${plan.records.length} commits`);
      reportedMs = performance.now();
    }
    await readBack(log, plan);
  } finally {
    await log.close();
  }
}

/** In order, again and again until all are acknowledged: what stands there twice is passed over by every reader. */
async function append(session: Session, log: ControlLog, records: RestorePlan['records']): Promise<void> {
  const untilMs = performance.now() + retryForMs;
  for (let attempt = 0; ; attempt++) {
    if (session.signal.aborted) throw interrupted();
    const done = await Promise.allSettled(
      records.map(({ value, signature }) => log.append(value, signature)),
    );
    const failed = done.find((one) => one.status === 'rejected');
    if (!failed) return;
    const { name } = failed.reason as Error;
    if ((name !== 'LogUnavailable' && name !== 'AppendUnknown') || performance.now() > untilMs)
      throw failed.reason;
    // A log that refuses at once must leave room for the interrupt, and is given time to come back.
    const pauseMs = Math.min(pauseMsMax, pauseMsMin * 2 ** Math.min(attempt, 10));
    await sleep(pauseMs, undefined, { signal: session.signal }).catch(() => undefined);
  }
}

/** Of two that began a log at once the first one's counts. */
async function checkOwn(log: ControlLog, id: string): Promise<void> {
  const found = await readLogId(log);
  if (found === id) return;
  throw new CliError(`log ${found} was begun at the same moment by somebody else`, {
    type: 'Conflict',
    exitCode: 6,
    why: 'its first record stands before ours, so ours does not count',
    next: 'stop all control planes, remove the log and begin again',
  });
}

async function readBack(log: ControlLog, { records: { length: seq }, digests }: RestorePlan): Promise<void> {
  const folded = memorySnapshot();
  try {
    const end = await log.end();
    for await (const { records, nextOffset } of log.tail({ from: 0 })) {
      folded.apply(records);
      if (nextOffset >= end) break;
    }
    const same = JSON.stringify(folded.digests()) === JSON.stringify(digests);
    if (folded.seq === seq && same && folded.divergedAt === null) return;
    throw new CliError('what was read back is not what was written', {
      type: 'DamagedLog',
      exitCode: 1,
      why: `the log holds ${folded.seq} of ${seq} commits`,
      next: 'stop all control planes, remove the log and begin again',
    });
  } finally {
    folded.close();
  }
}
