/**
 * Shows a secret that exists only in this one answer: a key's value or a token's.
 * It goes to stdout alone or into a file for its owner's eyes; everything else that is to be said goes to stderr.
 */
import { closeSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import { CliError, usageError } from '../terminal/errors.ts';
import type { Resource } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';

/** Where the value goes; made before it is asked for, so that a disk that refuses cannot lose it. */
export interface SecretOutput {
  readonly file?: { readonly path: string; readonly descriptor: number };
}

/** Throws a usage error where the value would be lost or a file overwritten. */
export function openSecretOutput(session: Session, file: string | undefined): SecretOutput {
  if (file === undefined) {
    if (session.out.format === 'name')
      throw usageError('-o name would lose the value, which is shown only once', 'add --out FILE');
    return {};
  }
  const path = resolve(session.io.cwd, file);
  try {
    return { file: { path, descriptor: openSync(path, 'wx', 0o600) } };
  } catch (error) {
    const exists = (error as NodeJS.ErrnoException).code === 'EEXIST';
    throw new CliError(exists ? `${file} exists already` : `${file} cannot be written`, {
      type: 'InvalidFile',
      exitCode: 2,
      next: 'name another file with --out',
      cause: error,
    });
  }
}

/** Runs the command that makes the secret, and takes the file away again where it failed. */
export async function createSecret(place: SecretOutput, make: () => Promise<Resource>): Promise<Resource> {
  try {
    return await make();
  } catch (error) {
    if (place.file) {
      closeSync(place.file.descriptor);
      rmSync(place.file.path, { force: true });
    }
    throw error;
  }
}

export interface SecretLabels {
  /** What it is and for whom, for stderr. */
  readonly summary: string;
  /** The command that takes it back. */
  readonly revoke: string;
}

/** Shows the answer. Throws a CliError where the value is not in it: a repeated command answers without. */
export async function showSecret(
  session: Session,
  place: SecretOutput,
  resource: Resource,
  words: SecretLabels,
): Promise<void> {
  const { value, ...rest } = resource;
  if (place.file) keep(place.file, typeof value === 'string' ? value : '');
  if (session.globals.dryRun) return session.out.resource(rest, { name: (it) => it['id'] });
  if (typeof value !== 'string')
    throw new CliError('it was created, but its value did not arrive', {
      type: 'ValueLost',
      exitCode: 1,
      why: 'the value is sent only once, and that answer was lost',
      next: `${words.revoke}, then create anew`,
    });
  session.note(words.summary);
  if (place.file) {
    session.note(`its value is in ${place.file.path}; it is not shown again`);
    return session.out.lines([String(resource['id'])], rest, resource['id']);
  }
  session.note('its value is shown this once and cannot be recovered');
  await session.out.lines([value], resource, resource['id']);
}

function keep({ path, descriptor }: NonNullable<SecretOutput['file']>, value: string): void {
  if (value !== '') {
    writeSync(descriptor, `${value}\n`);
    fsyncSync(descriptor);
  }
  closeSync(descriptor);
  if (value === '') rmSync(path, { force: true });
}
