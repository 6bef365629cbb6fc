/**
 * `headgate replay`: folds a log in memory and prints the resulting position and digests. Two machines that replay
 * the same log get the same digests; --verify also checks that rows and digests agree.
 */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { CliError, Exit, interrupted, usageError } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import { position } from '../terminal/options.ts';
import type { Session } from '../terminal/session.ts';
import { groups, verb } from '../terminal/verbs.ts';
import { recordsOfLog } from './recorded-log.ts';
import type { ReplayDecideOptions } from './replay-decide.ts';

interface Options {
  readonly fromLog?: boolean;
  readonly to?: number;
  readonly verify?: boolean;
}

const batchRecords = 500;

export function registerReplay(program: Command, io: Io): void {
  const replay = verb(program, io, 'replay [file]', 'replay a log in memory and print its digests', [
    'headgate replay log.jsonl --verify',
    'headgate replay --from-log --to 1000',
  ]);
  replay
    .option('--from-log', 'read the control log itself: HEADGATE_LOG, or the log of the context file')
    .option('--to <position>', 'stop at this position', position)
    .option('--verify', 'verify the digests against the rows')
    .command.helpGroup(groups.past);
  replay.action<Options>((session, options, file?: string) => run(session, options, file));
  registerDecide(replay.command, io);
}

function registerDecide(replay: Command, io: Io): void {
  verb(replay, io, 'decide', 'decide recorded requests again, and print what differs', [
    'headgate replay decide --requests decisions.jsonl',
    'headgate replay decide --requests decisions.jsonl --at 18229',
  ])
    .required('--requests <file>', 'lines of headgate decisions export')
    .option('--at-recorded', 'each at its recorded position; so it is without --at')
    .action<ReplayDecideOptions>(async (session, options) => {
      const { replayDecide } = await import('./replay-decide.ts');
      await replayDecide(session, options);
    });
}

async function run(session: Session, options: Options, file: string | undefined): Promise<void> {
  if ((file === undefined) === (options.fromLog !== true))
    throw usageError('give either a file or --from-log', 'headgate replay --help');
  const { memorySnapshot } = await import('../../shared/snapshot/open-snapshot.ts');
  const { verify } = await import('../../shared/snapshot/verify.ts');
  const snapshot = memorySnapshot();
  try {
    const records = file === undefined ? recordsOfLog(session) : recordsOfFile(resolve(session.io.cwd, file));
    await foldAll(session, snapshot, records, options.to);
    if (snapshot.seq === 0) throw noLog();
    const { log, seq, skipped, halt, divergedAt } = snapshot;
    const differing = options.verify ? verify(snapshot.db).differing : [];
    const resource = {
      log,
      position: seq,
      digest: snapshot.digest(),
      digests: snapshot.digests(),
      skipped,
      ...(options.verify && { verified: differing.length === 0 && divergedAt === null, differing }),
      ...(divergedAt !== null && { divergedAt }),
      ...(halt && { halted: `at position ${halt.seq}: ${halt.reason}` }),
    };
    await session.out.resource(resource, { name: () => log });
    if (halt || divergedAt !== null || differing.length > 0) throw new Exit(1);
    if (options.to !== undefined && seq < options.to)
      throw new CliError(`the log ends at position ${seq}, before ${options.to}`, {
        type: 'NotFound',
        exitCode: 3,
      });
  } finally {
    snapshot.close();
  }
}

function noLog(): CliError {
  return new CliError('the input contains no record of a control log', {
    type: 'InvalidFile',
    exitCode: 2,
    next: 'headgate events export --out log.jsonl',
  });
}

/** Folds records until the end, `to`, or a halt. */
async function foldAll(
  session: Session,
  snapshot: Snapshot,
  records: AsyncIterable<readonly LogRecord[]>,
  to: number | undefined,
): Promise<void> {
  const { parseCommit } = await import('../../schemas/commit.ts');
  let reportedMs = performance.now();
  for await (const batch of records) {
    if (session.signal.aborted) throw interrupted();
    // A record after `to` cannot be the next one yet, so omitting it changes nothing before it.
    const wanted = batch.filter(({ value }) => to === undefined || (parseCommit(value)?.seq ?? 0) <= to);
    snapshot.apply(wanted);
    if (snapshot.halt || (to !== undefined && snapshot.seq >= to)) return;
    if (performance.now() - reportedMs > 5000) {
      session.note(`position ${snapshot.seq}`);
      reportedMs = performance.now();
    }
  }
}

async function* recordsOfFile(path: string): AsyncIterable<readonly LogRecord[]> {
  const { exportedRecords } = await import('./exported-log.ts');
  yield* exportedRecords(path, batchRecords);
}
