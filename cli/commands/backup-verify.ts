/** `headgate backup verify DIR` checks a backup's checksums, commits and databases without changing anything. */
import { resolve } from 'node:path';
import { memorySnapshot } from '../../shared/snapshot/open-snapshot.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { interrupted } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';
import { checkDatabase, checkFile, readSegment } from './backup-files.ts';
import { damagedError, type Manifest, requireManifest } from './backup-manifest.ts';

export interface VerifiedBackup {
  readonly manifest: Manifest;
  readonly digest: string;
  readonly bytes: number;
}

export async function verifyBackup(session: Session, folder: string): Promise<void> {
  const { manifest, digest, bytes } = await checkBackup(session, resolve(session.io.cwd, folder));
  const { log, createdAt, segments, data } = manifest;
  const resource = {
    folder,
    log: log.id,
    position: log.position,
    digest,
    createdAt,
    files: segments.length + data.length,
    bytes,
  };
  await session.out.lines(
    [
      `${folder} is whole: log ${log.id} to position ${log.position}, ${data.map(({ name }) => name).join(', ') || 'no usage'}, of ${createdAt}`,
    ],
    resource,
    folder,
  );
}

/** Verifies the backup. Throws a `CliError` that names the first damaged file. */
export async function checkBackup(session: Session, dir: string): Promise<VerifiedBackup> {
  const manifest = requireManifest(dir);
  const files = [...manifest.segments, ...manifest.data];
  for (const file of files) {
    if (session.signal.aborted) throw interrupted();
    await checkFile(dir, file);
  }
  const snapshot = memorySnapshot();
  try {
    for (const segment of manifest.segments) await fold(session, dir, snapshot, segment);
    const { seq, hash, log, signers } = snapshot.head;
    // Compare the manifest with the segments, because a manifest with other signers would hide who really signed the log.
    if (log !== manifest.log.id || JSON.stringify(signers) !== JSON.stringify(manifest.log.signers))
      throw damagedError('manifest.json', `its segments belong to log ${log} with ${signers.length} signers`);
    if (seq !== manifest.log.position || hash !== manifest.log.hash)
      throw damagedError(
        'manifest.json',
        `its segments end at position ${seq} instead of ${manifest.log.position}`,
      );
    for (const copy of manifest.data) checkDatabase(dir, copy);
    return { manifest, digest: snapshot.digest(), bytes: files.reduce((sum, { bytes }) => sum + bytes, 0) };
  } finally {
    snapshot.close();
  }
}

async function fold(
  session: Session,
  dir: string,
  snapshot: Snapshot,
  segment: Manifest['segments'][number],
): Promise<void> {
  const { file, to } = segment;
  for await (const records of readSegment(dir, segment)) {
    if (session.signal.aborted) throw interrupted();
    snapshot.apply(records);
  }
  if (snapshot.halt) throw damagedError(file, `position ${snapshot.halt.seq}: ${snapshot.halt.reason}`);
  if (snapshot.divergedAt !== null)
    throw damagedError(file, `the checkpoint at position ${snapshot.divergedAt} has other digests`);
  if (snapshot.seq !== to) throw damagedError(file, `it ends at position ${snapshot.seq} instead of ${to}`);
}
