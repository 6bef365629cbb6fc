/** Routes that read the signers of the log. */
import type { ReplicaStatus } from '../../schemas/admin/admin.ts';
import { computeFingerprint } from '../../shared/log/core/signing.ts';
import { signingView } from '../gateways/signing-view.ts';
import { type AdminContext, createPastReader, openState } from './context.ts';
import type { OperationHandlers } from './operations.ts';

type Context = Pick<AdminContext, 'replica' | 'snapshot' | 'replicator' | 'signer' | 'past' | 'board'>;

export function signingStatus(
  signers: readonly string[],
  { signer }: Context,
): Pick<ReplicaStatus, 'signers' | 'signer'> {
  return {
    signers: signers.map(computeFingerprint),
    ...(signer && { signer: computeFingerprint(signer.publicKey) }),
  };
}

export function signerHandlers(context: Context): OperationHandlers<'signer.list'> {
  return {
    'signer.list': async ({ query, request, reply }) => {
      const state = await openState(context, query, createPastReader(request, reply));
      const { replicas } = signingView(context);
      const items = state.head.signers.map((publicKey) => {
        const fingerprint = computeFingerprint(publicKey);
        const names = replicas.filter(({ signer }) => signer === fingerprint).map(({ name }) => name);
        return { fingerprint, publicKey, replicas: names };
      });
      return { items, position: state.seq };
    },
  };
}
