/** Prints a secret that only one response contains. It goes alone to stdout, or to a file that only its owner can read. */
import { closeSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import { errorCode } from '../../shared/runtime/error-code.ts';
import type { Resource } from '../admin-client/answers.ts';
import { CliError, usageError } from '../terminal/errors.ts';
import type { Session } from '../terminal/session.ts';

/** Destination of a secret. A file is created before the command is sent, so that the secret always has a place to go. */
export interface SecretOutput {
  readonly file?: { readonly path: string; readonly descriptor: number };
}

/** Opens the output. Throws a usage error if the secret would be lost or an existing file overwritten. */
export function openSecretOutput(session: Session, file: string | undefined): SecretOutput {
  if (file === undefined) {
    if (session.out.format === 'name')
      throw usageError('-o name would lose the value, which is printed only once', 'add --out FILE');
    return {};
  }
  const path = resolve(session.io.cwd, file);
  try {
    return { file: { path, descriptor: openSync(path, 'wx', 0o600) } };
  } catch (error) {
    const exists = errorCode(error) === 'EEXIST';
    throw new CliError(exists ? `${file} already exists` : `${file} cannot be written`, {
      type: 'InvalidFile',
      next: 'choose another file with --out',
      cause: error,
    });
  }
}

/** Runs the command that creates the secret. If the command fails, deletes the file that was created for the secret. */
export async function createSecret<Made extends Resource>(
  place: SecretOutput,
  make: () => Promise<Made>,
): Promise<Made> {
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
  /** Line for stderr that names the key or token to which the secret belongs. */
  readonly summary: string;
  /** Command with which the user can revoke the secret. */
  readonly revoke: string;
}

/** Prints the secret. Throws a `CliError` if the response does not contain it, for example after a repeated command. */
export async function showSecret(
  session: Session,
  place: SecretOutput,
  resource: Resource,
  labels: SecretLabels,
): Promise<void> {
  const { value, ...rest } = resource;
  if (place.file) keep(place.file, typeof value === 'string' ? value : '');
  if (session.globals.dryRun) return session.out.resource(rest, { name: (it) => it['id'] });
  if (typeof value !== 'string')
    throw new CliError('it was created, but its value was not received', {
      type: 'ValueLost',
      why: 'the value is sent only once, and that response was lost',
      next: `${labels.revoke}, then create another`,
    });
  session.note(labels.summary);
  if (place.file) {
    session.note(`its value is in ${place.file.path}; it cannot be printed again`);
    return session.out.lines([String(resource['id'])], rest, resource['id']);
  }
  session.note('its value is printed only once and cannot be recovered');
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
