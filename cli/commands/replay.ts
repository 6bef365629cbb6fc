/** `headgate replay` folds a log in memory and prints its position and digests, which are equal on every machine. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { CliError, Exit, interrupted, usageError } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import { parsePosition } from '../terminal/options.ts';
import type { Session } from '../terminal/session.ts';
import { groups, verb } from '../terminal/verbs.ts';
import { readExportedLog } from './exported-log.ts';
import { openRecordedLog, readAllRecords } from './recorded-log.ts';
import type { ReplayDecideOptions } from './replay-decide.ts';

interface Options {
  readonly fromLog?: boolean;
  readonly to?: number;
  readonly verify?: boolean;
}

export function registerReplay(program: Command, io: Io): void {
  const replay = verb(program, io, 'replay [file]', 'replay a log in memory and print its digests', [
    'headgate replay log.jsonl --verify',
    'headgate replay --from-log --to 1000',
  ]);
  replay
    .option('--from-log', 'replay the control log that HEADGATE_LOG or the context file names')
    .option('--to <position>', 'stop at this position', parsePosition)
    .option('--verify', 'check the digests against the rows')
    .command.helpGroup(groups.past);
  replay.action<Options>((session, options, file?: string) => run(session, options, file));
  registerDecide(replay.command, io);
}

function registerDecide(replay: Command, io: Io): void {
  verb(replay, io, 'decide', 'decide recorded requests again, and print the differences', [
    'headgate replay decide --requests decisions.jsonl',
    'headgate replay decide --requests decisions.jsonl --at 18229',
  ])
    .required('--requests <file>', 'file that headgate decisions export wrote')
    .option('--at-recorded', 'decide each request at its recorded position; the default')
    .action<ReplayDecideOptions>(async (session, options) => {
      const { replayDecide } = await import('./replay-decide.ts');
      await replayDecide(session, options);
    });
}

async function run(session: Session, options: Options, file: string | undefined): Promise<void> {
  const given = [file, options.fromLog].filter((source) => source !== undefined).length;
  if (given !== 1) throw usageError('give either a file or --from-log', 'headgate replay --help');
  const log = options.fromLog ? await openRecordedLog(session) : undefined;
  try {
    const records = log ? readAllRecords(log) : readExportedLog(resolve(session.io.cwd, file ?? ''));
    await replay(session, options, records);
  } finally {
    await log?.close();
  }
}

async function replay(
  session: Session,
  { to, verify: isVerified }: Options,
  records: AsyncIterable<readonly LogRecord[]>,
): Promise<void> {
  const { memorySnapshot } = await import('../../shared/snapshot/open-snapshot.ts');
  const snapshot = memorySnapshot();
  try {
    const first = (await foldAll(session, snapshot, records, to)) ?? 0;
    if (snapshot.seq === 0) throw first > 1 ? laterBeginningError(first) : noLogError();
    await show(session, snapshot, isVerified === true);
    if (to !== undefined && snapshot.seq < to)
      throw new CliError(`the log ends at position ${snapshot.seq}, before ${to}`, {
        type: 'NotFound',
      });
  } finally {
    snapshot.close();
  }
}

/** Prints the result. Throws Exit with code 1 if the fold halted or digests differ. */
async function show(session: Session, snapshot: Snapshot, isVerified: boolean): Promise<void> {
  const { verify } = await import('../../shared/snapshot/verify.ts');
  const { log, seq, skipped, halt, divergedAt } = snapshot;
  const differing = isVerified ? verify(snapshot.db).differing : [];
  const resource = {
    log,
    position: seq,
    digest: snapshot.digest(),
    digests: snapshot.digests(),
    skipped,
    ...(isVerified && { verified: differing.length === 0 && divergedAt === null, differing }),
    ...(divergedAt !== null && { divergedAt }),
    ...(halt && { halted: `at position ${halt.seq}: ${halt.reason}` }),
  };
  await session.out.resource(resource, { name: () => log });
  if (halt || divergedAt !== null || differing.length > 0) throw new Exit(1);
}

/** Creates the error for an export that does not begin with the log's first commit and so cannot be folded. */
function laterBeginningError(first: number): CliError {
  return new CliError(`the input begins at position ${first}, but a replay needs all commits before it`, {
    type: 'NotFound',
    next: 'headgate events export --out log.jsonl',
  });
}

function noLogError(): CliError {
  return new CliError('the input contains no record of a control log', {
    type: 'InvalidFile',
    next: 'headgate events export --out log.jsonl',
  });
}

/** Folds records until the end, position `to` or a halt of the fold. Returns the position of the first commit read. */
async function foldAll(
  session: Session,
  snapshot: Snapshot,
  records: AsyncIterable<readonly LogRecord[]>,
  to: number | undefined,
): Promise<number | undefined> {
  const { parseCommit } = await import('../../schemas/events/commit.ts');
  const report = session.progress();
  let first: number | undefined;
  for await (const batch of records) {
    if (session.signal.aborted) throw interrupted();
    first ??= batch[0] && parseCommit(batch[0].value)?.seq;
    // Drop commits after `to`, because the fold must not go past that position.
    const wanted = batch.filter(({ value }) => to === undefined || (parseCommit(value)?.seq ?? 0) <= to);
    snapshot.apply(wanted);
    if (snapshot.halt || (to !== undefined && snapshot.seq >= to)) return first;
    report(`position ${snapshot.seq}`);
  }
  return first;
}
