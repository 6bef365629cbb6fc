/** Reads of the signers of the log. */
import type { ReplicaStatus } from '../../schemas/admin/admin.ts';
import { fingerprintOf } from '../../shared/log/core/signing.ts';
import { signingView } from '../gateways/signing-view.ts';
import { type AdminContext, pastReaderOf, stateFor } from './context.ts';
import type { OperationHandlers } from './operations.ts';

type Context = Pick<AdminContext, 'replica' | 'snapshot' | 'replicator' | 'signer' | 'past' | 'board'>;

/** The part of the status document about signatures. */
export function signingStatus(
  signers: readonly string[],
  { signer }: Context,
): Pick<ReplicaStatus, 'signers' | 'signer'> {
  return {
    signers: signers.map(fingerprintOf),
    ...(signer && { signer: fingerprintOf(signer.publicKey) }),
  };
}

export function signerHandlers(context: Context): OperationHandlers<'signer.list'> {
  return {
    'signer.list': async ({ query, request, reply }) => {
      const state = await stateFor(context, query, pastReaderOf(request, reply));
      const { replicas } = signingView(context);
      const items = state.head.signers.map((publicKey) => {
        const fingerprint = fingerprintOf(publicKey);
        const names = replicas.filter(({ signer }) => signer === fingerprint).map(({ name }) => name);
        return { fingerprint, publicKey, replicas: names };
      });
      return { items, position: state.seq };
    },
  };
}
