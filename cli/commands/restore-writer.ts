/**
 * Writes a restore to an empty log: each record in order, retried until acknowledged. Then reads the whole log back
 * and compares. Readers skip duplicate records, so a retry is safe.
 */

import { controlTopic } from '../../schemas/commit.ts';
import { batchesToEnd } from '../../shared/log/core/batches-to-end.ts';
import type { ControlLog } from '../../shared/log/core/control-log.ts';
import { openLog } from '../../shared/log/open-log.ts';
import { Backoff } from '../../shared/runtime/retry.ts';
import { readLogId } from '../../shared/snapshot/log-identity.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import { CliError, interrupted } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';
import { requireLogUrl } from './recorded-log.ts';
import type { RestorePlan } from './restore-plan.ts';

/** Concurrent appends. */
export const appendsAtOnce = 100;
/** How long an unreachable log is retried. */
const retryForMs = 60_000;

/** Opens the log. Throws a CliError with exit 6 if it is not empty. */
async function openEmpty(session: Session): Promise<ControlLog> {
  const log = await openLog(requireLogUrl(session), { topic: controlTopic });
  try {
    const end = await log.end();
    if (end === 0) return log;
    const id = await readLogId(log).catch(() => null);
    throw new CliError('the log at HEADGATE_LOG is not empty', {
      type: 'Conflict',
      why: id === null ? `it ends at offset ${end}` : `it contains log ${id}, up to offset ${end}`,
      next: 'move the file or delete the topic (see docs/operate.md), also after an interrupted restore',
    });
  } catch (error) {
    await log.close();
    throw error;
  }
}

/** Throws a CliError if the log is not empty, or if it does not contain the plan afterwards. */
export async function writeRestore(session: Session, plan: RestorePlan): Promise<void> {
  const [first, ...rest] = plan.records;
  const log = await openEmpty(session);
  try {
    if (first) await append(session, log, [first]);
    await checkOwn(log, plan.log);
    const report = session.progress();
    for (let done = 0; done < rest.length; done += appendsAtOnce) {
      await append(session, log, rest.slice(done, done + appendsAtOnce));
      report(`${done + 1} of ${plan.records.length} commits`);
    }
    await readBack(log, plan);
  } finally {
    await log.close();
  }
}

/** Appends in order and retries until all are acknowledged: readers skip duplicates. */
export async function append(
  session: Session,
  log: ControlLog,
  records: RestorePlan['records'],
): Promise<void> {
  const untilMs = performance.now() + retryForMs;
  const backoff = new Backoff({ minMs: 50, maxMs: 2000 });
  for (;;) {
    if (session.signal.aborted) throw interrupted();
    const done = await Promise.allSettled(
      records.map(({ value, signature }) => log.append(value, signature)),
    );
    const failed = done.find((one) => one.status === 'rejected');
    if (!failed) return;
    const { name } = failed.reason as Error;
    if ((name !== 'LogUnavailable' && name !== 'AppendUnknown') || performance.now() > untilMs)
      throw failed.reason;
    // Back off: the log may recover, and Ctrl-C must be handled even if appends fail at once.
    await backoff.pause(session.signal);
  }
}

/** If two writers create a log at the same time, the first record counts. */
async function checkOwn(log: ControlLog, id: string): Promise<void> {
  const found = await readLogId(log);
  if (found === id) return;
  throw new CliError(`another process created log ${found} at the same time`, {
    type: 'Conflict',
    why: 'its first record precedes ours, so readers ignore ours',
    next: 'stop all control planes, delete the log and retry',
  });
}

async function readBack(log: ControlLog, { records: { length: seq }, digests }: RestorePlan): Promise<void> {
  const folded = memorySnapshot();
  try {
    for await (const records of batchesToEnd(log)) folded.apply(records);
    const same = JSON.stringify(folded.digests()) === JSON.stringify(digests);
    if (folded.seq === seq && same && folded.divergedAt === null) return;
    throw new CliError('the log read back differs from what was written', {
      type: 'DamagedLog',
      why: `the log contains ${folded.seq} of ${seq} commits`,
      next: 'stop all control planes, delete the log and retry',
    });
  } finally {
    folded.close();
  }
}
