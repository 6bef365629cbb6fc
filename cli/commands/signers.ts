/** `headgate signer` manages the public keys whose signatures the log accepts. */
import { resolve } from 'node:path';
import type { OperationAnswer } from '../../schemas/admin/admin.ts';
import { computeFingerprint, normalisePublicKey } from '../../shared/log/core/signing.ts';
import { textOfNamed } from '../../shared/runtime/named-file.ts';
import { CliError } from '../terminal/errors.ts';
import { column, longColumn, type View } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { printWriteResult } from './answers.ts';
import { listVerb, type NounRow, writeVerb } from './operation-verbs.ts';

const signerView: View<OperationAnswer<'signer.list'>['items'][number]> = {
  columns: [
    column('FINGERPRINT', 'fingerprint'),
    longColumn('REPLICAS', 'replicas'),
    longColumn('PUBLIC-KEY', 'publicKey'),
  ],
  name: ({ fingerprint }) => fingerprint,
};

export const signers: NounRow = {
  noun: ['signer', 'keys that sign the log', 'deployed', 'headgate signer list'],
  verbs: [
    listVerb('signer.list', {
      verb: ['list', 'list the signers, and the control planes that use each', 'headgate signer list'],
      view: signerView,
    }),
    (signer) =>
      signer
        .verb(
          'add <public-key-file>',
          'accept another signing key; the first key turns signing on',
          'headgate signer add signing.pub',
        )
        .action(async (session, _options, file) => {
          const publicKey = readPublicKey(session, file);
          const answer = await (await session.api()).run('signer.add', { publicKey });
          await printWriteResult(session, answer, 'signer', computeFingerprint(publicKey), 'added');
        }),
    writeVerb('signer.remove', {
      verb: [
        'remove <fingerprint>',
        'stop accepting a signing key',
        'headgate signer remove FINGERPRINT --yes',
      ],
      confirm: ({ fingerprint }) => `remove the signer ${fingerprint}`,
      done: 'removed',
    }),
  ],
};

/** Reads a public key from a PEM file and converts it to the log's format. Throws a `CliError` with exit code 2. */
function readPublicKey(session: Session, file: string): string {
  try {
    return normalisePublicKey(textOfNamed(resolve(session.io.cwd, file)), file);
  } catch (error) {
    throw new CliError(error instanceof Error ? error.message : String(error), {
      type: 'InvalidFile',
      next: 'openssl pkey -in KEY-FILE -pubout -out PUBLIC-KEY-FILE',
      cause: error,
    });
  }
}
