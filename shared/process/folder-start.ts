/**
 * Identifies a data folder, and counts the starts from it. A process that holds the folder's lock proves by a later
 * start that every earlier process of the folder has ended.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { writeJsonAtomically } from './ready-file.ts';

const folderStartSchema = z.object({ id: z.string().min(1).max(64), start: z.int().min(1) });
export type FolderStart = z.infer<typeof folderStartSchema>;

/** Counts this start. To be called by the process that holds the folder's lock. Throws where it cannot be written. */
export function countStart(dataDir: string): FolderStart {
  const path = join(dataDir, 'starts.json');
  const before = read(path);
  const now = before ? { ...before, start: before.start + 1 } : { id: randomUUID(), start: 1 };
  writeJsonAtomically(path, now);
  return now;
}

/** A file that is missing or cannot be read begins a new folder: it proves nothing about earlier processes. */
function read(path: string): FolderStart | undefined {
  try {
    return folderStartSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    return undefined;
  }
}
