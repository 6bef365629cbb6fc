/** `headgate snapshot`: save the current state as one file, verify it, and restore from it. */
import { createHash, randomUUID } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { CliError, Exit } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import type { Session } from '../terminal/session.ts';
import { noun } from '../terminal/verbs.ts';
import type { RestoreOptions } from './restore.ts';

export function registerSnapshots(program: Command, io: Io): void {
  const snapshot = noun(program, io, 'snapshot', 'state files', 'past', 'headgate snapshot save backup.db');
  snapshot
    .verb('save <file>', 'save the current state', 'headgate snapshot save backup.db')
    .action((session, _options, file) => save(session, file));
  snapshot
    .verb('inspect <file>', 'show and verify a saved state', 'headgate snapshot inspect backup.db')
    .action(async (session, _options, file) => {
      const { inspectState } = await import('./state-file.ts');
      const found = inspectState(resolve(session.io.cwd, file));
      await session.out.resource({ file, ...found }, { name: () => file });
      if (!found.verified) throw new Exit(1);
    });
  snapshot
    .verb(
      'restore <file>',
      'create a new log from a saved state or an exported log, after the log was lost',
      'headgate snapshot restore backup.db --new-log --dry-run',
      'headgate snapshot restore backup.db --new-log --yes',
    )
    .repeated('--signer <public-key-file>', 'a signer in addition to HEADGATE_SIGNING_KEY; may be repeated')
    .option('--new-log', 'write to the empty log at HEADGATE_LOG, under a new log id')
    .action<RestoreOptions>(async (session, options, file) => {
      const { restore } = await import('./restore.ts');
      await restore(session, options, file);
    });
}

/** The file appears complete and verified, or not at all. */
async function save(session: Session, file: string): Promise<void> {
  const api = await session.api();
  const { headers, pieces } = await api.open('snapshot.get', {}, 120_000);
  const path = resolve(session.io.cwd, file);
  const part = `${path}.${randomUUID().slice(0, 8)}.part`;
  try {
    const { dryRun = false } = session.globals;
    const { sha256, bytes } = await download(pieces, dryRun ? undefined : part);
    if (sha256 !== headers.get('x-headgate-sha256'))
      throw new CliError('the snapshot was damaged in transit', {
        type: 'DamagedSnapshot',
        why: 'its SHA-256 differs from the one in the response header',
        next: 'try again',
      });
    if (!dryRun) await rename(part, path);
    const position = Number(headers.get('x-headgate-position'));
    const log = headers.get('x-headgate-log');
    const digest = headers.get('x-headgate-digest');
    const foldVersion = Number(headers.get('x-headgate-fold-version'));
    const resource = { file, log, position, foldVersion, digest, sha256, bytes, ...(dryRun && { dryRun }) };
    const done = dryRun ? `verified; ${file} would be saved` : `saved and verified ${file}`;
    await session.out.lines([`${done} at position ${position}`], resource, file);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

/** Without a path it is read and not kept. */
async function download(
  pieces: AsyncIterable<Uint8Array>,
  path: string | undefined,
): Promise<{ readonly sha256: string; readonly bytes: number }> {
  const hash = createHash('sha256');
  let bytes = 0;
  // It contains the names of organisations and people.
  const target = path === undefined ? undefined : await open(path, 'wx', 0o600);
  try {
    for await (const piece of pieces) {
      hash.update(piece);
      bytes += piece.length;
      await target?.writeFile(piece);
    }
    await target?.sync();
  } finally {
    await target?.close();
  }
  return { sha256: hash.digest('hex'), bytes };
}
