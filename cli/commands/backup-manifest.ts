/**
 * Manifest of a backup: its log position, and its files with checksums. It is replaced atomically once all files are on disk.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { errorCode } from '../../shared/runtime/error-code.ts';
import { NoRegularFile, readNamed } from '../../shared/runtime/named-file.ts';
import { writeFileAtomically } from '../../shared/runtime/ready-file.ts';
import { CliError } from '../terminal/errors.ts';

const manifestName = 'manifest.json';
const bytesMax = 256 * 1024 * 1024;
/** Name of a file in the backup folder. The pattern rules out paths to other folders. */
const fileName = z.string().regex(/^[a-z0-9][a-z0-9.-]{0,80}$/);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const fileSchema = z.strictObject({ file: fileName, bytes: z.int().min(0), sha256 });

/** Path of a database that contains one day's completed requests. */
const dayName = z.string().regex(/^usage-rows\/\d{4}-\d\d-\d\d\.db$/);

const manifestSchema = z.strictObject({
  format: z.literal(1),
  headgate: z.string().max(100),
  createdAt: z.string().max(40),
  /** Number of backups made into this folder so far, including this one. */
  number: z.int().min(1),
  log: z.strictObject({
    id: z.string().min(1).max(200),
    position: z.int().min(1),
    /** Hash of the last commit in the backup. */
    hash: sha256,
    signers: z.array(z.string().max(1000)).max(1000),
    /** Offset of the last commit in the log. The next backup continues after it. */
    offset: z.int().min(0),
  }),
  /** Files with the records of the control log, in order. */
  segments: z.array(fileSchema.extend({ from: z.int().min(1), to: z.int().min(1) })).max(1_000_000),
  /** Copies of databases from a control plane's data folder. `name` is the path of the original in that folder. */
  data: z
    .array(fileSchema.extend({ name: z.enum(['usage.db', 'gateways.db']).or(dayName) }))
    .max(10_000)
    .refine((files) => new Set(files.map(({ name }) => name)).size === files.length),
});

export type Manifest = z.infer<typeof manifestSchema>;
export type BackupFile = z.infer<typeof fileSchema>;
export type DataFile = Manifest['data'][number];

/** Reads the manifest. Returns undefined if it is missing. Throws a `CliError` if it is damaged or from a later version. */
export function readManifest(dir: string): Manifest | undefined {
  let text: string;
  try {
    text = readNamed(join(dir, manifestName), bytesMax, { refuseLinks: true }).toString('utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error instanceof NoRegularFile ? damagedError(manifestName, error.message) : error;
  }
  const manifest = parse(text);
  // A manifest has only one valid rendering, so any changed byte is detected.
  if (manifest === undefined || render(manifest) !== text)
    throw damagedError(manifestName, 'it was changed after it was written');
  return manifest;
}

/** Reads the manifest. Throws a `CliError` if the folder does not contain a backup. */
export function requireManifest(dir: string): Manifest {
  const manifest = readManifest(dir);
  if (manifest) return manifest;
  throw new CliError(`${dir} does not contain a backup`, {
    type: 'NotFound',
    why: `there is no ${manifestName}`,
    next: 'headgate backup DIR --data FOLDER',
  });
}

export function writeManifest(dir: string, manifest: Manifest): void {
  writeFileAtomically(join(dir, manifestName), render(manifest));
}

export function damagedError(file: string, why: string): CliError {
  return new CliError(`the backup is damaged: ${file}`, {
    type: 'DamagedBackup',
    why,
    next: `put ${file} back from another copy of this backup, or make a new backup into an empty folder`,
  });
}

function parse(text: string): Manifest | undefined {
  try {
    return manifestSchema.safeParse((JSON.parse(text) as { manifest?: unknown }).manifest).data;
  } catch {
    return undefined;
  }
}

function render(manifest: Manifest): string {
  const sum = createHash('sha256').update(JSON.stringify(manifest)).digest('hex');
  return `${JSON.stringify({ manifest, sha256: sum }, null, 2)}\n`;
}
