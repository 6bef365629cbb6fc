/** Id of a data folder, and number of starts on it. A higher number proves that all earlier processes on it have ended. */
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

/** Reads id and number of starts. Without a readable file, creates a new id, because earlier processes may still run. */
function read(path: string): FolderStart | undefined {
  try {
    return folderStartSchema.parse(JSON.parse(textOfNamed(path)));
  } catch {
    return undefined;
  }
}
