/**
 * A persistent id of the data folder, and a counter of the starts from it. A process increments it while it holds the lock
 * of the folder, so a higher start number proves that every earlier process of the folder has ended.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { textOfNamed } from './named-file.ts';
import { writeJsonAtomically } from './ready-file.ts';

const folderStartSchema = z.object({ id: z.string().min(1).max(64), start: z.int().min(1) });
export type FolderStart = z.infer<typeof folderStartSchema>;

/** Increments the counter. Call it while holding the lock of the folder. Throws where the file cannot be written. */
export function countStart(dataDir: string): FolderStart {
  const path = join(dataDir, 'starts.json');
  const before = read(path);
  const now = before ? { ...before, start: before.start + 1 } : { id: randomUUID(), start: 1 };
  writeJsonAtomically(path, now);
  return now;
}

/** A missing or unreadable file gives the folder a new id, because nothing proves which earlier processes ended. */
function read(path: string): FolderStart | undefined {
  try {
    return folderStartSchema.parse(JSON.parse(textOfNamed(path)));
  } catch {
    return undefined;
  }
}
