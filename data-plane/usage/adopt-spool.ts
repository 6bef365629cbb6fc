/** Appends what a build before the log of rows left in its spool to the log, once. */
import { derivedId, endEarlierSpool, readEarlierSpool, type SpooledGroup } from './earlier-spool.ts';
import type { Outbox } from './outbox.ts';
import { append, openUsageLog } from './usage-log.ts';

/** Groups that are appended together have about so many characters at most. */
const charactersMax = 1024 * 1024;

/** Rows of one incarnation, and the number of their last group. */
interface Chunk {
  readonly process: string;
  readonly incarnation: string;
  readonly spool: number;
  readonly rows: string;
  readonly count: number;
}

/** Rejects where the log or the files cannot be written: the rest is taken at the next start. */
export async function adoptEarlierSpool(outbox: Outbox, path: string): Promise<void> {
  const { groups, damaged } = readEarlierSpool(path, outbox.file.id, outbox.file.taken.spool);
  const isContinued = isWithoutGap(groups, outbox.file.taken.spool);
  // An older database was brought back: most of these rows were billed.
  const isOther = !isContinued && damaged.length === 0;
  for (const chunk of isOther ? [] : chunksOf(groups, outbox)) {
    const { incarnation, spool, rows, count } = chunk;
    // A segment of its own, because its heading says how far the spool is in the log.
    const log = openUsageLog(outbox.logStart({ incarnation, spool }), () => 0);
    await append(log, { rows, count });
    await log.close();
    if (!outbox.takeMore()) throw new Error('the spool of an earlier build waits for the next start');
  }
  const kept = endEarlierSpool(path, isOther ? 'all' : damaged, Date.now());
  if (kept.length > 0)
    throw new Error(`parts of the spool of usage cannot be read and are not billed: ${kept.join(', ')}`);
}

function isWithoutGap(groups: readonly SpooledGroup[], taken: number): boolean {
  return groups.every(({ number }, at) => number === taken + at + 1);
}

function chunksOf(groups: readonly SpooledGroup[], { file }: Outbox): Chunk[] {
  const chunks: Chunk[] = [];
  for (const { incarnation: process, number: spool, rows, count } of groups) {
    const last = chunks.at(-1);
    if (last?.process === process && last.rows.length + rows.length <= charactersMax)
      chunks[chunks.length - 1] = { ...last, spool, rows: last.rows + rows, count: last.count + count };
    else {
      // A spool that was away while another process wrote: its rows get an id of their own, the same in each copy of the folder.
      const isBehind = process !== file.taken.incarnation && file.earlier.ids.includes(process);
      const own = isBehind ? derivedId(`${process} ${spool - 1}`) : process;
      const incarnation = last?.process === process ? last.incarnation : own;
      chunks.push({ process, incarnation, spool, rows, count });
    }
  }
  return chunks;
}
