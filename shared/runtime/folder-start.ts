/** Id of a data folder, and a count of its starts. A higher count proves that all earlier processes on it have ended. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { textOfNamed } from './named-file.ts';
import { writeJsonAtomically } from './ready-file.ts';

const folderStartSchema = z.object({ id: z.string().min(1).max(64), start: z.int().min(1) });
export type FolderStart = z.infer<typeof folderStartSchema>;

/** Increments the folder's count of starts. Call it while holding the folder's lock. Throws if the file cannot be written. */
export function countStart(dataDir: string): FolderStart {
  const path = join(dataDir, 'starts.json');
  const before = read(path);
  const now = before ? { ...before, start: before.start + 1 } : { id: randomUUID(), start: 1 };
  writeJsonAtomically(path, now);
  return now;
}

/** Reads the file. If it is missing or unreadable, the folder gets a new id, because earlier processes may still run. */
function read(path: string): FolderStart | undefined {
  try {
    return folderStartSchema.parse(JSON.parse(textOfNamed(path)));
  } catch {
    return undefined;
  }
}
