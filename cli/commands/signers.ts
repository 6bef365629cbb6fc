/** `headgate signer`: the keys whose signatures are accepted on the log. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { fingerprintOf, publicKeyIn } from '../../shared/log/core/signing.ts';
import { textOfNamed } from '../../shared/runtime/named-file.ts';
import { confirmDestructive } from '../terminal/confirm.ts';
import { CliError } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import { column, longColumn, type View } from '../terminal/render.ts';
import { route } from '../terminal/route.ts';
import type { Session } from '../terminal/session.ts';
import { noun } from '../terminal/verbs.ts';
import { printWriteResult, showList } from './answers.ts';

const signerView: View = {
  columns: [
    column('FINGERPRINT', 'fingerprint'),
    longColumn('REPLICAS', 'replicas'),
    longColumn('PUBLIC-KEY', 'publicKey'),
  ],
  name: (resource) => resource['fingerprint'],
};

export function registerSigners(program: Command, io: Io): void {
  const signer = noun(program, io, 'signer', 'keys that sign the log', 'deployed', 'headgate signer list');
  signer
    .verb('list', 'list the signers, and the replicas that use each', 'headgate signer list')
    .action((session) => showList(session, '/signers', signerView));
  signer
    .verb(
      'add <public-key-file>',
      'accept another signing key; the first one turns signing on',
      'headgate signer add signing.pub',
    )
    .action(async (session, _options, file) => {
      const publicKey = readPublicKey(session, file);
      const resource = await (await session.api()).write('POST', '/signers', { publicKey });
      await printWriteResult(session, resource, 'signer', fingerprintOf(publicKey), 'added');
    });
  signer
    .verb(
      'remove <fingerprint>',
      'no longer accept a signing key',
      'headgate signer remove FINGERPRINT --yes',
    )
    .action(async (session, _options, fingerprint) => {
      await confirmDestructive(session, fingerprint, `remove the signer ${fingerprint}`);
      const resource = await (await session.api()).write('DELETE', route`/signers/${fingerprint}`);
      await printWriteResult(session, resource, 'signer', fingerprint, 'removed');
    });
}

/** A public key from a PEM file, in the form used in the log. Throws a CliError with exit 2. */
export function readPublicKey(session: Session, file: string): string {
  try {
    return publicKeyIn(textOfNamed(resolve(session.io.cwd, file)), file);
  } catch (error) {
    throw new CliError(error instanceof Error ? error.message : String(error), {
      type: 'InvalidFile',
      exitCode: 2,
      next: 'openssl pkey -in KEY-FILE -pubout -out PUBLIC-KEY-FILE',
      cause: error,
    });
  }
}
