/** `headgate replay decide` decides recorded requests again with this build and prints the decisions that differ. */
import { resolve } from 'node:path';
import { chooseView, decideWithLookup, questionFromRecord } from '../../control-plane/explain/question.ts';
import {
  type Difference,
  findDifference,
  isDecided,
} from '../../control-plane/explain/recorded-difference.ts';
import { parseCommit } from '../../schemas/events/commit.ts';
import { type DecisionRecord, decisionRecordSchema } from '../../schemas/records/decisions.ts';
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { createLookup } from '../../shared/snapshot/lookup.ts';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { CliError, Exit, interrupted, usageError } from '../terminal/errors.ts';
import { writeAll } from '../terminal/io.ts';
import type { Session } from '../terminal/session.ts';
import { parseRecords, readLines, splitLines } from './exported-log.ts';
import { configuredLogUrl, openRecordedLog, readAllRecords } from './recorded-log.ts';

export interface ReplayDecideOptions {
  readonly requests?: string;
  readonly atRecorded?: boolean;
}

interface Counts {
  decided: number;
  differ: number;
  /** Number of decisions at positions that the log does not contain. */
  outside: number;
  /** Number of requests that ended before they were decided. */
  undecided: number;
}

export async function replayDecide(
  session: Session,
  { requests = '', atRecorded }: ReplayDecideOptions,
): Promise<void> {
  const at = parseReplayPosition(session.globals.at);
  if (at !== undefined && atRecorded) throw usageError('give either --at-recorded or --at');
  const recorded = await readRecords(resolve(session.io.cwd, requests));
  const compared = recorded.filter(isDecided);
  const byPosition = groupByPosition(compared, at);
  const undecided = recorded.length - compared.length;
  const counts: Counts = { decided: 0, differ: 0, outside: 0, undecided };
  const log = configuredLogUrl(session) === undefined ? undefined : await openRecordedLog(session);
  const snapshot = memorySnapshot();
  const lookup = createLookup(snapshot.db);
  try {
    // Read the log directly if its address is known. Otherwise read it through the control plane.
    const records = log ? readAllRecords(log) : exportRecords(session);
    const positions = [...byPosition.keys()].filter((position) => position > 0).sort((a, b) => a - b);
    for await (const position of foldToPositions(session, snapshot, positions, records)) {
      for (const record of byPosition.get(position) ?? []) {
        const kind = { kind: 'present', view: chooseView(record, position) } as const;
        const decided = snapshot.stateAt(kind, () => decideWithLookup(lookup, questionFromRecord(record)));
        await report(session, record, findDifference(record, decided), counts);
      }
      byPosition.delete(position);
    }
  } finally {
    snapshot.close();
    await log?.close();
  }
  if (at !== undefined && byPosition.has(at))
    throw new CliError(`the log has no position ${at}`, {
      type: 'NotFound',
      next: 'headgate status',
    });
  for (const rest of byPosition.values()) counts.outside += rest.length;
  await reportAll(session, counts);
}

/** Parses --at, which must be a position, because only a control plane can convert a time and none may be running. */
function parseReplayPosition(at: string | undefined): number | undefined {
  if (at === undefined) return undefined;
  if (/^[1-9][0-9]{0,14}$/.test(at)) return Number(at);
  throw usageError('replay decide takes a position for --at');
}

async function readRecords(path: string): Promise<DecisionRecord[]> {
  const records: DecisionRecord[] = [];
  let number = 0;
  for await (const line of readLines(path)) {
    number++;
    if (line.trim() !== '') records.push(parseDecision(line, `${path}:${number}:1`));
  }
  return records;
}

function parseDecision(line: string, where: string): DecisionRecord {
  try {
    return decisionRecordSchema.parse(JSON.parse(line));
  } catch (error) {
    throw new CliError(`${where} is not a recorded decision`, {
      type: 'InvalidFile',
      next: 'headgate decisions export > decisions.jsonl',
      cause: error,
    });
  }
}

function groupByPosition(
  records: readonly DecisionRecord[],
  at: number | undefined,
): Map<number, DecisionRecord[]> {
  const groups = new Map<number, DecisionRecord[]>();
  for (const record of records) {
    const position = at ?? record.position;
    const group = groups.get(position);
    if (group === undefined) groups.set(position, [record]);
    else group.push(record);
  }
  return groups;
}

/** Folds the log once. Yields each wanted position when the state has reached it, so that requests can be decided there. */
async function* foldToPositions(
  session: Session,
  snapshot: Snapshot,
  positions: readonly number[],
  records: AsyncIterable<readonly LogRecord[]>,
): AsyncIterable<number> {
  const wanted = new Set(positions);
  const last = positions.at(-1) ?? 0;
  if (wanted.has(snapshot.seq)) yield snapshot.seq;
  for await (const batch of records) {
    if (session.signal.aborted) throw interrupted();
    for (const part of splitAtPositions(wanted, batch)) {
      const before = snapshot.seq;
      snapshot.apply(part);
      if (snapshot.seq > before && wanted.has(snapshot.seq)) yield snapshot.seq;
    }
    if (snapshot.seq >= last || snapshot.halt) return;
  }
}

/** Splits a batch after each record at a wanted position. */
function* splitAtPositions(
  wanted: ReadonlySet<number>,
  batch: readonly LogRecord[],
): Iterable<readonly LogRecord[]> {
  let start = 0;
  for (const [index, { value }] of batch.entries()) {
    if (!wanted.has(parseCommit(value)?.seq ?? 0)) continue;
    yield batch.slice(start, index + 1);
    start = index + 1;
  }
  if (start < batch.length) yield batch.slice(start);
}

async function* exportRecords(session: Session): AsyncIterable<readonly LogRecord[]> {
  const { pieces } = await (await session.presentApi()).open('log.export', {}, 120_000);
  yield* parseRecords(splitLines(pieces), 'the log');
}

async function report(
  session: Session,
  { req, position }: DecisionRecord,
  difference: Difference | undefined,
  counts: Counts,
): Promise<void> {
  counts.decided++;
  if (difference === undefined) return;
  counts.differ++;
  const { step, recorded, now } = difference;
  const text =
    session.out.format === 'table'
      ? `${req}  position ${position}  ${step}\n  recorded  ${recorded}\n  now       ${now}\n`
      : `${JSON.stringify({ req, position, step, recorded, now })}\n`;
  await writeAll(session.io.stdout, text);
}

async function reportAll(session: Session, counts: Counts): Promise<void> {
  const { undecided, ...others } = counts;
  const { decided, differ, outside } = others;
  const texts = [
    `${decided} decisions decided again, ${differ} differ`,
    ...(undecided === 0 ? [] : [`${undecided} left out: they ended before they were decided`]),
    ...(outside === 0 ? [] : [`${outside} left out: the log does not have their positions`]),
  ];
  if (session.out.format === 'table') await writeAll(session.io.stdout, `${texts.join('\n')}\n`);
  else await writeAll(session.io.stdout, `${JSON.stringify(undecided === 0 ? others : counts)}\n`);
  if (differ > 0) throw new Exit(1);
}
