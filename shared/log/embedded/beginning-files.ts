/**
 * The beginning of an embedded log that was cut, in files of its folder: `TOPIC.beginning.json` says where the log begins, and
 * names the file of the state there. The first is replaced in one step once the second is on the disk, and only then records are
 * removed: each reader that finds it begins there, whether the records before it are removed already or not.
 * They are files of their own, because earlier builds refuse a database with tables that they do not know.
 */
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { errorCode } from '../../runtime/error-code.ts';
import { readNamed, streamNamed } from '../../runtime/named-file.ts';
import { writeFileAtomically } from '../../runtime/ready-file.ts';
import {
  type BeginningFacts,
  beginningOf,
  parseBeginning,
  renderBeginning,
  unusableBeginning,
  writeState,
} from '../core/beginning.ts';
import type { LogBeginning, LogRecord } from '../core/control-log.ts';

const bytesMax = 64 * 1024 * 1024;

/** What is at the path of a log, without its ending. */
function stemOf(logPath: string): string {
  return logPath.replace(/\.db$/, '');
}

/** Of the file that says where a log begins. */
function beginningPath(logPath: string): string {
  return `${stemOf(logPath)}.beginning.json`;
}

/** Of the state at a position, as one fold makes it. */
export function beginningStatePath(
  logPath: string,
  { seq, foldVersion }: Pick<LogBeginning, 'seq' | 'foldVersion'>,
): string {
  return `${stemOf(logPath)}.beginning-${seq}-${foldVersion}.db`;
}

/** Undefined where the log has none. Throws LogUnreadable where it is damaged, or that of another log. */
export function readBeginning(
  logPath: string,
  recordAt: (offset: number) => LogRecord | undefined,
): LogBeginning | undefined {
  const path = beginningPath(logPath);
  if (!existsSync(path)) return undefined;
  const facts = parseBeginning(textOf(path));
  if (facts === undefined || !('file' in facts.state))
    throw unusableBeginning(path, 'it is not what was written');
  const { state, seq, log } = facts;
  const beginning = beginningOf(facts, recordAt(facts.offset), (to) =>
    copyState(join(dirname(path), state.file), to, state),
  );
  if (beginning === undefined)
    throw unusableBeginning(
      path,
      `${basename(logPath)} does not have commit ${seq} of log ${log} at its place`,
    );
  return beginning;
}

/** From here on the log begins there. The file of the state must be on the disk. */
export function writeBeginning(logPath: string, facts: BeginningFacts): void {
  writeFileAtomically(beginningPath(logPath), renderBeginning(facts));
}

function textOf(path: string): string {
  try {
    return readNamed(path, bytesMax, { refuseLinks: true }).toString('utf8');
  } catch (error) {
    throw unusableBeginning(path, error instanceof Error ? error.message : String(error));
  }
}

async function copyState(from: string, to: string, content: BeginningFacts['state']): Promise<void> {
  let isWhole: boolean;
  try {
    const source = streamNamed(from, { refuseLinks: true, bytesMax: content.bytes });
    isWhole = await writeState(source, to, content);
  } catch (error) {
    const why = errorCode(error) === 'ENOENT' ? 'it is missing' : (error as Error).message;
    throw unusableBeginning(from, why);
  }
  if (!isWhole) throw unusableBeginning(from, 'it is not what was written');
}
