/** Routes for the signers of the log, and the view of them that the signer commands decide on. */
import type { FastifyInstance } from 'fastify';
import type { AdminResponse, ReplicaStatus } from '../../schemas/admin.ts';
import { fingerprintOf } from '../../shared/log/core/signing.ts';
import type { SigningView } from '../commands/definition.ts';
import { type AdminContext, parseQuery, readQuerySchema, stateFor } from './context.ts';

/** A replica that is silent for longer counts as stopped, ms. */
const silentMs = 10_000;

export function signingView({ snapshot, signer, board }: AdminContext): SigningView {
  const replicas = board
    .controlPlanes()
    .filter(({ seenMs }) => performance.now() - seenMs < silentMs)
    .map(({ report: { name, signer: key } }) => ({ name, signer: key }));
  return { signers: snapshot.head.signers, own: signer?.publicKey, replicas };
}

/** The part of the status document about signatures. */
export function signingStatus(
  signers: readonly string[],
  { signer }: AdminContext,
): Pick<ReplicaStatus, 'signers' | 'signer'> {
  return {
    signers: signers.map(fingerprintOf),
    ...(signer && { signer: fingerprintOf(signer.publicKey) }),
  };
}

export function registerSignerRoutes(app: FastifyInstance, context: AdminContext): void {
  app.get(
    '/signers',
    { config: { access: 'operator' }, schema: { summary: 'List the signers of the log' } },
    async (request): Promise<AdminResponse<'GET /signers'>> => {
      const state = await stateFor(context, parseQuery(readQuerySchema, request.query));
      const { replicas } = signingView(context);
      const items = state.head.signers.map((publicKey) => {
        const fingerprint = fingerprintOf(publicKey);
        const names = replicas.filter(({ signer }) => signer === fingerprint).map(({ name }) => name);
        return { fingerprint, publicKey, replicas: names };
      });
      return { items, position: state.seq };
    },
  );
}
